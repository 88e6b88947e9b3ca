// This file holds a device against what desk.json, the ledger, its chip's id and its firmware say of it: several kinds of
// board are the same on USB, and a cable is soon in another board.

package device

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// A WrongBoardError is a device that something names otherwise than its user does. Nothing was written.
type WrongBoardError struct {
	Board    string   // that was asked for
	Evidence []string // against it, in words
}

func (e *WrongBoardError) Error() string {
	return fmt.Sprintf("the device may not be the board %s that is meant: %s", e.Board, strings.Join(e.Evidence, "; "))
}

// FailureClass says that the choice of the device is at fault.
func (e *WrongBoardError) FailureClass() failure.Class { return failure.Config }

// NextStep says how to go on.
func (e *WrongBoardError) NextStep() string {
	return "choose the right BOARD and DEVICE, or save the change: SAVE=1 " + failure.Mage + " devices; FORCE=1 flashes anyway"
}

// identityFacts are what is known of a device besides what its user says.
type identityFacts struct {
	board   string          // that the user says it is
	which   string          // its probe, as the ledger names it
	noted   []DeskDevice    // by desk.json behind its probe or port
	file    *DeskFile       // all of it; nil: there is none
	ledger  []ledger.Entry  // all of it
	answer  *firmwareAnswer // nil: it did not answer
	builtAs string          // the board that the answering firmware was built for; "" if that is not known
}

// against lists what says that the device is not the board. A chip's id is the chip's own; a probe may have been moved, so
// what is known of the probe counts where the ledger does not know the chip, and desk.json, which people write, before the ledger.
func (f identityFacts) against() (evidence []string) {
	say := func(format string, args ...any) { evidence = append(evidence, fmt.Sprintf(format, args...)) }
	ours := func(d DeskDevice) bool { return d.Board == f.board }
	if !slices.ContainsFunc(f.noted, ours) {
		for _, d := range f.noted {
			say("by desk.json %s, a board %s, is behind this probe", d.Name, d.Board)
		}
	}
	if f.answer != nil && f.builtAs != "" && f.builtAs != f.board {
		say("it runs build %x, which was made for board %s", f.answer.buildID, f.builtAs)
	}
	known := false // the ledger knows the chip
	if f.answer != nil && f.answer.chip != "" {
		evidence = append(evidence, f.againstChip(f.answer.chip)...)
		known = slices.ContainsFunc(f.ledger, func(e ledger.Entry) bool { return e.Device == "chip:"+f.answer.chip })
	}
	if e := f.lastBehindProbe(); !known && len(f.noted) == 0 && e.Board != "" && e.Board != f.board {
		say("by the ledger a board %s was behind this probe", e.Board)
	}
	return evidence
}

// againstChip is the same of a chip that has said its id.
func (f identityFacts) againstChip(chip string) (evidence []string) {
	say := func(format string, args ...any) { evidence = append(evidence, fmt.Sprintf(format, args...)) }
	for _, d := range f.noted {
		if d.Board == f.board && d.Chip != "" && d.Chip != chip {
			say("the firmware answers from chip %s, not %s, which %s has by desk.json", chip, d.Chip, d.Name)
		}
	}
	if f.file != nil {
		for _, d := range f.file.Devices {
			if d.Chip == chip && d.Board != f.board {
				say("by desk.json chip %s is that of %s, a board %s", chip, d.Name, d.Board)
			}
		}
	}
	for _, e := range f.ledger {
		if e.Device == "chip:"+chip && e.Board != "" && e.Board != f.board {
			say("by the ledger chip %s is on a board %s", chip, e.Board)
		}
	}
	return evidence
}

// lastBehindProbe is the device that was last seen behind the probe; the zero value if none was.
func (f identityFacts) lastBehindProbe() (last ledger.Entry) {
	for _, e := range f.ledger {
		if e.Probe == f.which && e.Seen.After(last.Seen) {
			last = e
		}
	}
	return last
}

// plausible refuses a device that is another board by what is known of it, unless that is forced.
func (f *flashing) plausible() error {
	n, desk := f.d.attachment, f.d.desk
	if f.d.board.Identification.Address == 0 {
		desk.log().Warn("whether the chip is the board's is not known: the board file names no identification register", "board", f.d.board.Name)
	}
	all, err := n.ledger.List()
	if err != nil {
		return err
	}
	facts := identityFacts{board: f.d.board.Name, which: n.which(), noted: desk.File.behind(n), file: desk.File, ledger: all, answer: f.facts.answer}
	if a := f.facts.answer; a != nil && a.buildID != f.facts.image.BuildID {
		facts.builtAs = desk.boardOf(a.buildID, all)
	}
	evidence := facts.against()
	if len(evidence) == 0 {
		return nil
	}
	wrong := &WrongBoardError{f.d.board.Name, evidence}
	if !desk.Reflash {
		return wrong
	}
	desk.log().Warn("flashed all the same, as asked", "error", wrong)
	return nil
}

// boardOf is the board that a build was made for, by the cache or the ledger; "" if neither knows it.
func (k *Desk) boardOf(buildID [16]byte, known []ledger.Entry) string {
	id := hex.EncodeToString(buildID[:])
	if i, err := k.images().Find(id); err == nil {
		return i.Board
	}
	for _, entry := range known {
		if entry.BuildID == id {
			return entry.Board
		}
	}
	return ""
}

// sameChip refuses firmware that answers from another chip than the one that is meant.
func (d *Device) sameChip(chip string) error {
	if d.attachment == nil || d.attachment.chip == "" || d.attachment.chip == chip || d.desk.Reflash {
		return nil
	}
	return &WrongBoardError{d.board.Name, []string{fmt.Sprintf("the firmware answers from chip %s, not %s", cmp.Or(chip, "without an id"), d.attachment.chip)}}
}
