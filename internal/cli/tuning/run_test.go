package tuning

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

// TestAllFailedConfirmationsAreAnError: confirmations that all failed on a kind of board are an error of the first
// one's class; one that succeeded, or failures of the candidates themselves, are not.
func TestAllFailedConfirmationsAreAnError(t *testing.T) {
	timed := func(id, of, kind string) tune.Result {
		return tune.Result{ID: id, Confirms: of, Kind: kind, Time: &rpc.Stats{N: 3, Median: 1}}
	}
	failed := func(id, of, kind string) tune.Result {
		return tune.Result{
			ID: id, Confirms: of, Kind: kind, Failure: &tune.Failure{Class: failure.Boot, Message: "no answer"},
		}
	}
	for _, c := range []struct {
		name    string
		results []tune.Result
		want    string
	}{
		{"nothing was confirmed", []tune.Result{timed("a", "", "x"), failed("b", "", "x")}, ""},
		{"one of two", []tune.Result{timed("a@flash", "a", "x"), failed("b@flash", "b", "x")}, ""},
		{
			"none",
			[]tune.Result{timed("a", "", "x"), failed("a@flash", "a", "x"), failed("b@flash", "b", "x")},
			"2 of 2 candidates failed in flash on board x; the first, a@flash: no answer",
		},
		{
			"none on one of two kinds",
			[]tune.Result{timed("a@flash", "a", "x"), failed("b@flash", "b", "y")},
			"1 of 1 candidates failed in flash on board y; the first, b@flash: no answer",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := noneConfirmed(c.results)
			if c.want == "" && err != nil ||
				c.want != "" && (failure.Of(err) != failure.Boot || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		})
	}
}
