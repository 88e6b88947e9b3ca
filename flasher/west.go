// This file runs west, Zephyr's own tool: "west flash" in the folder of a Zephyr build, which contains the settings for
// its board. West's runner starts openocd or pyocd with the job's commands, so that only the job's sectors are erased
// and all data are read back.

package flasher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

type west struct{ Config }

func newWest(c Config) Programmer { return &west{c} }

// A westRunner does jobs through one of west's runners.
type westRunner interface {
	do(ctx context.Context, dir string, j Job) error
	read(ctx context.Context, dir string, ranges []Range) error
	commands(j Job) []string
	files(j Job) []string
}

// runner returns which of the build's runners to use.
func (w *west) runner() (westRunner, error) {
	b, err := openZephyrBuild(w.Build)
	if err != nil {
		return nil, err
	}
	switch b.runner() {
	case "openocd":
		return &westOpenOCD{w.Config, b}, nil
	case "pyocd":
		c := w.Config
		if c.Flash.Chip == "" {
			c.Flash.Chip = b.argument("pyocd", "--target")
		}
		if c.Flash.Chip == "" {
			return nil, failure.New(failure.Config, "give flash.chip in the board file", "%s has no target for pyocd", b.file)
		}
		return &westPyOCD{c, b, &pyocd{c}}, nil
	}
	return nil, failure.New(failure.Config,
		"add one to the board's board.cmake, as in include(${ZEPHYR_BASE}/boards/common/openocd.board.cmake)",
		"%s has no runner that can verify (openocd, pyocd); it has %s", b.file, strings.Join(b.runners, ", "))
}

// Commands implements Programmer. It returns none for a folder that cannot be used.
func (w *west) Commands(j Job) []string {
	r, err := w.runner()
	if err != nil {
		return []string{"# " + err.Error()}
	}
	return r.commands(j)
}

// Files implements Programmer.
func (w *west) Files(j Job) []string {
	r, err := w.runner()
	if err != nil {
		return nil // Commands tells
	}
	return r.files(j)
}

// Do implements Programmer.
func (w *west) Do(ctx context.Context, j Job) error {
	if err := w.allows(j); err != nil {
		return err
	}
	r, err := w.runner()
	if err != nil {
		return err
	}
	return inFolder(ctx, func(dir string) error { return r.do(ctx, dir, j) })
}

// Read implements Programmer.
func (w *west) Read(ctx context.Context, ranges []Range) (got []Segment, err error) {
	r, err := w.runner()
	if err != nil {
		return nil, err
	}
	err = inFolder(ctx, func(dir string) error {
		if err := r.read(ctx, dir, ranges); err != nil {
			return explain(err)
		}
		got, err = readBack(dir, ranges)
		return err
	})
	return got, err
}

const jobHex = "job.hex"

// flash returns a "west flash" of job.hex with that runner, in the working folder dir. It does not build.
func (c Config) flash(b *zephyrBuild, dir, runner string, args []string) (command.Command, error) {
	path, err := c.Find("west")
	if err != nil {
		return command.Command{}, err
	}
	all := append([]string{
		"flash", option("--build-dir", b.dir), "--skip-rebuild", option("--runner", runner), option("--hex-file", jobHex),
	}, args...)
	cmd := c.command(path, all, dir)
	cmd.Env = []string{"ZEPHYR_BASE=" + b.base}
	return cmd, nil
}

// typed returns that command for display.
func (c Config) typed(b *zephyrBuild, runner string, args []string) string {
	cmd, err := c.flash(b, "", runner, args)
	if err != nil {
		return "# " + err.Error()
	}
	return "ZEPHYR_BASE=" + command.Quote(b.base) + " " + cmd.Typed()
}

type westOpenOCD struct {
	Config
	build *zephyrBuild
}

const virtualConfig = "virtual.cfg"

// args makes openocd do these steps. The last one ends it before west's own commands.
func (w *westOpenOCD) args(dir string, steps []string) []string {
	args := []string{option("--openocd", w.where("openocd"))}
	if w.Probe.Emulated != nil {
		args = append(args, option("--openocd-search", dir), option("--config", filepath.Join(dir, virtualConfig)))
	}
	for _, c := range append([]string{noServers(noGDB)}, w.chooseProbe()...) {
		args = append(args, option("--cmd-pre-init", c))
	}
	for _, s := range steps {
		args = append(args, option("--cmd-pre-load", s))
	}
	return append(args, option("--cmd-load", "echo"), option("--cmd-verify", "echo"))
}

func (w *westOpenOCD) commands(j Job) []string {
	return []string{w.typed(w.build, "openocd", w.args(".", w.openocdSteps(&toolRun{}, j)))}
}

func (w *westOpenOCD) files(j Job) []string {
	r := &toolRun{}
	w.openocdSteps(r, j)
	return append([]string{jobHex + ": nothing, west only asks for one"}, r.texts()...)
}

func (w *westOpenOCD) do(ctx context.Context, dir string, j Job) error {
	r := &toolRun{}
	steps := w.openocdSteps(r, j)
	if err := r.write(dir); err != nil {
		return err
	}
	return openocdVerdict(w.chipVerdict(w.execute(ctx, dir, steps, r, w.timeout(j))), j)
}

