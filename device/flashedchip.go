// This file decides which ledger entry a flash belongs to. A chip that does not respond is unidentified, whatever
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

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/flashplan"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// A SwappedError reports a board that holds the image now but whose chip is not the expected one. It did not
// respond before it was flashed. The ledger records the flash for the chip that answers.
type SwappedError struct {
	Board  string
	Chip   string // id of the chip that the new firmware answers from; "" if it has none
	Meant  string // the expected id, from desk.json or the firmware's answer before the flash
	Erased int    // sectors
}

func (e *SwappedError) Error() string {
	did := fmt.Sprintf("was flashed (%d sectors were erased) and verified", e.Erased)
	if e.Erased == 0 {
		did = "was verified, and nothing was written"
	}
	return fmt.Sprintf("board %s %s, but is not the expected one: its firmware answers from chip %s, not %s",
		e.Board, did, cmp.Or(e.Chip, "without an id"), e.Meant)
}

// FailureClass returns failure.Verify.
func (e *SwappedError) FailureClass() failure.Class { return failure.Verify }

// NextStep returns the next step for the user.
func (e *SwappedError) NextStep() string {
	return "connect the right board and flash it, or save the new one: " + failure.Option("DeskFile.Note", "")
}

// entryOf returns the name of the ledger's entry for an answer; nil: no answer.
func (n *attachment) entryOf(a *flashplan.Answer) string {
	if a == nil || a.Chip == "" {
		return n.probeEntry()
	}
	return "chip:" + a.Chip
}

// behind lists the entries of boards of that kind whose chip was last seen behind this probe, the latest first.
func (n *attachment) behind(board string) ([]ledger.Entry, error) {
	all, err := n.ledger.List()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e ledger.Entry) bool { return e.Probe != n.which() || e.Board != board })
	slices.SortFunc(all, func(a, b ledger.Entry) int { return b.Seen.Compare(a.Seen) })
	return all, nil
}

// suspect determines what an unidentified chip may be: any that was last seen behind its probe. Sectors whose write was
// interrupted on one of them are written again. Only the latest counts for wear; otherwise one worn chip would block
// all others permanently.
func (f *flashing) suspect() error {
	if f.facts.Answer != nil {
		return nil
	}
	all, err := f.d.attachment.behind(f.d.board.Name)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e ledger.Entry) bool { return e.Device == f.d.attachment.probeEntry() })
	for _, e := range all {
		for addr := range flashplan.InWork(e) {
			f.facts.InWork[addr] = true
		}
	}
	if len(all) > 0 {
		f.perhaps = all[0]
	}
	return nil
}

// known loads the entry of the chip that answered.
func (f *flashing) known() (ledger.Entry, error) {
	n := f.d.attachment
	e, err := n.ledger.Load(n.entryOf(f.facts.Answer))
	if err != nil || e.Device == n.probeEntry() {
		return e, err
	}
	return f.adopted(e)
}

// adopted adds to a chip's entry what was recorded under its probe before it answered, if the chip answers with the
// image that was written then, or if that flash failed. If the chip's own entry already has the build that it
// answers with, the unidentified chip may have been another: the probe's record then also stays, until an
// unidentified chip is flashed.
func (f *flashing) adopted(e ledger.Entry) (ledger.Entry, error) {
	n := f.d.attachment
	old, err := n.ledger.Load(n.probeEntry())
	if err != nil {
		return ledger.Entry{}, err
	}
	if !old.Seen.IsZero() && old.Seen.Equal(e.Adopted) {
		return e, nil // it was, and stayed
	}
	answers := hex.EncodeToString(f.facts.Answer.BuildID[:])
	if len(old.Sectors) == 0 || old.Board != f.d.board.Name || old.BuildID != answers && !old.Dirty {
		return e, nil
	}
	other := !e.Dirty && e.BuildID == answers
	e.Adopt(old)
	e.Probe, e.Board = n.which(), f.d.board.Name
	if err := n.ledger.Save(e); err != nil || other {
		return e, err
	}
	return e, n.ledger.Remove(old.Device)
}

// identified assigns the flash to the chip that the new firmware answers from. It returns a *SwappedError if
// another chip answered before or, unless forced, if desk.json has another chip.
func (f *flashing) identified(a *flashplan.Answer) error {
	n := f.d.attachment
	meant := n.chip
	switch {
	case a.Chip == "" || f.facts.Entry.Device == n.entryOf(a):
	case f.facts.Entry.Device == n.probeEntry():
		if err := f.move(n.entryOf(a)); err != nil {
			return err
		}
	default: // the chip that answered before was removed meanwhile: either may have been erased
		was := strings.TrimPrefix(f.facts.Entry.Device, "chip:")
		return errors.Join(&SwappedError{f.d.board.Name, a.Chip, was, f.report.Erased}, f.doubtAll())
	}
	if meant != "" && meant != a.Chip && !f.d.desk.Reflash {
		return &SwappedError{f.d.board.Name, a.Chip, meant, f.report.Erased}
	}
	n.chip = a.Chip
	return nil
}

// move moves the probe's record to the chip's entry.
func (f *flashing) move(device string) error {
	book, old := f.d.attachment.ledger, f.facts.Entry
	e, err := book.Load(device)
	if err != nil {
		return err
	}
	e.Adopt(old)
	e.Probe, e.Board, e.Seen = old.Probe, old.Board, time.Now().UTC()
	if err := book.Save(e); err != nil {
		return err
	}
	f.facts.Entry, f.report.Device = e, e.Device
	f.perhaps = ledger.Entry{}
	f.warn()
	return book.Remove(old.Device)
}

// doubtAll marks the contents of a chip as unverified that answered before the flash but not after it.
func (f *flashing) doubtAll() error {
	e := &f.facts.Entry
	e.Dirty, e.Image, e.BuildID = true, "", ""
	e.Failures++
	for _, s := range f.facts.Image.Sectors {
		e.Sector(s.Addr, s.Size).Digest = ""
	}
	f.report.Holds = false
	return f.save()
}
