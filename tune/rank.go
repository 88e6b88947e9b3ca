// This file orders results whose times may be compared.

package tune

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/boardsmith/boardsmith/rpc"
)

// A Ranking holds results whose times may be compared: of one kind of board, loaded in one way, on platforms with the
// same clocks, caches, wait states and processor, and compiled with the same compiler, flags and libraries.
type Ranking struct {
	Of       string   // kind, tier, platform, Made; equal for rankings of several runs whose times may be compared
	Results  []Result // with a time, by their median from the fastest on; equal ones in order of finishing
	Baseline Result   // the first that finished and was not cut short, or else the first that finished
}

// Rank sorts the results that have a time. It returns one Ranking for each kind, tier, platform and Made, in the
// order of their first results. Results without a time, with one that is no number from 0 on, or Disturbed, are in
// none.
func Rank(results []Result) []Ranking {
	var all []Ranking
	for _, r := range results {
		if r.Time == nil || r.Disturbed || !(r.Time.Median >= 0) || math.IsInf(r.Time.Median, 1) {
			continue
		}
		of := r.conditions()
		i := slices.IndexFunc(all, func(k Ranking) bool { return k.Of == of })
		if i < 0 {
			i = len(all)
			all = append(all, Ranking{Of: of, Baseline: r})
		}
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

// conditions names what decides a time besides the candidate. The device's identity, why it was reset and what it lost
// do not.
func (r *Result) conditions() string {
	text := r.Kind
	if r.Tier != "" {
		text += ", " + string(r.Tier)
	}
	if p := r.Platform.String(); p != "" {
		text += ", " + p
	}
	if id := r.Platform.CPUID; id != nil {
		text += fmt.Sprintf(", CPUID %#08x", *id)
	}
	if r.Made != "" {
		text += ", " + r.Made
	}
	return text
}

// SpeedUp is how many times faster than the baseline a time is; 0 if it is not known, as one of them is 0.
func (k Ranking) SpeedUp(t *rpc.Stats) float64 {
	if t == nil || t.Median <= 0 || k.Baseline.Time.Median <= 0 {
		return 0
	}
	return k.Baseline.Time.Median / t.Median
}

// A Correlation compares the times of candidates in RAM with those that Confirm measured in flash, on one kind of
// board.
type Correlation struct {
	Kind  string
	Pairs int     // candidates with both, at least two
	Rho   float64 // Spearman's rank correlation, from -1 to 1; 0 if all of one side are equal
}

// Correlations returns one Correlation for each kind of board that has two pairs or more, sorted by kind.
func Correlations(results []Result) (all []Correlation) {
	ram := map[string]float64{}
	for _, r := range results {
		if r.Of == "" && r.Tier == RAM && r.Time != nil {
			ram[r.ID] = r.Time.Median
		}
	}
	inRAM, flash := map[string][]float64{}, map[string][]float64{}
	for _, r := range results {
		if t, ok := ram[r.Of]; ok && r.Time != nil {
			inRAM[r.Kind], flash[r.Kind] = append(inRAM[r.Kind], t), append(flash[r.Kind], r.Time.Median)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(inRAM)) {
		x, y := inRAM[kind], flash[kind]
		if len(x) < 2 {
			continue
		}
		rho := stat.Correlation(ranks(x), ranks(y), nil)
		if math.IsNaN(rho) { // all are equal
			rho = 0
		}
		all = append(all, Correlation{kind, len(x), rho})
	}
	return all
}

// ranks are the places of values in their order; equal ones share the mean of theirs.
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
