// This file gets firmware onto boards: flash, wear, debug.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
)

// flash writes the image. The device stays attached for the targets after it.
func (s *invocation) flash(ctx context.Context) error {
	if s.Env.On("DRYRUN") {
		return s.planFlash(ctx)
	}
	image, err := s.built(ctx)
	if err != nil {
		return err
	}
	d, err := s.attached(ctx)
	if err != nil {
		return err
	}
	bar := s.Start("flash", 0)
	report, err := d.Flash(ctx, image)
	bar.End()
	err = firstError(err, s.project.RecordFlash(image, report, err))
	s.warnWorn(report)
	if err != nil {
		return s.notFlashed(ctx, report, err)
	}
	s.sameChip(report)
	r := s.imageFields(image)
	r["wrote"], r["erased"], r["why"] = report.Wrote, report.Erased, report.Why
	r["device"], r["tool"] = report.Device, report.Programmer
	if len(report.Warn) > 0 {
		r["worn"] = report.Warn
	}
	if report.Wrote == 0 {
		s.Printf("flash: up to date, nothing written: %s", report.Why)
		r["status"] = "up-to-date"
	} else {
		s.Printf("flash: wrote %s, erased %d of the image's %d sectors, verified, answers: %s", bytesText(report.Wrote), report.Erased, report.Sectors, report.Why)
	}
	s.JSONLine(r)
	return nil
}

// warnWorn names some of the sectors that are near their end.
func (s *invocation) warnWorn(report device.FlashReport) {
	const named = 3
	for i, w := range report.Warn {
		if i == named {
			s.Notef("warning: and %d more sectors; go tool mage wear lists them", len(report.Warn)-named)
			return
		}
		s.Notef("warning: %s is worn: %s", report.Device, w)
	}
}

// notFlashed says what an interrupted or failed flash leaves. Of one that wrote and verified the image, the error
// says so too.
func (s *invocation) notFlashed(ctx context.Context, report device.FlashReport, err error) error {
	if report.Erased == 0 {
		return err
	}
	if report.Holds {
		s.JSONLine(fields{"status": "written", "device": report.Device, "wrote": report.Wrote, "erased": report.Erased})
		return err
	}
	s.Notef("note: the flash of %s was begun and is not finished: the board is marked as dirty; go tool mage flash writes what is missing and verifies all", report.Device)
	s.JSONLine(fields{"status": "dirty", "device": report.Device, "erased": report.Erased})
	return err
}

// sameChip tells when desk.json has another chip under the device's name, which was flashed because that was forced.
func (s *invocation) sameChip(report device.FlashReport) {
	d := s.in.deskFile.Find(s.in.device)
	chip, known := strings.CutPrefix(report.Device, "chip:")
	if d != nil && d.Chip != "" && known && chip != d.Chip {
		s.Notef("warning: %s has chip %s, but by desk.json it has %s; SAVE=1 go tool mage devices notes the new one", d.Name, chip, d.Chip)
	}
}

// planFlash prints what flash would run.
func (s *invocation) planFlash(ctx context.Context) error {
	in, err := s.inputs()
	if err != nil {
		return err
	}
	plan, err := s.plan(ctx, in)
	if err != nil {
		return err
	}
	return s.printPlan(plan, fmt.Sprintf("flash %s to board %s", in.project, in.board.value))
}

// printPlan prints what would be run to do what the text says.
func (s *invocation) printPlan(plan device.Plan, text string) error {
	for _, f := range plan.Files {
		s.Printf("# %s", f)
	}
	for _, c := range plan.Flash {
		s.Printf("%s", c)
	}
	s.Printf("%s: would %s", s.Step(), text)
	s.JSONLine(fields{"status": "dry-run", "would": text, "commands": append([]string{}, plan.Flash...), "files": append([]string{}, plan.Files...)})
	return nil
}

// plan is what would be run for the image as it was last built; nothing where there is none.
func (s *invocation) plan(ctx context.Context, in *inputs) (device.Plan, error) {
	if s.project == nil {
		return device.Plan{}, nil
	}
	image, err := s.planned(in)
	if err != nil || image == nil {
		return device.Plan{}, err
	}
	return s.desk(in).Plan(ctx, s.project.Board(), in.device, image)
}

