// This file writes and erases the flash of boards.

package targets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
)

// flash writes the image. The device stays attached for later targets.
func (v *invocation) flash(ctx context.Context) error {
	if v.Env.On("DRYRUN") {
		return v.dryRunFlash(ctx)
	}
	image, err := v.built(ctx)
	if err != nil {
		return err
	}
	d, err := v.attached(ctx)
	if err != nil {
		return err
	}
	bar := v.Start("flash", 0)
	report, err := d.Flash(ctx, image)
	bar.End()
	err = errors.Join(err, v.project.RecordFlash(image, report, err))
	v.warnWorn(report)
	if err != nil {
		return v.notFlashed(ctx, report, err)
	}
	v.sameChip(report)
	r := jsonlines.Flash{
		Image: v.imageLine(image), Wrote: report.Wrote, Erased: report.Erased, Why: report.Why,
		Device: report.Device, Programmer: report.Programmer, Worn: report.Warn,
	}
	if report.Wrote == 0 {
		v.Printf("flash: up to date, nothing written: %s", report.Why)
		r.Status = jsonlines.StatusUpToDate
	} else {
		v.Printf("flash: wrote %s, erased %d of the image's %d sectors, verified, answers: %s", valuetext.Bytes(report.Wrote),
			report.Erased, report.Sectors, report.Why)
	}
	v.JSONLine(r)
	return nil
}

// warnWorn names some of the sectors that are near their end.
func (v *invocation) warnWorn(report device.FlashReport) {
	const named = 3
	for i, w := range report.Warn {
		if i == named {
			v.Notef("warning: and %d more sectors; %s lists them", len(report.Warn)-named, v.Mage("wear"))
			return
		}
		v.Notef("warning: %s is worn: %s", report.Device, w)
	}
}

// notFlashed prints the state after an interrupted or failed flash. If the image was written and verified, the error
// reports that itself.
func (v *invocation) notFlashed(ctx context.Context, report device.FlashReport, err error) error {
	if report.Erased == 0 {
		return err
	}
	if report.Holds {
		v.JSONLine(jsonlines.Unfinished{
			Status: jsonlines.StatusWritten, Device: report.Device, Wrote: report.Wrote, Erased: report.Erased,
		})
		return err
	}
	v.Notef("note: flashing %s was not finished: the board is marked as dirty; %s writes what is missing and verifies "+
		"all", report.Device, v.Mage("flash"))
	v.JSONLine(jsonlines.Unfinished{Status: jsonlines.StatusDirty, Device: report.Device, Erased: report.Erased})
	return err
}

// sameChip warns if FORCE flashed a chip that differs from desk.json's for the device.
func (v *invocation) sameChip(report device.FlashReport) {
	d := v.in.DeskFile.Find(v.in.Device)
	chip, known := strings.CutPrefix(report.Device, "chip:")
	if d != nil && d.Chip != "" && known && chip != d.Chip {
		v.Notef("warning: %s has chip %s, but desk.json has %s; SAVE=1 %s saves the new one", d.Name, chip, d.Chip,
			v.Mage("devices"))
	}
}

// dryRunFlash prints the commands of flash.
func (v *invocation) dryRunFlash(ctx context.Context) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	would, err := v.commands(ctx, in)
	if err != nil {
		return err
	}
	return v.printCommands(would, fmt.Sprintf("flash %s to board %s", in.Project, in.Board.Value))
}

// printCommands prints the commands of an action.
func (v *invocation) printCommands(would device.Commands, text string) error {
	for _, f := range would.Files {
		v.Printf("# %s", f)
	}
	for _, c := range would.Flash {
		v.Printf("%s", c)
	}
	v.Printf("%s: would %s", v.Step(), text)
	v.JSONLine(jsonlines.DryRun{
		Status: jsonlines.StatusDryRun, Would: text, Commands: append([]string{}, would.Flash...),
		Files: append([]string{}, would.Files...),
	})
	return nil
}

// commands returns the commands for the last built image, or nothing without one.
func (v *invocation) commands(ctx context.Context, in *inputs.Inputs) (device.Commands, error) {
	if v.project == nil {
		return device.Commands{}, nil
	}
	image, err := v.planned(in)
	if err != nil || image == nil {
		return device.Commands{}, err
	}
	return v.desk(in).FlashCommands(ctx, v.project.Board(), in.Device, image)
}

// erase erases the board's flash.
func (v *invocation) erase(ctx context.Context) error {
	in, b, err := v.boardOf(ctx)
	if err != nil {
		return err
	}
	if v.Env.On("DRYRUN") {
		would, err := v.desk(in).EraseCommands(ctx, b, in.Device)
		if err != nil {
			return err
		}
		return v.printCommands(would, fmt.Sprintf("erase the flash of board %s", b.Name))
	}
	d, err := v.attach(ctx, b, in.Device, v.desk(in))
	if err != nil {
		return err
	}
	bar := v.Start("erase", 0)
	report, err := d.Erase(ctx)
	bar.End()
	err = errors.Join(err, d.Close())
	v.warnWorn(report)
	if err != nil {
		return v.notFlashed(ctx, report, err)
	}
	v.Printf("erase: erased %d of %d sectors of %s, the others were blank; all verified", report.Erased, report.Sectors,
		report.Device)
	v.JSONLine(jsonlines.Erase{
		Device: report.Device, Programmer: report.Programmer, Erased: report.Erased, Sectors: report.Sectors,
	})
	return nil
}

// planned returns the image of a dry run, or nil if there is none. It does not ask the board.
func (v *invocation) planned(in *inputs.Inputs) (*image.Image, error) {
	if name := v.Env("IMAGE"); name != "" && name != imageOnBoard {
		return v.images().Find(name)
	}
	return v.project.Built()
}
