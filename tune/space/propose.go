// This file proposes configurations: in order, at random, and as variations of the best.

package space

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

const (
	maxSteps   = 1 << 18 // of the search for one configuration: less than a second, with usual constraints
	maxWork    = 1 << 25 // of it: bytes of constraints that are evaluated
	population = 16      // configurations that can be parents
	tournament = 3       // number of random configurations of which the best is a parent
	variations = 64      // that are tried before a random configuration
)

// A Proposer chooses which configurations to measure. It proposes each one at most once. Any number of goroutines may
// use it, and several proposals may be measured at the same time.
type Proposer interface {
	// Next returns a configuration to measure. It returns false if none is left, or if its search failed: see Err. It may
	// take about a second if constraints leave few configurations.
	Next() (Config, bool)
	// Report reports a measurement. A lower cost is better, in any unit. ok is false if the measurement failed. A
	// configuration that Next did not return, such as one from an earlier run, is not proposed any more. Report panics if
	// c is from another Space.
	Report(c Config, cost float64, ok bool)
	// Err returns the reason that Next returned false before all configurations were proposed. Its class is config, and
	// it names the constraint that rejected most.
	Err() error
}

// A proposer draws combinations of values, and proposes those that satisfy the constraints.
type proposer struct {
	space *Space
	// draw returns a combination, as the index of each knob's value, or nil if none is left; n is the number of those
	// that were rejected since the last proposal.
	draw func(n int) []int

	mu       sync.Mutex
	seen     map[Config]bool // proposed or reported
	rejected []int           // combinations, by each constraint
	ranked   []ranked        // the best, at most population
	err      error           // that Next returned false
}

// A ranked configuration has a cost; a failed one an infinite cost.
type ranked struct {
	Config
	cost float64
}

func (s *Space) newProposer(draw func(n int) []int) *proposer {
	return &proposer{space: s, draw: draw, seen: map[Config]bool{}, rejected: make([]int, len(s.constraints))}
}

// Next implements Proposer.
func (p *proposer) Next() (Config, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	length := 1
	for _, c := range p.space.constraints {
		length += len(c.text)
	}

	n := 0
	for ; n < min(maxSteps, maxWork/length); n++ {
		index := p.draw(n)
		// After a proposal this is the end of the space, and no failure.
		if index == nil && len(p.seen) > 0 {
			return Config{}, false
		}
		if index == nil {
			break
		}

		if c := p.space.violated(index); c >= 0 {
			p.rejected[c]++
		} else if c := p.space.config(index); !p.seen[c] {
			p.seen[c] = true
			return c, true
		}
	}

	none := fmt.Errorf("no configuration was found among %d combinations", n)
	err := &jsonfile.Error{File: p.space.file, Err: none}
	if most := slices.Max(append(p.rejected, 0)); most > 0 {
		c := p.space.constraints[slices.Index(p.rejected, most)]
		err.Line, err.Err = c.line, fmt.Errorf("%w; most were rejected by the constraint %q", none, c.text)
	}
	p.err = failure.New(failure.Config, "loosen this constraint, or give its knobs fewer values", "%w", err)
	return Config{}, false
}

// Report implements Proposer. A cost that is not a number counts as failed.
func (p *proposer) Report(c Config, cost float64, ok bool) {
	if c.space != p.space {
		panic(fmt.Sprintf("space: Report with a configuration of another space: %v", c))
	}
	if !ok || math.IsNaN(cost) {
		cost = math.Inf(1)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[c] = true
	// In front of its equals: of too many, the newest stay.
	p.ranked = slices.Insert(p.ranked, 0, ranked{c, cost})
	slices.SortStableFunc(p.ranked, func(a, b ranked) int { return cmp.Compare(a.cost, b.cost) })
	p.ranked = p.ranked[:min(len(p.ranked), population)]
}

// Err implements Proposer.
func (p *proposer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Grid returns a Proposer of all configurations in the order of the file: the last knob changes fastest.
func (s *Space) Grid() Proposer {
	next := -1
	return s.newProposer(func(int) []int {
		next++
		return s.combination(next)
	})
}

// combination returns a combination by its number in the order of the file; nil behind the last.
func (s *Space) combination(n int) []int {
	index := make([]int, len(s.knobs))
	for k, knob := range slices.Backward(s.knobs) {
		index[k], n = n%knob.count, n/knob.count
	}
	if n > 0 {
		return nil
	}
	return index
}

// Random returns a Proposer of configurations in random order, all equally likely. It draws up to 262,144
// combinations until it finds a configuration; of a space of no more combinations, each one once. Equal seeds give
// equal proposals.
func (s *Space) Random(seed uint64) Proposer { return s.random(rand.New(rand.NewPCG(seed, 0))) }

func (s *Space) random(rng *rand.Rand) *proposer {
	size := s.Size()
	if size.Cmp(big.NewInt(maxSteps)) > 0 {
		return s.newProposer(func(int) []int {
			index := make([]int, len(s.knobs))
			for k, knob := range s.knobs {
				index[k] = rng.IntN(knob.count)
			}
			return index
		})
	}

	n := int(size.Int64())
	order := append(rng.Perm(n), n) // n is behind the last one
	return s.newProposer(func(int) []int {
		index := s.combination(order[0])
		if index != nil {
			order = order[1:]
		}
		return index
	})
}

// Evolve returns the Proposer of an evolutionary search. It proposes random configurations until 16 were reported,
// then variations of the best ones so far. Failed configurations rank behind all others. Where variations yield nothing
// new, it proposes a random configuration, so that it can propose the whole space. Equal seeds give equal proposals if
// equal calls are made in equal order.
func (s *Space) Evolve(seed uint64) Proposer {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := s.random(rng)
	random := p.draw
	p.draw = func(n int) []int {
		if n >= variations || len(p.ranked) < population {
			return random(n)
		}
		return p.child(rng)
	}
	return p
}

// child returns a variation of one parent, or of a mixture of two. One knob changes on average, to a neighbour half the
// time if its values are numbers.
func (p *proposer) child(rng *rand.Rand) []int {
	parent := func() []int {
		best := population - 1
		for range tournament {
			best = min(best, rng.IntN(population))
		}
		return p.ranked[best].Indices()
	}
	index, other := parent(), parent()
	mixed := rng.IntN(2) == 0
	for k, knob := range p.space.knobs {
		if mixed && rng.IntN(2) == 0 {
			index[k] = other[k]
		}
		switch {
		case rng.IntN(len(index)) > 0:
		case knob.numeric && rng.IntN(2) == 0:
			index[k] = max(0, min(knob.count-1, index[k]+2*rng.IntN(2)-1))
		default:
			index[k] = rng.IntN(knob.count)
		}
	}
	return index
}
