// This file reads the flash settings of a Zephyr build. Those for openocd and pyocd are for the programmers of that
// name; any other of Zephyr's runners writes the image by "west flash".

package flasher

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A zephyrBuild is the folder of a Zephyr build, with the content of its runners.yaml.
type zephyrBuild struct {
	dir, file string // the folder; runners.yaml

	Runners   []string
	Preferred string `yaml:"flash-runner"` // the board's runner
	Config    struct {
		Board  string   `yaml:"board_dir"`
		Search []string `yaml:"openocd_search"`
	}
	Args map[string][]string // by runner
}

// newWest returns the programmer for a Zephyr build: that of the runner in the board file, else of the board's
// preferred runner or the first other one that is in programmers, so that sectors can be read back.
func newWest(c Config) (Programmer, error) {
	if c.Build == "" {
		return noBuild{}, nil
	}
	b, err := openZephyrBuild(c.Build)
	if err != nil {
		return nil, err
	}

	choice := append([]string{b.Preferred}, b.Runners...)
	if c.Flash.Runner != "" {
		choice = []string{c.Flash.Runner}
	}

	for _, name := range choice {
		// A copy: adopt changes it even if the build cannot be used.
		p, config := programmers[name], c
		if p.adopt == nil || !slices.Contains(b.Runners, name) {
			continue
		}
		if ok, err := p.adopt(b, &config); err != nil || ok {
			return p.create(config), err
		}
	}

	if !slices.Contains(b.Runners, choice[0]) {
		return nil, failure.New(failure.Config,
			"choose one as flash.runner in the board file, or add it to the board's board.cmake",
			"%s has no runner %q to flash with; it has: %s", b.file, choice[0], strings.Join(b.Runners, ", "))
	}
	return &westRunner{c, b, choice[0]}, nil
}

// openZephyrBuild reads a build's folder. Errors have class config.
func openZephyrBuild(dir string) (*zephyrBuild, error) {
	b := &zephyrBuild{dir: dir, file: filepath.Join(dir, "zephyr", "runners.yaml")}

	text, err := os.ReadFile(b.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failure.New(failure.Config, "build a Zephyr project, or choose another programmer",
			"%s is not the folder of a Zephyr build for a board that Zephyr can flash: %w", dir, err)
	case err != nil:
		return nil, fmt.Errorf("zephyr build: %w", err)
	}

	if err := yaml.Unmarshal(text, b); err != nil {
		return nil, failure.New(failure.Config, "build it again", "%s: %w", b.file, err)
	}
	return b, nil
}

// values returns the build's values of a runner's option.
func (b *zephyrBuild) values(runner, option string) (values []string) {
	args := b.Args[runner]
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, option+"="); ok {
			values = append(values, v)
		} else if a == option && i+1 < len(args) {
			values = append(values, args[i+1])
		}
	}
	return values
}

// lastValue returns the value of an option that counts once, "" if it is not given: a board's follow the defaults.
func lastValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// path returns a path in runners.yaml, which is absolute or relative to the build's folder.
func (b *zephyrBuild) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.dir, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// openocd adds the settings of Zephyr's runner for OpenOCD: the folders of scripts and the commands, unless the board
// file has scripts of its own. The build can flash with it if OpenOCD's own command writes the flash: other boards are
// only debugged with it, or have commands of their own.
func (b *zephyrBuild) openocd(c *Config) (ok bool, err error) {
	if !strings.HasPrefix(lastValue(b.values("openocd", "--cmd-load")), "flash write_image") ||
		len(b.values("openocd", "--cmd-pre-load")) > 0 || slices.Contains(b.Args["openocd"], "--use-elf") {
		return false, nil
	}
	if len(c.Flash.Scripts) > 0 {
		return true, nil
	}

	scripts, support := b.values("openocd", "--config"), filepath.Join(b.path(b.Config.Board), "support")

	// Without a configuration, Zephyr's runner reads the board's own file.
	if script := filepath.Join(support, "openocd.cfg"); len(scripts) == 0 && exists(script) {
		scripts = []string{script}
	}

	x := &c.extras
	if exists(support) {
		x.search = append(x.search, support)
	}

	for i, s := range scripts {
		switch path := b.path(s); {
		case exists(path):
			scripts[i], x.search = path, append(x.search, filepath.Dir(path))
		case filepath.IsAbs(s): // else it is one of OpenOCD's own
			return false, failure.New(failure.Config, "build it again, or give flash.scripts in the board file",
				"%s: openocd's configuration %s does not exist", b.file, s)
		}
	}

	for _, dir := range b.Config.Search {
		x.search = append(x.search, b.path(dir))
	}

	c.Flash.Scripts, x.preInit = scripts, b.values("openocd", "--cmd-pre-init")
	x.postVerify = b.values("openocd", "--cmd-post-verify")
	return len(scripts)+len(x.preInit) > 0, nil
}

// pyocd adds the settings of Zephyr's runner for pyOCD: the target, unless the board file has a chip, and its options
// for the session.
func (b *zephyrBuild) pyocd(c *Config) (ok bool, err error) {
	c.Flash.Chip = cmp.Or(c.Flash.Chip, lastValue(b.values("pyocd", "--target")))
	for _, f := range b.values("pyocd", "--frequency") {
		c.extras.options = append(c.extras.options, option("--frequency", f))
	}

	for _, o := range b.values("pyocd", "--flash-opt") {
		if o, ok := strings.CutPrefix(o, "-O"); ok {
			c.extras.options = append(c.extras.options, "-O"+strings.TrimSpace(o))
		}
	}
	return c.Flash.Chip != "", nil
}

