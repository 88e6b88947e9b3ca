// This file flashes: it identifies the board, decides what to write, programs, verifies, and updates the ledger.

package device

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	flashAttempts = 3 // attempts to write sectors that did not verify
	bootAttempts  = 3 // requests for the identity of new firmware that has begun a session
)

// Flash writes the image to the device as far as necessary. When it returns nil, the flash was verified and the new
// firmware has answered. Errors before any write: class config for a board without a programmer that does not hold
// the image, and if recorded facts contradict the chosen board; *WearError. Class verify if another chip or firmware
// answers; class boot if none does; those of the programmer; if the board was plugged in elsewhere, class config if
// several may be it and, if another process leases that place, *LeaseError.
func (d *Device) Flash(ctx context.Context, i *image.Image) (FlashReport, error) {
	if ctx.Err() != nil {
		return FlashReport{}, failure.Stopped(ctx, "flash")
	}
	i, err := d.accept(i)
	if err != nil {
		return FlashReport{}, err
	}

	d.desk.Report(ProgressEvent{Step: "flash", Detail: d.board.Name})
	if d.attachment == nil {
		return FlashReport{Reason: "the image is loaded when the link opens"}, nil
	}

	d.desk.images().Keep(i) // for the time when the board reports its build id
	return d.program(ctx, i)
}

// program writes the image to the board as far as necessary.
func (d *Device) program(ctx context.Context, i *image.Image) (FlashReport, error) {
	if !d.attachment.HasProbe() {
		return d.verifyHeld(ctx, i)
	}

	img, err := flashplan.ContentOf(d.board, i)
	if err != nil {
		return FlashReport{}, err
	}
	if err := img.CheckProgrammer(d.board, d.attachment.ProgrammerName); err != nil {
		return FlashReport{}, err
	}

	// west needs both: it writes the files of the build.
	if err := d.attachment.SetImage(i.Path, i.BuildDir); err != nil {
		return FlashReport{}, err
	}
	if _, reads := d.attachment.Programmer.(flashReader); !reads {
		img.SetUnreadable()
	}

	f := flashing{d: d, power: powerCycle{d: d}, facts: flashplan.Facts{Image: img, Force: d.desk.Reflash}}
	if err := f.identify(ctx); err != nil {
		return FlashReport{}, err
	}
	return f.run(ctx)
}

// verifyHeld is Flash of a device that has no programmer: its firmware must already be the image.
func (d *Device) verifyHeld(ctx context.Context, i *image.Image) (FlashReport, error) {
	parts, err := d.partsOf(i)
	if err != nil {
		return FlashReport{}, err
	}

	answer, err := d.verifyStarted(ctx, i, parts)
	if err == nil {
		err = d.verifyChip(answer.Chip)
	}
	if fault := d.startFault(err, i); fault != nil && fault.Build == "" {
		return FlashReport{}, d.silenceError(err, i) // it runs the image
	}

	// Silence or another build: the image must be written first, for which there is no programmer.
	isSilent := failure.Of(err) == failure.Boot && errors.As(err, new(*transport.HandshakeError))
	if isSilent || failure.Of(err) == failure.Verify {
		err = failure.New(failure.Config, "write "+i.Path+" to it with the board's own tool and try again, or name a "+
			"programmer in its board file", "board %s has no programmer, and does not run the image: %w", d.board.Name, err)
	}

	if err != nil {
		return FlashReport{}, err
	}

	return FlashReport{
		Verified: true, Reason: "firmware answered with build " + i.ID(), Device: d.entryName(answer),
		Programmer: d.attachment.ProgrammerName,
	}, nil
}

// identify queries the firmware's identity and loads the ledger's entry of the chip that answered, else of the probe.
// It returns an error of class config if recorded facts contradict the chosen board.
func (f *flashing) identify(ctx context.Context) error {
	a := f.d.attachment
	f.d.chip = a.Entry().Chip // the board of an earlier flash may have been swapped

	answer, err := f.d.probeRunning(ctx, f.facts.Image.Image)
	if err != nil && !errors.Is(err, transport.ErrSharedPort) { // flashing needs only the probe
		return err
	}

	f.facts.Answer = answer
	if err := f.checkBoard(); err != nil {
		return err
	}

	entry, err := f.loadEntry()
	if err != nil {
		return err
	}
	if entry.Lost != "" {
		f.d.desk.log().Warn("the ledger's file was damaged; erase counts restart at 0", "kept", entry.Lost)
	}

	entry.Probe, entry.Board = a.Which(), f.d.board.Name
	f.facts.Entry, f.facts.Interrupted = entry, flashplan.Interrupted(entry)
	f.report = FlashReport{Device: entry.Device, Programmer: a.ProgrammerName, Sectors: len(f.facts.Image.Sectors)}
	return f.findSuspect()
}

