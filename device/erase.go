// This file erases a board's flash on request. Flashing never erases all of it.

package device

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/progress"
)

// Erase erases the board's flash except reserved regions. It erases only sectors that are not blank, or whose
// erasing was interrupted. When it returns nil, all of them were verified to be blank. Errors: as of Flash.
func (d *Device) Erase(ctx context.Context) (FlashReport, error) {
	if d.attachment == nil || !d.attachment.hasProbe() {
		return FlashReport{}, failure.New(failure.Config, chooseProbe, "board %s has no debug probe to erase it with",
			d.board.Name)
	}
	d.desk.Progress.Tell(progress.Event{Step: "erase", Detail: d.board.Name})
	f := flashing{d: d, power: powerCycle{d: d}, facts: flashFacts{image: blankFlash(d.board)}}
	if len(f.facts.image.sectors) == 0 {
		return FlashReport{}, failure.New(failure.Config, failure.Target("board:show")+" shows the board's memory map",
			"board %s has no flash with sectors", d.board.Name)
	}
	if err := f.look(ctx); err != nil {
		return FlashReport{}, err
	}
	f.report.Why = "erased, as asked"
	if err := f.read(ctx); err != nil {
		return f.report, err
	}
	return f.report, f.erase(ctx)
}

// blankFlash returns blank flash contents, without reserved regions.
func blankFlash(b *boards.Board) *flashImage {
	img := &flashImage{Image: &image.Image{Board: b.Name}}
	for _, r := range b.Memory {
		if !r.Nonvolatile || r.Reserved {
			continue
		}
		at, index := uint64(r.Origin), 0
		for _, run := range r.Sectors {
			data := bytes.Repeat([]byte{erasedByte}, int(run.Size))
			sum := sha256.Sum256(data)
			for range run.Count {
				s := flasher.Sector{Index: index, Addr: at, Size: uint64(run.Size)}
				img.sectors = append(img.sectors,
					imageSector{Sector: s, data: data, digest: hex.EncodeToString(sum[:]), rated: r.EraseCycles})
				at, index = at+s.Size, index+1
			}
		}
	}
	return img
}

// erase erases the sectors that are not blank. The ledger is dirty meanwhile, as during flashing.
func (f *flashing) erase(ctx context.Context) error {
	all := f.facts.image.sectors
	job := flasher.Job{Restart: true}
	filled := differing(all, func(s imageSector) string { return f.facts.held[s.Addr] })
	for _, s := range f.facts.withInWork("", filled).sectors {
		job.Erase = append(job.Erase, s.Sector)
	}
	for _, s := range all {
		job.Verify = append(job.Verify, s.segment())
	}
	if len(job.Erase) > 0 {
		if err := f.write(ctx, job); err != nil {
			return err
		}
	}
	e := &f.facts.entry
	e.Dirty, e.Image, e.BuildID, e.LastWhy = false, "", "", f.report.Why
	e.Verified = time.Now().UTC().Round(time.Second)
	for _, s := range all {
		e.Sector(s.Addr, s.Size).Digest = s.digest
	}
	return f.save()
}