// erase erases the board's flash.
func (s *invocation) erase(ctx context.Context) error {
	in, b, err := s.boardOf()
	if err != nil {
		return err
	}
	if s.Env.On("DRYRUN") {
		plan, err := s.desk(in).PlanErase(ctx, b, in.device)
		if err != nil {
			return err
		}
		return s.printPlan(plan, fmt.Sprintf("erase the flash of board %s", b.Name))
	}
	d, err := s.attach(ctx, b, in.device, s.desk(in))
	if err != nil {
		return err
	}
	bar := s.Start("erase", 0)
	report, err := d.Erase(ctx)
	bar.End()
	err = firstError(err, d.Close())
	s.warnWorn(report)
	if err != nil {
		return s.notFlashed(ctx, report, err)
	}
	s.Printf("erase: erased %d of %d sectors of %s, the others were blank; all is verified to be", report.Erased, report.Sectors, report.Device)
	s.JSONLine(fields{"status": "done", "device": report.Device, "tool": report.Programmer, "erased": report.Erased, "sectors": report.Sectors})
	return nil
}

// planned is the image that a plan is for, nil if there is none yet. No board is asked which one it holds.
func (s *invocation) planned(in *inputs) (*image.Image, error) {
	if name := s.Env("IMAGE"); name != "" && name != imageOnBoard {
		return s.images().Find(name)
	}
	return s.project.Built()
}

// wear shows how often the sectors of the flash of each device were erased.
func (s *invocation) wear(context.Context) error {
	in, err := s.inputs()
	if err != nil {
		return err
	}
	list, err := s.desk(in).Wear()
	if err != nil {
		return err
	}
	shown := 0
	for _, w := range list {
		if in.device != "" && !s.isDevice(in, w) || s.Env("BOARD") != "" && w.Board != baseName(in.board.value) {
			continue
		}
		shown++
		s.printWear(w)
	}
	if shown == 0 {
		s.Printf("wear: nothing was flashed yet")
	}
	s.JSONLine(fields{"status": "done", "devices": shown})
	return nil
}

func (s *invocation) isDevice(in *inputs, w device.DeviceWear) bool {
	d := in.deskFile.Find(in.device)
	if d == nil {
		return w.Probe == in.device || strings.HasSuffix(w.Device, ":"+in.device)
	}
	if d.Chip != "" {
		return w.Device == "chip:"+d.Chip
	}
	return w.Probe == cmp.Or(d.Probe, d.Link.Path)
}

const (
	barWidth    = 30
	wornPercent = 80 // as package project warns
)

func (s *invocation) printWear(w device.DeviceWear) {
	state := "holds build " + w.BuildID
	switch {
	case w.Dirty:
		state = "dirty: a flash of it was not finished"
	case w.BuildID == "" && !w.Verified.IsZero():
		state = "holds no image: " + w.Why
	case w.BuildID == "":
		state = "what it holds is not known"
	}
	s.Printf("%s, board %s, probe %s: %d flashes, %d failed; %s", w.Device, w.Board, w.Probe, w.Flashes, w.Failures, state)
	var sectors []fields
	for _, c := range w.Sectors {
		r := fields{"region": c.Region, "sector": c.Index, "addr": c.Addr, "size": c.Size, "erases": c.Erases}
		text := fmt.Sprintf("  %-8s %4d  0x%08x %8s  %6d erases", c.Region, c.Index, c.Addr, bytesText(int64(c.Size)), c.Erases)
		if c.Rated > 0 {
			r["rated"] = c.Rated
			text += fmt.Sprintf(" of %6d  %s", c.Rated, wearBar(c.Erases, c.Rated))
		}
		s.Printf("%s", text)
		sectors = append(sectors, r)
	}
	r := fields{"status": "done", "device": w.Device, "board": w.Board, "probe": w.Probe, "build_id": w.BuildID, "dirty": w.Dirty, "flashes": w.Flashes, "failures": w.Failures, "why": w.Why, "sectors": sectors}
	if !w.Verified.IsZero() {
		r["verified"] = w.Verified.Format(time.RFC3339)
	}
	s.JSONLine(r)
}

