// This file runs a programmer's jobs and keeps the ledger's entry of a chip meanwhile. Each erase is counted before it
// begins, and the count is restored if it never began.

package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
)

// A FlashReport is the result of Flash.
type FlashReport struct {
	Wrote      int64    `json:"wrote"`         // bytes programmed
	Erased     int      `json:"erased"`        // sectors erased
	Sectors    int      `json:"sectors"`       // sectors of the image; of Erase, all that are not reserved
	Verified   bool     `json:"-"`             // the board was verified to hold the image, whether it answers or not
	Reason     string   `json:"reason"`        // the reason for what was written
	Device     string   `json:"device"`        // "chip:" and its id, else "probe:" and its serial; "" without a probe
	Programmer string   `json:"programmer"`    // the programmer
	Warnings   []string `json:"worn,omitzero"` // sectors near the end of their rated life
}

// A flashing is one run of Flash or Erase.
type flashing struct {
	d       *Device
	facts   flashplan.Facts
	suspect ledger.Entry    // entry of the chip that an unidentified one may be; the zero value: unknown
	erasing []boards.Sector // sectors of the last job's erase
	report  FlashReport
	power   powerCycle
}

// write runs a job that erases. The ledger is dirty from before the first erase until all was verified, and counts
// each erase before it begins: after a crash a count may be too high, never too low. If the chip is a different
// one, nothing was erased.
func (f *flashing) write(ctx context.Context, job flasher.Job) error {
	begun, err := f.runJob(ctx, job)
	for _, s := range begun { // a completely programmed sector is compared by its content
		f.facts.Interrupted[s.Addr] = err != nil && failure.Of(err) != failure.Verify
	}

	if len(begun) > 0 {
		for _, s := range job.Write {
			f.report.Wrote += int64(len(s.Data))
		}
	}
	return err
}

// runJob runs a job and counts its erases. It returns the sectors whose erasing may have begun; after success all of
// the job's. After an error it writes the ledger; the job's other sectors are unchanged.
func (f *flashing) runJob(ctx context.Context, job flasher.Job) (begun []boards.Sector, err error) {
	// Counting changes the sectors in place, and no erase may be counted if the job does not begin.
	before := f.facts.Entry
	before.Sectors = slices.Clone(before.Sectors)
	if err := f.countErases(job.Erase); err != nil {
		f.facts.Entry = before
		return nil, err
	}

	reported := map[uint64]bool{} // addresses
	job.Erasing = func(addr uint64) { reported[addr] = true }
	err = f.d.attachment.Programmer.Do(ctx, job)
	for _, s := range job.Erase {
		if err == nil || reported[s.Addr] {
			begun = append(begun, s)
		}
	}

	f.report.Erased += len(begun)
	if err != nil {
		f.uncountErases(before, begun, job.Erase, err)
		return begun, errors.Join(err, f.save())
	}
	return begun, nil
}

// countErases records that these sectors are about to be erased: *WearError if their wear forbids that.
func (f *flashing) countErases(sectors []boards.Sector) error {
	e := &f.facts.Entry
	e.Dirty, e.Image, e.BuildID, e.LastReason = true, "", "", f.report.Reason
	e.Flashes++
	for _, s := range sectors {
		if n, rated := f.erases(s), f.rated(s.Addr); rated > 0 && n >= rated && !f.d.desk.Reflash {
			return &WearError{f.report.Device, f.suspect.Device, s, n, rated}
		}
		entry := e.Sector(s.Addr, s.Size)
		entry.Erases++
		entry.Digest = ""
	}

	f.erasing = sectors
	f.warn()
	return f.save()
}

// uncountErases restores the entry of sectors whose erasing never began. If none began, the board's content is
// unchanged. A wrong chip is not a failed flash.
func (f *flashing) uncountErases(before ledger.Entry, begun, all []boards.Sector, err error) {
	e := &f.facts.Entry
	if len(begun) == 0 {
		*e = before
		f.erasing, f.report.Warnings = nil, nil
	}

	for _, s := range all {
		if !slices.Contains(begun, s) && len(begun) > 0 {
			*e.Sector(s.Addr, s.Size) = *before.Sector(s.Addr, s.Size)
		}
	}

	if !errors.Is(err, flasher.ErrOtherChip) {
		e.Failures++
	}
}

// erases returns how often a sector was erased, by the entry and by that of the chip that it may be.
func (f *flashing) erases(s boards.Sector) int {
	return f.facts.Entry.Sector(s.Addr, s.Size).Erases + f.suspect.Sector(s.Addr, s.Size).Erases
}

func (f *flashing) rated(addr uint64) int {
	for _, s := range f.facts.Image.Sectors {
		if s.Addr == addr {
			return s.Rated
		}
	}
	return 0
}

func (f *flashing) save() error {
	f.facts.Entry.Seen = time.Now().UTC()
	return f.d.ledger.Save(f.facts.Entry)
}

// warn sets the report's list of the last job's sectors near the end of their rated life.
func (f *flashing) warn() {
	f.report.Warnings = nil
	for _, s := range f.erasing {
		if n, rated := f.erases(s), f.rated(s.Addr); (SectorWear{Erases: n, Rated: rated}).Worn() {
			f.report.Warnings = append(f.report.Warnings, fmt.Sprintf("%v: %d of %d erases", s, n, rated))
		}
	}
}
