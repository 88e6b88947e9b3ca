package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/boardsmith/boardsmith/rpc"
)

// A Ranking is results whose times may be compared: of one kind of board and one tier, on platforms with the same
// clocks, caches, wait states and processor, and compiled with the same compiler, flags and libraries.
type Ranking struct {
	// Conditions are kind, tier, platform and toolchain as text. They are equal for rankings of several runs whose times
	// may be compared.
	Conditions string
	Results    []Result // by median time, fastest first; equal ones in order of finishing
	Baseline   Result   // the first result that was not cut, or else the first
}

// Rank sorts the results that have a time. It returns one Ranking for each kind, tier, platform and toolchain, in the
// order of their first results. It omits results that are Disturbed, and those without a finite time of at least 0.
func Rank(results []Result) []Ranking {
	var all []Ranking
	for _, r := range results {
		if r.Time == nil || r.Disturbed || !(r.Time.Median >= 0) || math.IsInf(r.Time.Median, 1) {
			continue
		}

		conditions := r.conditions()
		i := slices.IndexFunc(all, func(k Ranking) bool { return k.Conditions == conditions })
		if i < 0 {
			i = len(all)
			all = append(all, Ranking{Conditions: conditions, Baseline: r})
		}
		// The time of a cut result is one call's only.
		if all[i].Baseline.Cut && !r.Cut {
			all[i].Baseline = r
		}
		all[i].Results = append(all[i].Results, r)
	}

	for _, k := range all {
		slices.SortStableFunc(k.Results, func(a, b Result) int { return cmp.Compare(a.Time.Median, b.Time.Median) })
	}
	return all
}

// fastest is Run.Fastest of all results.
func fastest(all, measured []Result) (best Result) {
	isComparable := map[string]bool{}
	for _, r := range measured {
		isComparable[r.conditions()] = true
	}

	for _, r := range all {
		if r.Time == nil || !isComparable[r.conditions()] {
			continue
		}

		isFaster := best.Time == nil || r.Time.Median < best.Time.Median
		if best.Disturbed != r.Disturbed {
			isFaster = best.Disturbed || best.Time == nil
		}
		if isFaster {
			best = r
		}
	}
	return best
}

// conditions returns what determines a time besides the candidate. The device's identity, its last reset and its lost
// bytes do not.
func (r *Result) conditions() string {
	text := r.Kind
	if r.Tier != "" {
		text += ", " + string(r.Tier)
	}

	platform := r.Platform
	platform.Clock = rpc.HostClock // what proves it determines no time, and earlier records lack it
	if p := platform.String(); p != "" {
		text += ", " + p
	}
	if id := r.Platform.CPUID; id != nil {
		text += fmt.Sprintf(", CPUID %#08x", *id)
	}
	if r.Toolchain != "" {
		text += ", " + r.Toolchain
	}
	return text
}

// SpeedUp returns the baseline's time divided by t; 0 if one of them is 0 or missing.
func (k Ranking) SpeedUp(t *rpc.Stats) float64 {
	if t == nil || t.Median <= 0 || k.Baseline.Time.Median <= 0 {
		return 0
	}
	return k.Baseline.Time.Median / t.Median
}

// Correlation compares the times of candidates in RAM with those in flash that Run.Confirm measured, on a kind of
// board: Spearman's rank correlation, from -1 to 1, and the number of candidates with both times. It is 0 of less than
// two candidates, and if all times of one tier are equal.
func Correlation(results []Result, kind string) (rho float64, pairs int) {
	ram := map[string]float64{}
	for _, r := range results {
		if r.Kind == kind && r.Confirms == "" && r.Tier == RAM && r.Time != nil {
			ram[r.ID] = r.Time.Median
		}
	}

	var x, y []float64
	for _, r := range results {
		if t, ok := ram[r.Confirms]; ok && r.Kind == kind && r.Time != nil {
			x, y = append(x, t), append(y, r.Time.Median)
		}
	}
	if len(x) < 2 {
		return 0, len(x)
	}

	rho = stat.Correlation(ranks(x), ranks(y), nil)
	if math.IsNaN(rho) { // all times of one tier are equal
		rho = 0
	}
	return rho, len(x)
}

// ranks returns the ranks of values; equal values share the mean of theirs.
func ranks(values []float64) []float64 {
	all := make([]float64, len(values))
	for i, v := range values {
		for _, other := range values {
			switch {
			case other < v:
				all[i]++
			case other == v:
				all[i] += 0.5
			}
		}
	}
	return all
}