// wearBar draws how much of a sector's rated life is gone: at least one mark for any erase.
func wearBar(erases, rated int) string {
	n := min(barWidth, (erases*barWidth+rated-1)/rated)
	percent := 100 * float64(erases) / float64(rated)
	text := fmt.Sprintf("[%s%s] %.3g %%", strings.Repeat("#", n), strings.Repeat(".", barWidth-n), percent)
	switch {
	case percent >= 100:
		text += " worn out: FORCE=1 writes to it all the same"
	case percent >= wornPercent:
		text += " worn"
	}
	return text
}

// debug flashes the image where the board does not hold it, and starts gdb on it.
func (s *invocation) debug(ctx context.Context) (err error) {
	if s.Env.On("DRYRUN") {
		return s.planDebug(ctx)
	}
	gdb, err := findProgram(s.Env, "gdb-multiarch")
	if err != nil {
		return err
	}
	if err := s.flash(ctx); err != nil {
		return err
	}
	d, err := s.attached(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, s.detach()) }()
	return d.Debug(ctx, func(ctx context.Context, address string) error {
		args := gdbArgs(s.project.Dir(), s.image.Path, address)
		s.Notef("running %s", typed(gdb, args))
		return s.runGDB(ctx, gdb, args)
	})
}

// gdbArgs start gdb on an image, connected, before its first instruction. The sources lie in the project's folder.
func gdbArgs(project, image, address string) []string {
	return []string{
		"-q", "-d", project, "-ex", "set confirm off", "-ex", "set pagination off", "-ex", "target extended-remote " + address,
		"-ex", "monitor reset halt", "-ex", "maintenance flush register-cache", image,
	}
}

// planDebug prints what debug would run.
func (s *invocation) planDebug(ctx context.Context) error {
	in, err := s.inputs()
	if err != nil {
		return err
	}
	plan, err := s.plan(ctx, in)
	if err != nil {
		return err
	}
	var commands []string
	if plan.Debug != "" {
		image, err := s.planned(in)
		if err != nil {
			return err
		}
		gdb := typed("gdb-multiarch", gdbArgs(shown(s.Dir, s.project.Dir()), shown(s.Dir, image.Path), "127.0.0.1:3333"))
		commands = []string{plan.Debug, gdb}
	}
	for _, c := range commands {
		s.Printf("%s", c)
	}
	text := fmt.Sprintf("debug %s on board %s", in.project, in.board.value)
	s.Printf("debug: would %s", text)
	s.JSONLine(fields{"status": "dry-run", "would": text, "commands": append([]string{}, commands...)})
	return nil
}

// typed is a command as one would type it in a shell.
func typed(program string, args []string) string {
	words := []string{program}
	for _, a := range args {
		if strings.ContainsAny(a, " '\"$\\") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// runGDB runs gdb on this process's own input and output; where stdout is for JSON lines, on stderr. On a terminal, Ctrl-C is
// gdb's.
func (s *invocation) runGDB(ctx context.Context, path string, args []string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if s.JSON() {
		cmd.Stdout = os.Stderr
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Second
	restore := foreground(cmd)
	defer restore()
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return nil // what a person did in gdb is no failure of ours
	}
	return err
}

// boardOf is the board that BOARD names, for targets that need no project.
func (s *invocation) boardOf() (*inputs, *boards.Board, error) {
	in, err := s.inputs()
	if err != nil {
		return nil, nil, err
	}
	b, err := boards.Find(in.board.value, in.path)
	if err != nil {
		return nil, nil, err
	}
	if d := in.deskFile.Find(in.device); d != nil && d.Board != b.Name {
		return nil, nil, failure.New(failure.Config, "leave BOARD out", "%s in desk.json is a %s, not a %s", d.Name, d.Board, b.Name)
	}
	return in, b, nil
}
