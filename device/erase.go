// This file erases a board's flash on request. Flashing never erases all of it.

package device

import (
	"context"
	"time"

	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// Erase erases the board's flash except reserved regions. It erases only sectors that are not blank, or whose
// erasing was interrupted. When it returns nil, all of them were verified to be blank. Errors: as of Flash.
func (d *Device) Erase(ctx context.Context) (FlashReport, error) {
	if d.attachment == nil || !d.attachment.HasProbe() {
		return FlashReport{}, failure.New(failure.Config, chooseProbe, "board %s has no debug probe to erase it with",
			d.board.Name)
	}

	d.desk.Report(ProgressEvent{Step: "erase", Detail: d.board.Name})
	f := flashing{d: d, power: powerCycle{d: d}, facts: flashplan.Facts{Image: flashplan.Blank(d.board)}}
	if len(f.facts.Image.Sectors) == 0 {
		return FlashReport{}, failure.New(failure.Config,
			nextstep.Target("board:show")+" "+d.board.Name+" shows its memory map", "board %s has no flash with sectors",
			d.board.Name)
	}

	if err := f.identify(ctx); err != nil {
		return FlashReport{}, err
	}

	f.report.Reason = "erased, as asked"

	// A sector that is blank already is not worn further.
	if err := f.read(ctx); err != nil {
		return f.report, err
	}

	err := f.eraseDiffering(ctx)
	return f.report, err
}

// eraseDiffering erases the sectors that are not blank. The ledger is dirty meanwhile, as during flashing.
func (f *flashing) eraseDiffering(ctx context.Context) error {
	all := f.facts.Image.Sectors
	job := flasher.Job{Restart: true}
	for _, s := range f.facts.Differing() {
		job.Erase = append(job.Erase, s.Sector)
	}
	for _, s := range all {
		job.Verify = append(job.Verify, s.Segment())
	}

	if len(job.Erase) > 0 {
		if err := f.write(ctx, job); err != nil {
			return err
		}
	}

	e := &f.facts.Entry
	e.Dirty, e.Image, e.BuildID, e.LastReason = false, "", "", f.report.Reason
	e.Verified = time.Now().UTC().Round(time.Second)
	for _, s := range all {
		e.Sector(s.Addr, s.Size).Digest = s.Digest
	}
	return f.save()
}