// checkBoard returns an error of class config if recorded facts contradict the chosen board, unless Desk.Reflash is
// set.
func (f *flashing) checkBoard() error {
	a, k, board := f.d.attachment, f.d.desk, f.d.board
	if board.Identification.Address == 0 {
		k.log().Warn("the chip was not identified: the board file has no identification register", "board", board.Name)
	}

	all, err := f.d.ledger.List()
	if err != nil {
		return err
	}

	evidence := desk.Evidence{Board: board.Name, Probe: a.Which(), Entries: a.Entries(), File: k.File, Ledger: all}
	if answer := f.facts.Answer; answer != nil {
		evidence.Answered, evidence.Chip, evidence.BuildID = true, answer.Chip, hex.EncodeToString(answer.BuildID[:])
		if answer.BuildID != f.facts.Image.BuildID {
			evidence.BuiltFor = k.boardOfBuild(evidence.BuildID, all)
		}
	}

	contradictions := evidence.Contradictions()
	if len(contradictions) == 0 {
		return nil
	}

	wrong := desk.WrongBoard(board.Name, contradictions...)
	if !k.Reflash {
		return wrong
	}
	k.log().Warn("flashing anyway, as requested", "error", wrong)
	return nil
}

// boardOfBuild returns the board that a build is for, from the cache or the ledger, or "".
func (k *Desk) boardOfBuild(buildID string, entries []ledger.Entry) string {
	if i, err := k.images().Find(buildID); err == nil {
		return i.Board
	}

	for _, e := range entries {
		if e.BuildID == buildID {
			return e.Board
		}
	}
	return ""
}

// run decides and acts until the board is verified to hold the image.
func (f *flashing) run(ctx context.Context) (FlashReport, error) {
	for attempt := 0; ; {
		decision := flashplan.Decide(f.facts)
		f.d.desk.log().Info("flash", "decision", decision.Reason)
		if f.report.Wrote == 0 || decision.Action == flashplan.Write {
			f.report.Reason = decision.Reason
		}

		switch decision.Action {
		case flashplan.Nothing:
			err := f.complete(ctx, f.facts.ReadBack != nil || f.report.Erased > 0)
			return f.report, err
		case flashplan.Read:
			if err := f.read(ctx); err != nil && !f.power.cycle(ctx, err) {
				return f.report, err
			}
		case flashplan.Write:
			err := f.write(ctx, f.facts.Image.Job(decision.Sectors))
			if err == nil {
				err := f.complete(ctx, true)
				return f.report, err
			}

			if attempt++; failure.Of(err) != failure.Verify && !f.power.cycle(ctx, err) || attempt == flashAttempts {
				return f.report, err
			}

			// No fact from before the write counts any more, and the ledger is dirty.
			f.facts.Force, f.facts.Answer, f.facts.ReadBack = false, nil, nil
		}
	}
}

// complete records that the board holds the image and, if the firmware was restarted, verifies the firmware and assigns
// the flash to its chip. Sectors that the programmer cannot read back are recorded only after the firmware's checksum
// was verified.
func (f *flashing) complete(ctx context.Context, restarted bool) error {
	if restarted && f.facts.Image.HasUnreadable() {
		if _, err := f.verifyBoot(ctx); err != nil {
			return err
		}
	}

	// Saved first: a flash that was read back holds the image even if the firmware does not start.
	if err := f.saveHeld(); err != nil {
		return err
	}
	f.report.Verified = true
	if !restarted {
		return nil
	}

	answer, err := f.verifyBoot(ctx)
	if err != nil {
		return err
	}
	return f.assignChip(answer)
}

// verifyBoot verifies that the new firmware runs. It repeats the query if the link was lost, and once after a power
// cycle. Errors: class boot; those of verifyStarted.
func (f *flashing) verifyBoot(ctx context.Context) (*flashplan.Answer, error) {
	f.d.desk.Report(ProgressEvent{Step: "flash", Detail: "asking the new firmware"})
	for attempt := 1; ; attempt++ {
		answer, err := f.d.verifyStarted(ctx, f.facts.Image.Image, f.facts.Image.Parts)
		if err == nil {
			return answer, nil
		}
		// Firmware that has begun a session has started: a later loss is the link's.
		begun := !errors.As(err, new(*transport.HandshakeError))
		lost := begun && ctx.Err() == nil && isUnresponsive(err) && attempt < bootAttempts
		if !lost && !f.power.cycle(ctx, err) {
			return nil, f.d.bootError(ctx, f.facts.Image.Image, err)
		}
		f.d.desk.log().Debug("query the new firmware again", "error", err)
	}
}

// read reads the image's sectors back, in one run of the programmer.
func (f *flashing) read(ctx context.Context) error {
	p, ok := f.d.attachment.Programmer.(flashReader)
	if !ok {
		return failure.New(failure.Config, "use "+nextstep.Option("Desk.Programmer", "pyocd")+" or its own tool",
			"board %s: this programmer cannot read its flash back", f.d.board.Name)
	}

	got, err := p.Read(ctx, f.facts.Image.Ranges())
	if err != nil {
		return err
	}
	f.facts.ReadBack = f.facts.Image.DigestsOf(got)
	return nil
}

// saveHeld records that the board was just verified to hold the image.
func (f *flashing) saveHeld() error {
	e := &f.facts.Entry
	e.Dirty, e.Image, e.BuildID = false, f.facts.Image.Digest, f.facts.Image.ID()
	e.Verified, e.LastReason = time.Now().UTC().Round(time.Second), f.report.Reason

	for _, s := range f.facts.Image.Sectors {
		e.Sector(s.Addr, s.Size).Digest = s.Digest
	}
	return f.save()
}
