package project

import (
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
)

// What is known of a device, and whether it contradicts that it is the board "ours" behind probe P.
func TestAgainst(t *testing.T) {
	t.Parallel()
	answers := func(chip string) *firmwareAnswer { return &firmwareAnswer{chip: chip} }
	ledger := func(device, board string, seen int64) cache.Entry {
		return cache.Entry{Device: device, Probe: "P", Board: board, Seen: time.Unix(seen, 0)}
	}
	desk := func(list ...BenchDevice) *Bench { return &Bench{Devices: list} }
	ours, other := BenchDevice{Name: "left", Board: "ours", Probe: "P", Chip: "c1"}, BenchDevice{Name: "right", Board: "other", Probe: "P", Chip: "c2"}
	for _, c := range []struct {
		name  string
		facts identityFacts
		want  []string
	}{
		{"nothing is known", identityFacts{}, nil},
		{"nothing is known of what answers", identityFacts{answer: answers("c9")}, nil},
		{"bench.json has it", identityFacts{bench: desk(ours)}, nil},
		{"bench.json has it and its chip", identityFacts{bench: desk(ours), answer: answers("c1")}, nil},
		{"bench.json has another board there", identityFacts{bench: desk(other)}, []string{"right, a board other"}},
		{"bench.json has a moving probe", identityFacts{bench: desk(other, ours)}, nil},
		{"bench.json has another chip there", identityFacts{bench: desk(ours), answer: answers("c9")}, []string{"chip c9, not c1"}},
		{"bench.json has the chip elsewhere", identityFacts{bench: desk(BenchDevice{Name: "far", Board: "other", Probe: "Q", Chip: "c9"}), answer: answers("c9")}, []string{"that of far"}},
		{"the ledger had it there", identityFacts{ledger: []cache.Entry{ledger("chip:c1", "ours", 1)}}, nil},
		{"the ledger had another board there", identityFacts{ledger: []cache.Entry{ledger("chip:c1", "other", 1)}}, []string{"a board other was"}},
		{"the ledger had it there last", identityFacts{ledger: []cache.Entry{ledger("chip:c1", "other", 1), ledger("chip:c2", "ours", 2)}}, nil},
		{"the ledger had another there last", identityFacts{ledger: []cache.Entry{ledger("chip:c1", "other", 3), ledger("chip:c2", "ours", 2)}}, []string{"a board other"}},
		{"people know better than the ledger", identityFacts{bench: desk(other, ours), ledger: []cache.Entry{ledger("probe:P", "other", 1)}}, nil},
		{"the chip is known better than the probe", identityFacts{answer: answers("c2"), ledger: []cache.Entry{ledger("chip:c1", "other", 3), ledger("chip:c2", "ours", 2)}}, nil},
		{"the chip is another board's", identityFacts{answer: answers("c1"), ledger: []cache.Entry{ledger("chip:c1", "other", 1), ledger("chip:c2", "ours", 2)}}, []string{"chip c1 is on a board other"}},
		{"a new chip behind another board's probe", identityFacts{answer: answers("c9"), ledger: []cache.Entry{ledger("probe:P", "other", 1)}}, []string{"a board other"}},
		{"a chip without an id", identityFacts{answer: answers(""), ledger: []cache.Entry{ledger("probe:P", "other", 1)}}, []string{"a board other"}},
		{"firmware of the board", identityFacts{answer: answers("c1"), builtAs: "ours"}, nil},
		{"firmware of another board", identityFacts{answer: answers("c1"), builtAs: "other"}, []string{"made for board other"}},
		{"all at once", identityFacts{bench: desk(other), answer: answers("c2"), builtAs: "other", ledger: []cache.Entry{ledger("chip:c2", "other", 1)}}, []string{"behind this probe", "made for", "bench.json chip c2", "ledger chip c2"}},
	} {
		f := c.facts
		f.board, f.which = "ours", "P"
		n := &bench{}
		n.probe.Serial = "P"
		f.noted = f.bench.behind(n)
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
