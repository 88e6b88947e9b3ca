package tuning

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

// TestViewComparesWithinKinds: times of different kinds of board are not compared, and what Confirm measured again
// counts as no further candidate.
func TestViewComparesWithinKinds(t *testing.T) {
	w := newView(nil, 4)
	timed := func(id, of, kind string, s float64) tune.Result {
		return tune.Result{ID: id, Confirms: of, Kind: kind, Time: &rpc.Stats{N: 3, Median: s}}
	}
	for _, r := range []tune.Result{
		timed("a@slow", "", "slow", 8), timed("a@fast", "", "fast", 0.2), timed("a@slow@flash", "a@slow", "slow", 1),
	} {
		w.addResult(r) // of an earlier command
	}
	for _, r := range []tune.Result{timed("b@slow", "", "slow", 4), timed("a@fast@flash", "a@fast", "fast", 0.001)} {
		w.add(tune.Event{Result: &r})
		w.addResult(r)
	}
	lines := w.lines()
	if want := "tune: 3 of 4 done, best 200 ms on fast, best 4 s on slow, "; !strings.HasPrefix(lines[0], want) {
		t.Errorf("%q, want %q", lines[0], want)
	}
	want := []string{"  best 200 ms on fast (1.00× the first): a@fast", "  best 4 s on slow (2.00× the first): b@slow"}
	testkit.Equal(t, "lines", lines[1:], want)
}
