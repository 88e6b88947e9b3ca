package tune_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

// timedResult returns a result on a platform with a clock.
func timedResult(id, kind string, hz uint32, median float64) tune.Result {
	return tune.Result{
		ID: id, Kind: kind, Tier: tune.RAM, Platform: rpc.Platform{CoreHz: &hz}, Time: &rpc.Stats{N: 3, Median: median},
	}
}

func ranked(results ...tune.Result) (all []string) {
	for _, k := range tune.Rank(results) {
		text := k.Conditions + ": over " + k.Baseline.ID + ":"
		for _, r := range k.Results {
			text += " " + r.ID
		}
		all = append(all, text)
	}
	return all
}

// TestFastest: of comparable results, whoever measured them, undisturbed ones first.
func TestFastest(t *testing.T) {
	a, b, c := timedResult("a", "k", 25e6, 3), timedResult("b", "k", 25e6, 2), timedResult("c", "k", 25e6, 1)
	other := timedResult("other", "k", 50e6, 0.5)
	c.Disturbed = true
	failed := tune.Result{ID: "failed", Kind: "k", Failure: &tune.Failure{}}
	for _, test := range []struct {
		all, measured []tune.Result
		want          string
	}{
		{[]tune.Result{a, b, c, failed, other}, []tune.Result{a}, "b"},
		{[]tune.Result{c, b, a}, []tune.Result{c, failed}, "b"},
		{[]tune.Result{c, other}, []tune.Result{c}, "c"},
		{[]tune.Result{a, other}, []tune.Result{a, other}, "other"},
		{[]tune.Result{failed}, []tune.Result{failed}, ""},
	} {
		testkit.Equal(t, test, tune.Fastest(test.all, test.measured).ID, test.want)
	}
}

// TestRankSortsWithinConditions changes one condition of a result at a time.
func TestRankSortsWithinConditions(t *testing.T) {
	a, b, c := timedResult("a", "k", 25e6, 3), timedResult("b", "k", 25e6, 1), timedResult("c", "k", 25e6, 3)
	want := []string{"k, ram, core 25 MHz: over a: b a c"}
	testkit.Equal(t, "ranked", ranked(a, b, c), want)
	states, other, on, id := uint8(2), uint32(25000001), true, uint32(0x410fc241)
	for name, change := range map[string]func(*tune.Result){
		"kind": func(r *tune.Result) { r.Kind = "l" }, "tier": func(r *tune.Result) { r.Tier = "flash" },
		"clock":       func(r *tune.Result) { r.Platform.CoreHz = &other },
		"timer":       func(r *tune.Result) { r.Platform.TicksHz = &other },
		"FPU":         func(r *tune.Result) { r.Platform.FPU = &on },
		"wait states": func(r *tune.Result) { r.Platform.WaitStates = &states },
		"processor":   func(r *tune.Result) { r.Platform.CPUID = &id },
		"emulated":    func(r *tune.Result) { r.Platform.Emulated = &on },
	} {
		changed := b
		change(&changed)
		got := tune.Rank([]tune.Result{a, changed, c})
		if len(got) != 2 || len(got[0].Results) != 2 || got[1].Baseline.ID != "b" {
			t.Errorf("another %s: %+v", name, got)
		}
	}
	reset, lost := rpc.ResetCause(4), uint32(3)
	same := b
	same.Platform.Reset, same.Platform.ChipID, same.Platform.Lost, same.Board = &reset, []byte{1}, &lost, "other"
	testkit.Equal(t, "another device", ranked(a, same, c), want)
}

// TestRankOmitsResultsWithoutTime ranks times that are no finite numbers or have interrupts in every sample, and
// results that were cut.
func TestRankOmitsResultsWithoutTime(t *testing.T) {
	cut, whole := timedResult("cut", "k", 25e6, 9), timedResult("whole", "k", 25e6, 3)
	disturbed := timedResult("disturbed", "k", 25e6, 1)
	cut.Cut, disturbed.Disturbed = true, true
	failed := tune.Result{ID: "failed", Kind: "k", Failure: &tune.Failure{Class: failure.Link}}
	all := []tune.Result{failed, cut, whole, disturbed}
	for i, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		all = append(all, timedResult(fmt.Sprint(i), "k", 25e6, x))
	}
	testkit.Equal(t, "ranked", ranked(all...), []string{"k, ram, core 25 MHz: over whole: whole cut"})
	testkit.Equal(t, "ranked", ranked(cut), []string{"k, ram, core 25 MHz: over cut: cut"})
	testkit.Equal(t, "no results", tune.Rank(nil), nil)
}

func TestSpeedUpIsOverBaseline(t *testing.T) {
	for _, c := range []struct{ baseline, time, want float64 }{{3, 1, 3}, {1, 4, 0.25}, {0, 1, 0}, {1, 0, 0}} {
		k := tune.Rank([]tune.Result{timedResult("a", "k", 1, c.baseline), timedResult("b", "k", 1, c.time)})[0]
		testkit.Equal(t, c, k.SpeedUp(&rpc.Stats{Median: c.time}), c.want)
	}
}
