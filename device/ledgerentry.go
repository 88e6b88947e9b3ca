// This file keeps the ledger's entry of a chip while it is flashed. Each erase is counted before it begins, and not if
// it never began.

package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// do runs a job and counts its erases. It returns the sectors whose erasing may have begun; after success all of
// the job's. After an error it writes the ledger; the job's other sectors are unchanged.
func (f *flashing) do(ctx context.Context, job flasher.Job) (begun []boards.Sector, err error) {
	before := f.facts.Entry
	before.Sectors = slices.Clone(before.Sectors)
	if err := f.dirty(job.Erase); err != nil {
		f.facts.Entry = before
		return nil, err
	}
	told := map[uint64]bool{}
	job.Erasing = func(addr uint64) { told[addr] = true }
	err = f.d.attachment.programmer.Do(ctx, job)
	for _, s := range job.Erase {
		if err == nil || told[s.Addr] {
			begun = append(begun, s)
		}
	}
	f.report.Erased += len(begun)
	if err != nil {
		f.giveBack(before, begun, job.Erase, err)
		return begun, errors.Join(err, f.save())
	}
	return begun, nil
}

// dirty records that these sectors are about to be erased. It returns an error if their wear forbids that.
func (f *flashing) dirty(sectors []boards.Sector) error {
	e := &f.facts.Entry
	e.Dirty, e.Image, e.BuildID, e.LastWhy = true, "", "", f.report.Why
	e.Flashes++
	for _, s := range sectors {
		if n, rated := f.erases(s), f.rated(s.Addr); rated > 0 && n >= rated && !f.d.desk.Reflash {
			return &WearError{f.report.Device, f.perhaps.Device, s, n, rated}
		}
		entry := e.Sector(s.Addr, s.Size)
		entry.Erases++
		entry.Digest = ""
	}
	f.erasing = sectors
	f.warn()
	return f.save()
}

// erases returns how often a sector was erased, by the entry and by that of the chip that it may be.
func (f *flashing) erases(s boards.Sector) int {
	return f.facts.Entry.Sector(s.Addr, s.Size).Erases + f.perhaps.Sector(s.Addr, s.Size).Erases
}

func (f *flashing) rated(addr uint64) int {
	for _, s := range f.facts.Image.Sectors {
		if s.Addr == addr {
			return s.Rated
		}
	}
	return 0
}

// giveBack restores the entry of sectors whose erasing never began. If none began, the board's content is
// unchanged. A wrong chip is not a failed flash.
func (f *flashing) giveBack(before ledger.Entry, begun, all []boards.Sector, err error) {
	e := &f.facts.Entry
	if len(begun) == 0 {
		*e = before
		f.erasing, f.report.Warn = nil, nil
	}
	for _, s := range all {
		if !slices.Contains(begun, s) && len(begun) > 0 {
			*e.Sector(s.Addr, s.Size) = *before.Sector(s.Addr, s.Size)
		}
	}
	if other := new(flasher.ChipError); !errors.As(err, &other) {
		e.Failures++
	}
}

func (f *flashing) save() error {
	f.facts.Entry.Seen = time.Now().UTC()
	return f.d.attachment.ledger.Save(f.facts.Entry)
}

// warn adds the last job's sectors near the end of their rated life to the report.
func (f *flashing) warn() {
	f.report.Warn = nil
	for _, s := range f.erasing {
		if n, rated := f.erases(s), f.rated(s.Addr); (SectorWear{Erases: n, Rated: rated}).Worn() {
			f.report.Warn = append(f.report.Warn, fmt.Sprintf("%v: %d of %d erases", s, n, rated))
		}
	}
}
