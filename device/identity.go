// This file checks that a device is the chosen board, by desk.json, the ledger, its chip's id and its firmware:
// kinds of board may be the same on USB, and a cable may have been moved to another board.

package device

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/flashplan"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// A WrongBoardError reports a device that may not be the chosen board. Nothing was written.
type WrongBoardError struct {
	Board    string   // the chosen board
	Evidence []string // the contradicting facts, in words
}

func (e *WrongBoardError) Error() string {
	return fmt.Sprintf("the device may not be the chosen board %s: %s", e.Board, strings.Join(e.Evidence, "; "))
}

// FailureClass returns failure.Config.
func (e *WrongBoardError) FailureClass() failure.Class { return failure.Config }

// NextStep returns the next step for the user.
func (e *WrongBoardError) NextStep() string {
	return "choose the right board and device, or save the change: " + failure.Option("DeskFile.Note", "") + "; " +
		failure.Option("Desk.Reflash", "true") + " flashes anyway"
}

// identityFacts are known facts of a device, apart from the user's choice.
type identityFacts struct {
	board   string            // the user's choice
	which   string            // its probe, by the ledger's name
	noted   []DeskDevice      // desk.json's devices behind its probe or port
	file    *DeskFile         // the whole desk.json; nil: none
	ledger  []ledger.Entry    // all of it
	answer  *flashplan.Answer // nil: it did not answer
	builtAs string            // the board that the answering firmware was built for; "" if unknown
}

// against lists facts that contradict the choice. A chip's id counts first. A probe may have been moved, so that
// facts about the probe count only if the ledger has no entry of the chip; desk.json, which users write, counts
// before the ledger.
func (f identityFacts) against() (evidence []string) {
	say := func(format string, args ...any) { evidence = append(evidence, fmt.Sprintf(format, args...)) }
	ours := func(d DeskDevice) bool { return d.Board == f.board }
	if !slices.ContainsFunc(f.noted, ours) {
		for _, d := range f.noted {
			say("by desk.json %s, a board %s, is behind this probe", d.Name, d.Board)
		}
	}
	if f.answer != nil && f.builtAs != "" && f.builtAs != f.board {
		say("it runs build %x, which was made for board %s", f.answer.BuildID, f.builtAs)
	}
	known := false // the ledger has an entry of the chip
	if f.answer != nil && f.answer.Chip != "" {
		evidence = append(evidence, f.againstChip(f.answer.Chip)...)
		known = slices.ContainsFunc(f.ledger, func(e ledger.Entry) bool { return e.Device == "chip:"+f.answer.Chip })
	}
	if e := f.lastBehindProbe(); !known && len(f.noted) == 0 && e.Board != "" && e.Board != f.board {
		say("by the ledger a board %s was behind this probe", e.Board)
	}
	return evidence
}

// againstChip is against for a chip that reported its id.
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

// lastBehindProbe returns the device that was last seen behind the probe, or the zero value.
func (f identityFacts) lastBehindProbe() (last ledger.Entry) {
	for _, e := range f.ledger {
		if e.Probe == f.which && e.Seen.After(last.Seen) {
			last = e
		}
	}
	return last
}

// plausible returns an error if known facts contradict the chosen board, unless that is forced.
func (f *flashing) plausible() error {
	n, desk := f.d.attachment, f.d.desk
	if f.d.board.Identification.Address == 0 {
		desk.log().Warn("the chip was not identified: the board file has no identification register", "board", f.d.board.Name)
	}
	all, err := n.ledger.List()
	if err != nil {
		return err
	}
	facts := identityFacts{
		board: f.d.board.Name, which: n.which(), noted: desk.File.behind(n.address(), n.probe), file: desk.File,
		ledger: all, answer: f.facts.Answer,
	}
	if a := f.facts.Answer; a != nil && a.BuildID != f.facts.Image.BuildID {
		facts.builtAs = desk.boardOf(a.BuildID, all)
	}
	evidence := facts.against()
	if len(evidence) == 0 {
		return nil
	}
	wrong := &WrongBoardError{f.d.board.Name, evidence}
	if !desk.Reflash {
		return wrong
	}
	desk.log().Warn("flashing anyway, as requested", "error", wrong)
	return nil
}

// boardOf returns the board that a build was made for, from the cache or the ledger, or "".
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

// sameChip returns an error if the firmware answers from a chip other than the expected one.
func (d *Device) sameChip(chip string) error {
	if d.attachment == nil || d.attachment.chip == "" || d.attachment.chip == chip || d.desk.Reflash {
		return nil
	}
	return &WrongBoardError{
		d.board.Name,
		[]string{fmt.Sprintf("the firmware answers from chip %s, not %s", cmp.Or(chip, "without an id"), d.attachment.chip)},
	}
}
