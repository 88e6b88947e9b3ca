// This file flashes: it reads the board's state, decides, programs, verifies, and updates the ledger.

package device

import (
	"context"
	"errors"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/flashplan"
	"github.com/boardsmith/boardsmith/internal/ledger"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	flashAttempts = 3 // attempts to write sectors that did not verify
	bootAttempts  = 3 // requests for the identity of new firmware that has begun a session
)

// A FlashReport is the result of Flash.
type FlashReport struct {
	Wrote      int64    // bytes programmed
	Erased     int      // sectors erased
	Sectors    int      // sectors of the image
	Holds      bool     // the board was verified to hold the image, whether it answers or not
	Why        string   // the reason for what was written
	Device     string   // "chip:" and its id, else "probe:" and its serial; "" without a probe
	Programmer string   // the programmer
	Warn       []string // sectors near the end of their rated life
}

// program writes the image to the board as far as necessary.
func (d *Device) program(ctx context.Context, i *image.Image) (FlashReport, error) {
	if !d.attachment.hasProbe() {
		return d.holdsAlready(ctx, i)
	}
	img, err := flashplan.ImageOf(d.board, i)
	if err != nil {
		return FlashReport{}, err
	}
	if err := img.CheckProgrammer(d.board, d.attachment.programmerName); err != nil {
		return FlashReport{}, err
	}
	if err := d.attachment.take(i); err != nil {
		return FlashReport{}, err
	}
	if _, reads := d.attachment.programmer.(flasher.Reader); !reads {
		img.SetUnread()
	}
	f := flashing{d: d, power: powerCycle{d: d}, facts: flashplan.Facts{Image: img, Force: d.desk.Reflash}}
	if err := f.look(ctx); err != nil {
		return FlashReport{}, err
	}
	return f.run(ctx)
}

// holdsAlready is Flash of a device that nothing can program: its firmware must answer as the image, now.
func (d *Device) holdsAlready(ctx context.Context, i *image.Image) (FlashReport, error) {
	answer, err := d.greet(ctx, i)
	if err == nil {
		err = d.sameChip(answer.Chip)
	}
	var other *WrongImageError
	if errors.As(err, &other) || neverAnswered(err) && failure.Of(err) == failure.Boot {
		err = &NoProgrammerError{Board: d.board.Name, Image: i.Path, Err: err}
	}
	if err != nil {
		return FlashReport{}, err
	}
	why := "firmware answered with build " + i.ID()
	return FlashReport{
		Holds: true, Why: why, Device: d.attachment.entryOf(answer),
		Programmer: d.attachment.programmerName,
	}, nil
}

// A flashing is one run of program.
type flashing struct {
	d       *Device
	facts   flashplan.Facts
	perhaps ledger.Entry    // entry of the chip that an unidentified one may be; the zero value: unknown
	erasing []boards.Sector // sectors of the last job's erase
	report  FlashReport
	power   powerCycle
}

// look asks the firmware for its identity and opens the ledger's entry of the chip that answered, else of the
// probe. It returns a *WrongBoardError if known facts contradict the chosen board.
func (f *flashing) look(ctx context.Context) error {
	n := f.d.attachment
	// the board of an earlier flash may have been swapped
	n.chip = f.d.desk.File.noted(f.d.board.Name, n.address(), n.probe).Chip
	answer, err := f.d.ask(ctx, f.facts.Image.Image)
	if err != nil && !errors.As(err, new(*transport.SharedPortError)) { // the probe writes it all the same
		return err
	}
	f.facts.Answer = answer
	if err := f.plausible(); err != nil {
		return err
	}
	entry, err := f.known()
	if err != nil {
		return err
	}
	if entry.Lost != "" {
		f.d.desk.log().Warn("the ledger's file was damaged; erase counts restart at 0", "kept", entry.Lost)
	}
	entry.Probe, entry.Board = n.which(), f.d.board.Name
	f.facts.Entry, f.facts.InWork = entry, flashplan.InWork(entry)
	f.report = FlashReport{Device: entry.Device, Programmer: n.programmerName, Sectors: len(f.facts.Image.Sectors)}
	return f.suspect()
}

