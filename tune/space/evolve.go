package space

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	population = 16  // configurations that can be parents
	tournament = 3   // number of random configurations of which the best is a parent
	crossover  = 0.5 // probability that a proposal has two parents
	variations = 64  // that are tried before a random configuration
)

type evolve struct {
	*proposer
	rng    *rand.Rand
	ranked []ranked // the best, at most population
}

// A ranked configuration has a cost; a failed one an infinite cost.
type ranked struct {
	Config
	cost float64
}

// NewEvolve returns the Proposer of an evolutionary search. It proposes random configurations until 16 were reported,
// then variations of the best ones so far. Failed configurations rank behind all others. Where variations yield nothing
// new, it proposes a random configuration, so that it can propose the whole space. Equal seeds give equal proposals if
// equal calls are made in equal order.
func NewEvolve(s *Space, seed uint64) Proposer {
	rng := rand.New(rand.NewPCG(seed, 0))
	e := &evolve{proposer: newRandom(s, rng), rng: rng}
	draw := e.try
	e.try = func(n int) bool {
		if n >= variations || len(e.ranked) < population {
			return draw(n)
		}
		e.index = e.child()
		return true
	}
	return e
}

// Report implements Proposer. A cost that is not a number counts as failed.
func (e *evolve) Report(c Config, cost float64, ok bool) {
	if !ok || math.IsNaN(cost) {
		cost = math.Inf(1)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(c)
	e.ranked = slices.DeleteFunc(e.ranked, func(r ranked) bool { return r.Config == c })
	e.ranked = slices.Insert(e.ranked, 0, ranked{c, cost})
	slices.SortStableFunc(e.ranked, func(a, b ranked) int { return cmp.Compare(a.cost, b.cost) })
	e.ranked = e.ranked[:min(len(e.ranked), population)]
}

// child returns the indices of a variation of one parent, or of a mixture of two. One knob changes on average.
func (e *evolve) child() []int {
	index := e.parent()
	if e.rng.Float64() < crossover {
		other := e.parent()
		for k := range index {
			if e.rng.IntN(2) == 0 {
				index[k] = other[k]
			}
		}
	}
	for k := range index {
		if e.rng.Float64() < 1/float64(len(index)) {
			index[k] = e.mutate(k, index[k])
		}
	}
	return index
}

// parent returns the indices of the winner of a tournament.
func (e *evolve) parent() []int {
	best := len(e.ranked)
	for range tournament {
		best = min(best, e.rng.IntN(len(e.ranked)))
	}
	return e.ranked[best].Indices()
}

// mutate returns another value of a knob: with a probability of one half a neighbour, if its values are numbers.
func (e *evolve) mutate(k, i int) int {
	n := e.space.knobs[k].count()
	switch {
	case n == 1:
		return i
	case e.space.knobs[k].numeric && e.rng.IntN(2) == 0:
		if i == 0 || (i < n-1 && e.rng.IntN(2) == 0) {
			return i + 1
		}
		return i - 1
	}
	return (i + 1 + e.rng.IntN(n-1)) % n
}