func (w *westOpenOCD) read(ctx context.Context, dir string, ranges []Range) error {
	r := &toolRun{}
	steps := openocdReads(r, ranges)
	return w.execute(ctx, dir, steps, r, w.readTimeout(ranges))
}

func (w *westOpenOCD) execute(ctx context.Context, dir string, steps []string, r *toolRun,
	timeout time.Duration,
) error {
	o := &openocd{w.Config}
	if _, err := o.find(); err != nil {
		return err
	}
	if err := errors.Join(writeHex(filepath.Join(dir, jobHex), nil), o.shadow(dir), w.virtual(dir)); err != nil {
		return err
	}
	cmd, err := w.flash(w.build, dir, "openocd", w.args(dir, steps))
	if err != nil {
		return err
	}
	return w.run(ctx, cmd, timeout, r)
}

// virtual replaces the board's configuration if its probe is emulated.
func (w *westOpenOCD) virtual(dir string) error {
	v := w.Probe.Emulated
	if v == nil {
		return nil
	}
	lines := v.openocd()
	for _, s := range w.Flash.Scripts {
		if !strings.HasPrefix(s, "interface/") {
			lines = append(lines, "source [find "+tclWord(s)+"]")
		}
	}
	text := strings.Join(lines, "\n") + "\n"
	return os.WriteFile(filepath.Join(dir, virtualConfig), []byte(text), 0o644)
}

// A westPyOCD writes through west, which erases exactly what it writes. It runs pyOCD directly to reset the chip,
// erase the job's first sector, write its last segment and read back. The core stays halted between runs.
type westPyOCD struct {
	Config
	build *zephyrBuild
	pyocd *pyocd
}

// parts splits a job into the parts before, by and after west. A job without writes is done after; one with a
// single segment is done by west.
func (w *westPyOCD) parts(j Job) (before Job, middle []Segment, after Job) {
	if len(j.Write) == 0 {
		return Job{}, nil, j
	}
	before.first, before.Erasing = true, j.Erasing
	middle, after = j.Write, Job{Verify: j.Verify, Restart: j.Restart}
	if n := len(j.Write); n > 1 {
		middle, after.Write = j.Write[:n-1], j.Write[n-1:]
	}
	for _, s := range j.Erase {
		if !touches(middle, s) {
			before.Erase = append(before.Erase, s)
		}
	}
	return before, middle, after
}

func touches(list []Segment, s boards.Sector) bool {
	return slices.ContainsFunc(list, func(m Segment) bool { return m.Addr < s.Addr+s.Size && s.Addr < m.End() })
}

func (w *westPyOCD) args() ([]string, error) {
	args := []string{option("--pyocd", w.where("pyocd"))}
	uid, err := w.Probe.pyocdUID()
	if uid != "" {
		args = append(args, option("--board-id", uid))
	}
	for _, o := range []string{
		"--no-config", "--no-wait", "--no-reset", "-Oauto_unlock=false", "-Oresume_on_disconnect=false",
	} {
		args = append(args, option("--flash-opt", o))
	}
	return args, err
}

func (w *westPyOCD) commands(j Job) (all []string) {
	before, middle, after := w.parts(j)
	if len(middle) > 0 {
		args, err := w.args()
		if err != nil {
			return []string{"# " + err.Error()}
		}
		all = append(w.pyocd.Commands(before), w.typed(w.build, "pyocd", args))
	}
	return append(all, w.pyocd.Commands(after)...)
}

func (w *westPyOCD) files(j Job) (all []string) {
	_, middle, after := w.parts(j)
	for _, s := range merged(middle) {
		all = append(all, fmt.Sprintf("%s: %d bytes for 0x%08x", jobHex, len(s.Data), s.Addr))
	}
	return append(all, w.pyocd.Files(after)...)
}

func (w *westPyOCD) do(ctx context.Context, dir string, j Job) error {
	before, middle, after := w.parts(j)
	if len(middle) > 0 {
		if err := w.pyocd.Do(ctx, before); err != nil {
			return err
		}
		if err := w.write(ctx, dir, middle, j); err != nil {
			return explain(err)
		}
	}
	return w.pyocd.Do(ctx, after)
}

// write makes west write these segments of a job and erase their sectors. West's runner prints no marks: only
// reading back shows what it wrote, and every erasing may have begun once it was started.
func (w *westPyOCD) write(ctx context.Context, dir string, segments []Segment, j Job) error {
	if _, err := w.Find("pyocd"); err != nil {
		return err
	}
	if err := writeHex(filepath.Join(dir, jobHex), segments); err != nil {
		return err
	}
	args, err := w.args()
	if err != nil {
		return err
	}
	cmd, err := w.flash(w.build, dir, "pyocd", args)
	if err != nil {
		return err
	}
	for _, s := range j.Erase {
		if j.Erasing != nil && touches(segments, s) {
			j.Erasing(s.Addr)
		}
	}
	return w.run(ctx, cmd, w.timeout(j), &toolRun{})
}

func (w *westPyOCD) read(ctx context.Context, dir string, ranges []Range) error {
	return w.pyocd.readInto(ctx, dir, ranges)
}