// run decides and acts until the board is verified to hold the image.
func (f *flashing) run(ctx context.Context) (FlashReport, error) {
	for attempt := 0; ; {
		decision := flashplan.Decide(f.facts)
		f.d.desk.log().Info("flash", "decision", decision.Why)
		if f.report.Wrote == 0 || decision.Action == flashplan.Write {
			f.report.Why = decision.Why
		}
		switch decision.Action {
		case flashplan.Nothing:
			return f.report, f.holds(ctx, f.facts.Held != nil || f.report.Erased > 0)
		case flashplan.Read:
			if err := f.read(ctx); err != nil && !f.power.helps(ctx, err) {
				return f.report, err
			}
		case flashplan.Write:
			err := f.write(ctx, f.facts.Image.Job(decision.Sectors))
			if err == nil {
				return f.report, f.holds(ctx, true)
			}
			var differs *flasher.VerifyError
			if attempt++; !errors.As(err, &differs) && !f.power.helps(ctx, err) || attempt == flashAttempts {
				return f.report, err
			}
			f.facts.Force, f.facts.Answer, f.facts.Held = false, nil, nil
		}
	}
}

// holds records that the board holds the image and, if the firmware was restarted, asks it for its identity. What the
// programmer cannot read back is held only if the firmware's checksum was right before.
func (f *flashing) holds(ctx context.Context, anew bool) error {
	if anew && f.facts.Image.HasUnread() {
		if _, err := f.greeted(ctx); err != nil {
			return err
		}
	}
	if err := f.clean(); err != nil {
		return err
	}
	f.report.Holds = true
	if !anew {
		return nil
	}
	return f.answers(ctx)
}

// answers asks the new firmware for its identity and assigns the flash to its chip.
func (f *flashing) answers(ctx context.Context) error {
	answer, err := f.greeted(ctx)
	if err != nil {
		return err
	}
	return f.identified(answer)
}

// greeted asks the new firmware for its identity until it answers as the image.
func (f *flashing) greeted(ctx context.Context) (*flashplan.Answer, error) {
	f.d.desk.Progress.Report(ProgressEvent{Step: "flash", Detail: "asking the new firmware"})
	for attempt := 1; ; attempt++ {
		answer, err := f.d.greet(ctx, f.facts.Image.Image)
		if err == nil {
			return answer, nil
		}
		// Firmware that has begun a session has started: a later loss is the link's.
		lost := ctx.Err() == nil && silent(err) && !neverAnswered(err) && attempt < bootAttempts
		if !lost && !f.power.helps(ctx, err) {
			return nil, f.d.diagnosed(ctx, f.facts.Image.Image, err)
		}
		f.d.desk.log().Debug("ask the new firmware again", "error", err)
	}
}

// read reads the image's sectors back, in one run of the programmer.
func (f *flashing) read(ctx context.Context) error {
	p, ok := f.d.attachment.programmer.(flasher.Reader)
	if !ok {
		return failure.New(failure.Config, "use "+failure.Option("Desk.Programmer", "pyocd")+" or its own tool",
			"board %s: this programmer cannot read its flash back", f.d.board.Name)
	}
	got, err := p.Read(ctx, f.facts.Image.Ranges())
	if err != nil {
		return err
	}
	f.facts.Held = f.facts.Image.DigestsOf(got)
	return nil
}

// write runs a job that erases. The ledger is dirty from before the first erase until all was verified, and counts
// each erase before it begins: after a crash a count may be too high, never too low. If the chip is a different
// one, nothing was erased.
func (f *flashing) write(ctx context.Context, job flasher.Job) error {
	begun, err := f.do(ctx, job)
	var differs *flasher.VerifyError
	for _, s := range begun { // a completely programmed sector is compared by its content
		f.facts.InWork[s.Addr] = err != nil && !errors.As(err, &differs)
	}
	if len(begun) > 0 {
		for _, s := range job.Write {
			f.report.Wrote += int64(len(s.Data))
		}
	}
	return err
}

// clean records that the board was just verified to hold the image.
func (f *flashing) clean() error {
	e := &f.facts.Entry
	e.Dirty, e.Image, e.BuildID = false, f.facts.Image.Digest, f.facts.Image.ID()
	e.Verified, e.LastWhy = time.Now().UTC().Round(time.Second), f.report.Why
	for _, s := range f.facts.Image.Sectors {
		e.Sector(s.Addr, s.Size).Digest = s.Digest
	}
	return f.save()
}
