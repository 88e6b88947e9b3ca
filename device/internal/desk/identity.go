// This file checks that a device is the chosen board, by desk.json, the ledger, its chip's id and its firmware:
// kinds of board may be the same on USB, and a cable may have been moved to another board.

package desk

import (
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/device/internal/ledger"
)

// Evidence is what the records and the firmware contain about a device, apart from the user's choice.
type Evidence struct {
	Board    string         // the user's choice
	Probe    string         // as in the ledger
	Entries  []Entry        // desk.json's devices behind its probe or port
	File     *File          // the whole desk.json; nil: none
	Ledger   []ledger.Entry // all of it
	Answered bool           // its firmware answered
	BuildID  string         // the firmware's, in hexadecimal
	BuiltFor string         // the board that the firmware was built for; "" if unknown
	Chip     string         // id of the firmware's chip; "" if it has none
}

// Contradictions lists, in words, the facts that contradict the choice. A chip's id counts first. A probe may have been
// moved, so that facts about the probe count only if the ledger has no entry of the chip; desk.json, which users write,
// counts before the ledger.
func (e Evidence) Contradictions() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }

	// Boards may take turns behind one probe: an entry of the chosen one is enough.
	if !slices.ContainsFunc(e.Entries, func(d Entry) bool { return d.Board == e.Board }) {
		for _, d := range e.Entries {
			add("by desk.json %s, a board %s, is behind this probe", d.Name, d.Board)
		}
	}

	if e.Answered && e.BuiltFor != "" && e.BuiltFor != e.Board {
		add("it runs build %s, which was made for board %s", e.BuildID, e.BuiltFor)
	}

	recorded := false // the ledger has an entry of the chip
	if e.Answered && e.Chip != "" {
		list = append(list, e.chipContradictions()...)
		recorded = slices.ContainsFunc(e.Ledger, func(l ledger.Entry) bool { return l.Device == "chip:"+e.Chip })
	}

	if l := e.lastBehindProbe(); !recorded && len(e.Entries) == 0 && l.Board != "" && l.Board != e.Board {
		add("by the ledger a board %s was behind this probe", l.Board)
	}
	return list
}

// chipContradictions is Contradictions about the chip's id.
func (e Evidence) chipContradictions() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, d := range e.Entries {
		if d.Board == e.Board && d.Chip != "" && d.Chip != e.Chip {
			add("the firmware answers from chip %s, not %s, which %s has by desk.json", e.Chip, d.Chip, d.Name)
		}
	}

	if e.File != nil {
		for _, d := range e.File.Devices {
			if d.Chip == e.Chip && d.Board != e.Board {
				add("by desk.json chip %s is that of %s, a board %s", e.Chip, d.Name, d.Board)
			}
		}
	}

	for _, l := range e.Ledger {
		if l.Device == "chip:"+e.Chip && l.Board != "" && l.Board != e.Board {
			add("by the ledger chip %s is on a board %s", e.Chip, l.Board)
		}
	}
	return list
}

// lastBehindProbe returns the ledger's entry that was last seen behind the probe, or the zero value.
func (e Evidence) lastBehindProbe() (last ledger.Entry) {
	for _, l := range e.Ledger {
		if l.Probe == e.Probe && l.Seen.After(last.Seen) {
			last = l
		}
	}
	return last
}
