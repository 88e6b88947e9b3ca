package space

import (
	"cmp"
	"math"
	"slices"
)

// EvolveOptions configure an evolutionary search. The zero value is the normal case.
type EvolveOptions struct {
	Population int     // configurations that can be parents; 0: 16
	Tournament int     // number of random configurations of which the best is a parent; 0: 3
	Crossover  float64 // probability that a proposal has two parents; 0: 0.5; negative: never
	Mutation   float64 // probability that a knob changes; 0: one knob on average
}

func (o EvolveOptions) withDefaults(knobs int) EvolveOptions {
	o.Population = cmp.Or(max(o.Population, 0), 16)
	o.Tournament = cmp.Or(max(o.Tournament, 0), 3)
	o.Crossover = cmp.Or(o.Crossover, 0.5)
	o.Mutation = cmp.Or(o.Mutation, 1/float64(knobs))
	return o
}

type evolve struct {
	*random
	o      EvolveOptions
	ranked []ranked // the best, at most o.Population
}

// A ranked configuration has a cost; a failed one an infinite cost.
type ranked struct {
	Config
	cost float64
}

// NewEvolve returns the Proposer of an evolutionary search. It proposes random configurations until as many as its
// population were reported, then variations of the best ones so far. Failed configurations rank behind all others.
// Where variations yield nothing new, it proposes a random configuration, so that it can propose the whole space. Equal
// seeds give equal proposals if equal calls are made in equal order.
func NewEvolve(s *Space, seed uint64, o EvolveOptions) Proposer {
	return &evolve{o: o.withDefaults(len(s.knobs)), random: newRandom(s, seed)}
}

// Next implements Proposer.
func (e *evolve) Next() (Config, bool) {
	const attempts = 64
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ranked) == e.o.Population {
		for range attempts {
			index := e.child()
			if c := e.space.makeConfig(index); !e.seen[c] && e.space.violated(index) < 0 {
				e.seen[c] = true
				return c, true
			}
		}
	}
	return e.next()
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
	position, _ := slices.BinarySearchFunc(e.ranked, cost, func(r ranked, cost float64) int {
		return cmp.Compare(r.cost, cost)
	})
	e.ranked = slices.Insert(e.ranked, position, ranked{c, cost})
	e.ranked = e.ranked[:min(len(e.ranked), e.o.Population)]
}

// child returns the indices of a variation of one parent, or of a mixture of two.
func (e *evolve) child() []int {
	rng := e.rng
	index := e.parent()
	if rng.Float64() < e.o.Crossover {
		other := e.parent()
		for k := range index {
			if rng.IntN(2) == 0 {
				index[k] = other[k]
			}
		}
	}
	for k := range index {
		if rng.Float64() < e.o.Mutation {
			index[k] = e.mutate(k, index[k])
		}
	}
	return index
}

// parent returns the indices of the winner of a tournament.
func (e *evolve) parent() []int {
	best := len(e.ranked)
	for range e.o.Tournament {
		best = min(best, e.rng.IntN(len(e.ranked)))
	}
	return e.ranked[best].Indices()
}

// mutate returns another value of a knob: with a probability of one half a neighbour, if its values are numbers.
func (e *evolve) mutate(k, i int) int {
	knob, rng := &e.space.knobs[k], e.rng
	n := knob.count()
	switch {
	case n == 1:
		return i
	case knob.numeric() && rng.IntN(2) == 0:
		if i == 0 || (i < n-1 && rng.IntN(2) == 0) {
			return i + 1
		}
		return i - 1
	}
	return (i + 1 + rng.IntN(n-1)) % n
}
