// This file proposes configurations in order and at random.

package space

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
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

// A grid proposes all configurations in the order of Space.All.
type grid struct {
	mu       sync.Mutex
	walker   *walker
	reported map[Config]bool
	err      error
}

// NewGrid returns a Proposer of all configurations in the order of Space.All.
func NewGrid(s *Space) Proposer { return &grid{walker: s.walk(nil), reported: map[Config]bool{}} }

// Next implements Proposer.
func (g *grid) Next() (Config, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.walker.steps = maxSteps
	c, ok := g.walker.unseen(g.reported)
	if !ok {
		g.err = g.walker.err()
	}
	return c, ok
}

// Report implements Proposer.
func (g *grid) Report(c Config, _ float64, _ bool) {
	c.mustBeOf(g.walker.space)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reported[c] = true
}

// Err implements Proposer.
func (g *grid) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (c Config) mustBeOf(s *Space) {
	if c.space != s {
		panic(fmt.Sprintf("space: Report with a configuration of another space: %v", c))
	}
}

// unseen returns the next configuration that is not in seen.
func (w *walker) unseen(seen map[Config]bool) (Config, bool) {
	for {
		c, ok := w.next()
		if !ok || !seen[c] {
			return c, ok
		}
	}
}

type random struct {
	mu      sync.Mutex
	sampler sampler
}

// NewRandom returns a Proposer of configurations in random order. In a space of at most 65,536 combinations, and in a
// larger one as long as a thousand random combinations include a configuration, all are equally likely. Equal seeds
// give equal proposals.
func NewRandom(s *Space, seed uint64) Proposer { return &random{sampler: newSampler(s, seed)} }

// Next implements Proposer.
func (r *random) Next() (Config, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sampler.next()
}

// Report implements Proposer.
func (r *random) Report(c Config, _ float64, _ bool) {
	c.mustBeOf(r.sampler.space)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sampler.seen[c] = true
}

// Err implements Proposer.
func (r *random) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sampler.err
}

const (
	maxListed = 1 << 16 // combinations of a space whose configurations are listed
	maxDraws  = 1000    // random combinations that are tried before a search
)

// A sampler draws configurations that satisfy the constraints, each at most once.
type sampler struct {
	space  *Space
	rng    *rand.Rand
	seen   map[Config]bool // not drawn any more
	listed bool            // rest is valid
	rest   []Config        // not drawn yet, with some that were reported
	err    error           // that next returned false
}

func newSampler(s *Space, seed uint64) sampler {
	return sampler{space: s, rng: rand.New(rand.NewPCG(seed, 0)), seen: map[Config]bool{}}
}

func (s *sampler) next() (Config, bool) {
	if !s.listed && s.space.Size().Cmp(big.NewInt(maxListed)) <= 0 {
		s.list()
	}
	c, ok := s.draw()
	if ok {
		s.seen[c] = true
	}
	return c, ok
}

// list lists all configurations in random order.
func (s *sampler) list() {
	s.listed = true
	for c, err := range s.space.All() {
		if err != nil {
			s.err = err
			return
		}
		s.rest = append(s.rest, c)
	}
	s.rng.Shuffle(len(s.rest), func(i, j int) { s.rest[i], s.rest[j] = s.rest[j], s.rest[i] })
}

func (s *sampler) draw() (Config, bool) {
	if s.listed {
		for len(s.rest) > 0 {
			c := s.rest[0]
			s.rest = s.rest[1:]
			if !s.seen[c] {
				return c, true
			}
		}
		return Config{}, false
	}
	index := make([]int, len(s.space.knobs))
	for range maxDraws {
		for k := range index {
			index[k] = s.rng.IntN(s.space.knobs[k].count())
		}
		if c := s.space.makeConfig(index); !s.seen[c] && s.space.violated(index) < 0 {
			return c, true
		}
	}
	return s.search()
}

// search searches for a configuration if few random combinations satisfy the constraints. It restarts with more steps
// each time, because a part of the space without configurations can take too many steps to exhaust.
func (s *sampler) search() (Config, bool) {
	for steps := 1 << 8; ; steps = min(steps+steps/2, maxSteps) {
		w := s.space.walk(s.rng)
		w.steps = steps
		c, ok := w.unseen(s.seen)
		if ok {
			return c, true
		}
		if len(w.parts) == 0 || steps == maxSteps {
			s.err = w.err()
			return Config{}, false
		}
	}
}
