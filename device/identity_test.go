package device

import (
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/flashplan"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// What is known of a device, and whether it contradicts that it is the board "ours" behind probe P.
func TestAgainst(t *testing.T) {
	t.Parallel()
	answers := func(chip string) *flashplan.Answer { return &flashplan.Answer{Chip: chip} }
	entryOf := func(device, board string, seen int64) ledger.Entry {
		return ledger.Entry{Device: device, Probe: "P", Board: board, Seen: time.Unix(seen, 0)}
	}
	desk := func(list ...DeskDevice) *DeskFile { return &DeskFile{Devices: list} }
	ours, other := DeskDevice{Name: "left", Board: "ours", Probe: "P", Chip: "c1"},
		DeskDevice{Name: "right", Board: "other", Probe: "P", Chip: "c2"}
	for _, c := range []struct {
		name  string
		facts identityFacts
		want  []string
	}{
		{"nothing is known", identityFacts{}, nil},
		{"nothing is known of what answers", identityFacts{answer: answers("c9")}, nil},
		{"desk.json has it", identityFacts{file: desk(ours)}, nil},
		{"desk.json has it and its chip", identityFacts{file: desk(ours), answer: answers("c1")}, nil},
		{"desk.json has another board there", identityFacts{file: desk(other)}, []string{"right, a board other"}},
		{"desk.json has a moving probe", identityFacts{file: desk(other, ours)}, nil},
		{
			"desk.json has another chip there",
			identityFacts{file: desk(ours), answer: answers("c9")},
			[]string{"chip c9, not c1"},
		},
		{
			"desk.json has the chip elsewhere",
			identityFacts{file: desk(DeskDevice{Name: "far", Board: "other", Probe: "Q", Chip: "c9"}), answer: answers("c9")},
			[]string{"that of far"},
		},
		{"the ledger had it there", identityFacts{ledger: []ledger.Entry{entryOf("chip:c1", "ours", 1)}}, nil},
		{
			"the ledger had another board there",
			identityFacts{ledger: []ledger.Entry{entryOf("chip:c1", "other", 1)}},
			[]string{"a board other was"},
		},
		{
			"the ledger had it there last",
			identityFacts{ledger: []ledger.Entry{entryOf("chip:c1", "other", 1), entryOf("chip:c2", "ours", 2)}},
			nil,
		},
		{
			"the ledger had another there last",
			identityFacts{ledger: []ledger.Entry{entryOf("chip:c1", "other", 3), entryOf("chip:c2", "ours", 2)}},
			[]string{"a board other"},
		},
		{
			"people know better than the ledger",
			identityFacts{file: desk(other, ours), ledger: []ledger.Entry{entryOf("probe:P", "other", 1)}},
			nil,
		},
		{
			"the chip is known better than the probe",
			identityFacts{
				answer: answers("c2"),
				ledger: []ledger.Entry{entryOf("chip:c1", "other", 3), entryOf("chip:c2", "ours", 2)},
			},
			nil,
		},
		{
			"the chip is another board's",
			identityFacts{
				answer: answers("c1"),
				ledger: []ledger.Entry{entryOf("chip:c1", "other", 1), entryOf("chip:c2", "ours", 2)},
			},
			[]string{"chip c1 is on a board other"},
		},
		{
			"a new chip behind another board's probe",
			identityFacts{answer: answers("c9"), ledger: []ledger.Entry{entryOf("probe:P", "other", 1)}},
			[]string{"a board other"},
		},
		{
			"a chip without an id",
			identityFacts{answer: answers(""), ledger: []ledger.Entry{entryOf("probe:P", "other", 1)}},
			[]string{"a board other"},
		},
		{"firmware of the board", identityFacts{answer: answers("c1"), builtAs: "ours"}, nil},
		{
			"firmware of another board",
			identityFacts{answer: answers("c1"), builtAs: "other"},
			[]string{"made for board other"},
		},
		{
			"all at once",
			identityFacts{
				file: desk(other), answer: answers("c2"), builtAs: "other",
				ledger: []ledger.Entry{entryOf("chip:c2", "other", 1)},
			},
			[]string{"behind this probe", "made for", "desk.json chip c2", "ledger chip c2"},
		},
	} {
		f := c.facts
		f.board, f.which = "ours", "P"
		n := &attachment{}
		n.probe.Serial = "P"
		f.noted = f.file.behind(n.address(), n.probe)
		got := f.against()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s: %q does not say %q", c.name, got[i], w)
			}
		}
	}
}
