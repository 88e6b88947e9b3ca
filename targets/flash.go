// This file writes and erases the flash of boards.

package targets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Flash writes the built firmware to the board, as far as it differs, and verifies. DEVICE names one of several boards,
// WAIT waits for it, IMAGE is an earlier firmware, FORCE=1 writes all, DRYRUN=1 lists the steps: docs/devices.md.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	FIXED_INPUT  with APP=standalone: .npz with the inputs that are compiled in [those of the project]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	IMAGE        an earlier firmware, by the beginning of its build id or SHA-256 [the project's build]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      writes the whole image, beyond the rated erases, also if another board is named
//	DRYRUN=1     prints what would be done, without doing it; also the programmer's commands, with VERBOSE=1
func Flash(ctx context.Context) error { return doFlash(ctx) }

var doFlash = jobTarget("flash", "", flashImage)

// flashInputs are the variables of flash.
type flashInputs struct{ inputs.OfImage }

// flashImage writes the image. The device stays attached for later targets.
func flashImage(ctx context.Context, j *job, _ flashInputs) error {
	if j.DryRun {
		return dryRunFlash(ctx, j)
	}
	image, err := j.built(ctx)
	if err != nil {
		return err
	}

	d, err := j.attached(ctx)
	if err != nil {
		return err
	}

	bar := j.Start("flash", 0)
	report, err := d.Flash(ctx, image)
	bar.End()
	// Also after a failure: the history has failed flashes, too.
	err = errors.Join(err, j.project.RecordFlash(image, report, err))
	warnWorn(j.Console, report)

	if err != nil {
		return notFlashed(j.Console, report, err)
	}

	warnOtherChip(j, report)

	r := jsonlines.Flash{Firmware: j.imageLine(image), FlashReport: report}
	if report.Wrote == 0 {
		j.Printf("flash: up to date, nothing written: %s", report.Reason)
		r.Status = jsonlines.StatusUpToDate
	} else {
		j.Printf("flash: wrote %s, erased %d of the image's %d sectors, verified, answers: %s", format.Bytes(report.Wrote),
			report.Erased, report.Sectors, report.Reason)
	}

	j.JSONLine(r)
	return nil
}

// warnWorn names some of the sectors that are near their end.
func warnWorn(c *console.Console, report device.FlashReport) {
	const named = 3
	for i, w := range report.Warnings {
		if i == named {
			c.Notef("warning: and %d more sectors; %s lists them", len(report.Warnings)-named, c.Mage("wear"))
			return
		}
		c.Notef("warning: %s is worn: %s", report.Device, w)
	}
}

// notFlashed prints the state after an interrupted or failed flash. If the image was written and verified, the error
// reports that itself.
func notFlashed(c *console.Console, report device.FlashReport, err error) error {
	if report.Erased == 0 {
		return err
	}

	if report.Verified {
		c.JSONLine(jsonlines.Unfinished{Status: jsonlines.StatusWritten, FlashReport: report})
		return err
	}

	c.Notef("note: flashing %s was not finished: the board is marked as dirty; %s writes what is missing and verifies "+
		"all", report.Device, c.Mage("flash"))
	c.JSONLine(jsonlines.Unfinished{Status: jsonlines.StatusDirty, FlashReport: report})
	return err
}

// warnOtherChip warns if FORCE flashed a chip that differs from desk.json's for the device.
func warnOtherChip(j *job, report device.FlashReport) {
	d := j.in.DeskFile.Find(j.in.Device)
	chip, isChip := strings.CutPrefix(report.Device, "chip:")
	if d != nil && d.Chip != "" && isChip && chip != d.Chip {
		j.Notef("warning: %s has chip %s, but desk.json has %s; SAVE=1 %s saves the new one", d.Name, chip, d.Chip,
			j.Mage("devices"))
	}
}

// dryRunFlash prints the commands for the last built image, if there is one.
func dryRunFlash(ctx context.Context, j *job) error {
	if err := j.check(ctx); err != nil {
		return err
	}

	text := fmt.Sprintf("flash %s to board %s", j.in.Project, j.in.Board)
	image, err := planned(j)
	if err != nil {
		return err
	}

	if image == nil {
		return j.Would("%s", text)
	}

	b := j.project.Board()
	would, err := j.desk().FlashCommands(ctx, b, j.in.Device, image)
	if err != nil {
		return err
	}
	if len(would.Flash) == 0 && !b.Link.Remote() {
		return j.Would("write nothing: the image is loaded when the link opens")
	}

	known, err := j.desk().Wear()
	if err != nil {
		return err
	}

	// Only the ledger is asked: a dry run does not use the device.
	holds := func(w device.DeviceWear) bool {
		return w.Board == b.Name && w.BuildID == image.ID() && !w.Dirty && (j.in.Device == "" || namesDevice(j, w))
	}
	if i := slices.IndexFunc(known, holds); i >= 0 && !j.in.Force {
		text += fmt.Sprintf("; by the ledger, %s holds the last image: nothing is written if that is up to date and the "+
			"firmware confirms it", known[i].Device)
	}

	return printCommands(j.Console, would, text)
}

// printCommands prints an action, and with VERBOSE=1 its commands.
func printCommands(c *console.Console, would device.Commands, text string) error {
	more := ""
	switch {
	case c.Verbose:
		for _, f := range would.Files {
			c.Printf("# %s", f)
		}
		for _, command := range would.Flash {
			c.Printf("%s", command)
		}
	case len(would.Flash) > 0:
		more = "; VERBOSE=1 prints the programmer's commands"
	}

	c.Printf("%s: would %s%s", c.Step(), text, more)
	if would.Missing != nil {
		c.Notef("note: it would fail now: %v", would.Missing)
	}

	c.JSONLine(jsonlines.DryRun{
		Status: jsonlines.StatusDryRun, Would: text, Commands: append([]string{}, would.Flash...),
		Files: append([]string{}, would.Files...),
	})
	return nil
}

// Erase erases the board's flash but for what its file reserves, and verifies it.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	FORCE=1      ignores that another board is named
//	DRYRUN=1     prints what would be done, without doing it; also the programmer's commands, with VERBOSE=1
func Erase(ctx context.Context) error { return doErase(ctx) }

var doErase = jobTarget("erase", "", eraseFlash)

// eraseInputs are the variables of erase.
type eraseInputs struct {
	inputs.OfModel
	inputs.OnDevice
	inputs.Dry
}

func eraseFlash(ctx context.Context, j *job, _ eraseInputs) error {
	b, err := j.board()
	if err != nil {
		return err
	}

	if j.DryRun {
		would, err := j.desk().EraseCommands(ctx, b, j.in.Device)
		if err != nil {
			return err
		}
		return printCommands(j.Console, would, fmt.Sprintf("erase the flash of board %s", b.Name))
	}

	d, err := attach(ctx, j.Console, b, j.in.Device, j.desk())
	if err != nil {
		return err
	}

	bar := j.Start("erase", 0)
	report, err := d.Erase(ctx)
	bar.End()

	err = errors.Join(err, d.Close())
	warnWorn(j.Console, report)
	if err != nil {
		return notFlashed(j.Console, report, err)
	}

	j.Printf("erase: erased %d of %d sectors of %s, the others were blank; all verified", report.Erased, report.Sectors,
		report.Device)
	j.JSONLine(jsonlines.Erase{FlashReport: report})
	return nil
}
