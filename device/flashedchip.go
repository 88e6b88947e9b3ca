// This file selects the ledger's entry of a flash. A chip that does not respond is unidentified, whatever
// was last seen behind its probe: its flashes are recorded under the probe, and moved to the chip's entry when it
// responds.

package device

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// swapped returns the error, of class verify, of a board that holds the image now but whose chip, which did not respond
// before, is not the expected one, of desk.json or of the firmware's answer before the flash. The ledger records the
// flash for the chip that answers.
func (f *flashing) swapped(chip, expected string) error {
	result := fmt.Sprintf("was flashed (%d sectors were erased) and verified", f.report.Erased)
	if f.report.Erased == 0 {
		result = "was verified, and nothing was written"
	}
	return failure.New(failure.Verify, "connect the right board and flash it, or save the new one: "+
		nextstep.Option("DeskFile.Note", ""),
		"board %s %s, but is not the expected one: its firmware answers from chip %s, not %s", f.d.board.Name, result,
		cmp.Or(chip, "without an id"), expected)
}

// entryName returns the name of the ledger's entry for an answer; nil: no answer.
func (d *Device) entryName(a *flashplan.Answer) string {
	if a == nil || a.Chip == "" {
		return d.attachment.LedgerName()
	}
	return "chip:" + a.Chip
}

// entriesBehindProbe lists the entries of the device's board whose chip was last seen behind its probe, the latest
// first.
func (d *Device) entriesBehindProbe() ([]ledger.Entry, error) {
	all, err := d.ledger.List()
	if err != nil {
		return nil, err
	}

	probe := d.attachment.Which()
	all = slices.DeleteFunc(all, func(e ledger.Entry) bool { return e.Probe != probe || e.Board != d.board.Name })
	slices.SortFunc(all, func(a, b ledger.Entry) int { return b.Seen.Compare(a.Seen) })
	return all, nil
}

// findSuspect determines what an unidentified chip may be: any that was last seen behind its probe. Sectors whose write
// was interrupted on one of them are written again. Only the latest counts for wear; otherwise one worn chip would
// block all others permanently.
func (f *flashing) findSuspect() error {
	if f.facts.Answer != nil {
		return nil
	}
	all, err := f.d.entriesBehindProbe()
	if err != nil {
		return err
	}

	// The probe's own record is of the unidentified chip itself.
	all = slices.DeleteFunc(all, func(e ledger.Entry) bool { return e.Device == f.d.attachment.LedgerName() })
	for _, e := range all {
		for addr := range flashplan.Interrupted(e) {
			f.facts.Interrupted[addr] = true
		}
	}

	// the latest: the list is sorted
	if len(all) > 0 {
		f.suspect = all[0]
	}
	return nil
}

// loadEntry loads the entry of the chip that answered, else of the probe.
func (f *flashing) loadEntry() (ledger.Entry, error) {
	e, err := f.d.ledger.Load(f.d.entryName(f.facts.Answer))
	if err != nil || e.Device == f.d.attachment.LedgerName() {
		return e, err
	}
	return f.adoptProbeEntry(e)
}

// adoptProbeEntry adds to a chip's entry what was recorded under its probe before it answered, if the chip answers with
// the image that was written then, or if that flash failed. If the chip's own entry already has the build that it
// answers with, the unidentified chip may have been another: the probe's record then also stays, until an unidentified
// chip is flashed.
func (f *flashing) adoptProbeEntry(e ledger.Entry) (ledger.Entry, error) {
	old, err := f.d.ledger.Load(f.d.attachment.LedgerName())
	if err != nil {
		return ledger.Entry{}, err
	}

	if !old.Seen.IsZero() && old.Seen.Equal(e.Adopted) {
		return e, nil // adopted before, and not removed
	}

	buildID := hex.EncodeToString(f.facts.Answer.BuildID[:])
	if len(old.Sectors) == 0 || old.Board != f.d.board.Name || old.BuildID != buildID && !old.Dirty {
		return e, nil
	}

	mayBeOther := !e.Dirty && e.BuildID == buildID
	e.Adopt(old)
	e.Probe, e.Board = f.d.attachment.Which(), f.d.board.Name

	// Saved before the old entry is removed: after a crash between them, Adopted shows that it was counted.
	if err := f.d.ledger.Save(e); err != nil || mayBeOther {
		return e, err
	}
	return e, f.d.ledger.Remove(old.Device)
}

// assignChip assigns the flash to the chip that the new firmware answers from. It returns the error of swapped if
// another chip answered before or, unless forced, if desk.json has another chip.
func (f *flashing) assignChip(a *flashplan.Answer) error {
	expected := f.d.chip
	switch {
	case a.Chip == "" || f.facts.Entry.Device == f.d.entryName(a):
	case f.facts.Entry.Device == f.d.attachment.LedgerName():
		if err := f.moveEntry(f.d.entryName(a)); err != nil {
			return err
		}
	default: // the chip that answered before was removed meanwhile: either may have been erased
		before := strings.TrimPrefix(f.facts.Entry.Device, "chip:")
		return errors.Join(f.swapped(a.Chip, before), f.invalidateEntry())
	}

	if expected != "" && expected != a.Chip && !f.d.desk.Reflash {
		return f.swapped(a.Chip, expected)
	}
	f.d.chip = a.Chip
	return nil
}

// moveEntry moves the probe's record to the chip's entry.
func (f *flashing) moveEntry(device string) error {
	old := f.facts.Entry
	e, err := f.d.ledger.Load(device)
	if err != nil {
		return err
	}

	e.Adopt(old)
	e.Probe, e.Board, e.Seen = old.Probe, old.Board, time.Now().UTC()
	if err := f.d.ledger.Save(e); err != nil {
		return err
	}

	f.facts.Entry, f.report.Device = e, e.Device
	f.suspect = ledger.Entry{}
	f.warn()

	// Removed last, as in adoptProbeEntry.
	return f.d.ledger.Remove(old.Device)
}

// invalidateEntry marks the contents of a chip as unverified that answered before the flash but not after it.
func (f *flashing) invalidateEntry() error {
	e := &f.facts.Entry
	e.Dirty, e.Image, e.BuildID = true, "", ""
	e.Failures++

	for _, s := range f.facts.Image.Sectors {
		e.Sector(s.Addr, s.Size).Digest = ""
	}

	f.report.Verified = false
	return f.save()
}