// noBuild is the programmer of a device for which no Zephyr build is set: each of its methods returns an error.
type noBuild struct{}

func (noBuild) missing() error {
	return failure.New(failure.Config, "flash a Zephyr project that was built, or choose another programmer",
		"west flashes from the folder of a Zephyr build, and this image has none")
}

// Do implements Programmer.
func (u noBuild) Do(context.Context, Job) error { return u.missing() }

// Read returns the error.
func (u noBuild) Read(context.Context, []Range) ([]Segment, error) { return nil, u.missing() }

// Commands implements Programmer.
func (u noBuild) Commands(Job) []string { return []string{"# " + u.missing().Error()} }

// Files implements Programmer.
func (noBuild) Files(Job) []string { return nil }

// A westRunner writes images by "west flash" with one of Zephyr's runners, as a user of Zephyr does: the files are the
// build's, and the runner erases what it must. It reports no steps: only the firmware's answer verifies its work.
type westRunner struct {
	Config
	build  *zephyrBuild
	runner string
}

// flash returns "west flash" with the runner and further arguments, in Zephyr's folder. It does not build.
func (w *westRunner) flash(args ...string) (command.Command, error) {
	path, err := w.tool("west")
	if err != nil {
		return command.Command{}, err
	}

	file := filepath.Join(w.build.dir, "CMakeCache.txt")
	cache, err := os.ReadFile(file)
	if err != nil {
		return command.Command{}, failure.New(failure.Config, "build it again", "the folder of a Zephyr build: %w", err)
	}

	for line := range bytes.Lines(cache) {
		v, ok := bytes.CutPrefix(line, []byte("ZEPHYR_BASE:")) // NAME:TYPE=value
		if _, base, _ := strings.Cut(strings.TrimSpace(string(v)), "="); ok && base != "" {
			all := []string{"flash", option("--build-dir", w.build.dir), "--skip-rebuild", option("--runner", w.runner)}
			if w.Image != "" {
				all = append(all, option("--elf-file", w.Image))
			}

			run := w.command(path, append(all, args...), base)
			run.Env = []string{"PYTHONUNBUFFERED=1"} // the last line is the error
			return run, nil
		}
	}
	return command.Command{}, failure.New(failure.Config, "build it again", "%s does not contain Zephyr's folder", file)
}

// Zephyr's option that prints a runner's capabilities, and the part of the output if it can choose a probe.
const (
	capabilities = "--context"
	choosesProbe = "dev_id=True"
)

// probe returns the arguments that choose the probe.
func (w *westRunner) probe() []string {
	if w.Probe.Serial == "" || w.Probe.Emulated != nil {
		return nil
	}
	return []string{option("--dev-id", w.Probe.Serial)}
}

// probeIfChosen is probe for a runner that has the option. A runner without it chooses the probe itself.
func (w *westRunner) probeIfChosen(ctx context.Context) ([]string, error) {
	args := w.probe()
	if args == nil {
		return nil, nil
	}

	query, err := w.flash(capabilities)
	if err != nil {
		return nil, err
	}

	query.Timeout = connectTime
	output, _, err := query.Capture(ctx)
	switch {
	case err != nil:
		return nil, explain(err)
	case !strings.Contains(output, choosesProbe):
		return nil, nil
	case w.Probe.Shared:
		return nil, w.Probe.sharedSerialError("west's runner "+w.runner, "")
	}
	return args, nil
}

// Do implements Programmer.
func (w *westRunner) Do(ctx context.Context, j Job) error {
	if err := w.checkReserved(j); err != nil {
		return err
	}
	if len(j.Write) == 0 {
		return failure.New(failure.Config, "use "+nextstep.Option("Desk.Programmer", "pyocd")+" or the runner's own tool",
			"west's runner %s only writes images: it neither erases nor resets the board", w.runner)
	}
	if in, err := filepath.Rel(w.build.dir, w.Image); w.Image != "" && (err != nil || !filepath.IsLocal(in)) {
		return failure.New(failure.Config, "build it again",
			"west's runner %s writes the last build in %s, and %s is of another", w.runner, w.build.dir, w.Image)
	}

	args, err := w.probeIfChosen(ctx)
	if err != nil {
		return err
	}

	run, err := w.flash(args...)
	if err != nil {
		return err
	}

	// The runner reports no steps: each erase may begin once it runs.
	for _, s := range j.Erase {
		if j.Erasing != nil {
			j.Erasing(s.Addr)
		}
	}
	return explain(w.run(ctx, run, w.timeout(j), &toolRun{}))
}

// Commands implements Programmer.
func (w *westRunner) Commands(Job) []string {
	args := w.probe()
	run, err := w.flash(args...)

	query, err2 := w.flash(capabilities)
	switch {
	case err != nil || err2 != nil:
		return []string{"# " + errors.Join(err, err2).Error()}
	case args != nil:
		return []string{query.Typed(), run.Typed() + " # " + args[0] + " only after " + choosesProbe}
	}
	return []string{run.Typed()}
}

// Files implements Programmer.
func (w *westRunner) Files(Job) []string {
	return []string{filepath.Join(w.build.dir, "zephyr") + ": the build's, as the runner " + w.runner + " takes them"}
}
