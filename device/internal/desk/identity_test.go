package desk

import (
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/flasher"
)

// TestContradictions: recorded facts about a device, and those that contradict that it is the board "ours" behind
// probe P.
func TestContradictions(t *testing.T) {
	entryOf := func(device, board string, seen int64) ledger.Entry {
		return ledger.Entry{Device: device, Probe: "P", Board: board, Seen: time.Unix(seen, 0)}
	}
	both := func(seen int64) []ledger.Entry {
		return []ledger.Entry{entryOf("chip:c1", "other", seen), entryOf("chip:c2", "ours", 2)}
	}
	desk := func(list ...Entry) *File { return &File{Devices: list} }
	ours, other := Entry{Name: "left", Board: "ours", Probe: "P", Chip: "c1"},
		Entry{Name: "right", Board: "other", Probe: "P", Chip: "c2"}
	for _, c := range []struct {
		name     string
		evidence Evidence
		want     []string
	}{
		{"no record", Evidence{}, nil},
		{"desk.json has it and its chip", Evidence{File: desk(ours), Answered: true, Chip: "c1"}, nil},
		{"a chip without an id", Evidence{File: desk(ours), Answered: true}, nil},
		{"desk.json has a moving probe", Evidence{File: desk(other, ours)}, nil},
		{
			"desk.json has another chip there",
			Evidence{File: desk(ours), Answered: true, Chip: "c9"},
			[]string{"chip c9, not c1"},
		},
		{
			"desk.json has the chip elsewhere",
			Evidence{File: desk(Entry{Name: "far", Board: "other", Probe: "Q", Chip: "c9"}), Answered: true, Chip: "c9"},
			[]string{"that of far"},
		},
		{
			"the ledger had it there last",
			Evidence{Ledger: both(1)},
			nil,
		},
		{
			"the ledger had another there last",
			Evidence{Ledger: both(3)},
			[]string{"a board other"},
		},
		{
			"desk.json before the ledger",
			Evidence{File: desk(other, ours), Ledger: []ledger.Entry{entryOf("probe:P", "other", 1)}},
			nil,
		},
		{
			"the chip before the probe",
			Evidence{
				Answered: true, Chip: "c2",
				Ledger: both(3),
			},
			nil,
		},
		{
			"the chip is another board's",
			Evidence{
				Answered: true, Chip: "c1",
				Ledger: both(1),
			},
			[]string{"chip c1 is on a board other"},
		},
		{
			"a new chip behind another board's probe",
			Evidence{Answered: true, Chip: "c9", Ledger: []ledger.Entry{entryOf("probe:P", "other", 1)}},
			[]string{"a board other"},
		},
		{"firmware of the board", Evidence{Answered: true, Chip: "c1", BuiltFor: "ours"}, nil},
		{
			"all of them",
			Evidence{
				File: desk(other), Answered: true, Chip: "c2", BuiltFor: "other",
				Ledger: []ledger.Entry{entryOf("chip:c2", "other", 1)},
			},
			[]string{"behind this probe", "made for", "desk.json chip c2", "ledger chip c2"},
		},
	} {
		e := c.evidence
		e.Board, e.Probe = "ours", "P"
		e.Entries = e.File.behind("", flasher.Probe{Serial: "P"})
		got := e.Contradictions()
		wantEqual(t, len(got), len(c.want), c.name, got)
		for i, w := range c.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%q does not contain %q", got[i], w)
			}
		}
	}
}
