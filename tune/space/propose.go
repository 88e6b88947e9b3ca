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

// A memory is the common part of proposers.
type memory struct {
	mu    sync.Mutex
	space *Space
	seen  map[Config]bool // proposed or reported
	err   error           // that Next returned false
}

func (s *Space) newMemory() memory { return memory{space: s, seen: map[Config]bool{}} }

// Report implements Proposer.
func (m *memory) Report(c Config, _ float64, _ bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(c)
}

func (m *memory) add(c Config) {
	if c.space != m.space {
		panic(fmt.Sprintf("space: Report with a configuration of another space: %v", c))
	}
	m.seen[c] = true
}

// Err implements Proposer.
func (m *memory) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// A grid proposes all configurations in the order of Space.All.
type grid struct {
	memory
	walker *walker
}

// NewGrid returns a Proposer of all configurations in the order of Space.All.
func NewGrid(s *Space) Proposer { return &grid{memory: s.newMemory(), walker: s.walk()} }

// Next implements Proposer.
func (g *grid) Next() (Config, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		c, ok := g.walker.next()
		if !ok {
			g.err = g.walker.err()
		}
		if !ok || !g.seen[c] {
			return c, ok
		}
	}
}

// A random draws configurations that satisfy the constraints, each at most once.
type random struct {
	memory
	rng    *rand.Rand
	listed bool     // rest is valid
	rest   []Config // not drawn yet, with some that were reported
}

// NewRandom returns a Proposer of configurations in random order, all equally likely. It lists those of a space of at
// most 262,144 combinations, and draws up to as many combinations of a larger one until it finds a configuration. Equal
// seeds give equal proposals.
func NewRandom(s *Space, seed uint64) Proposer { return newRandom(s, seed) }

func newRandom(s *Space, seed uint64) *random {
	return &random{memory: s.newMemory(), rng: rand.New(rand.NewPCG(seed, 0))}
}

// Next implements Proposer.
func (r *random) Next() (Config, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next()
}

func (r *random) next() (c Config, ok bool) {
	if !r.listed && r.space.Size().Cmp(big.NewInt(maxSteps)) <= 0 {
		r.list()
	}
	if r.listed {
		c, ok = r.nextListed()
	} else {
		c, ok = r.draw()
	}
	if ok {
		r.seen[c] = true
	}
	return c, ok
}

// list lists all configurations in random order.
func (r *random) list() {
	r.listed = true
	for c, err := range r.space.All() {
		if err != nil {
			r.err = err
			return
		}
		r.rest = append(r.rest, c)
	}
	r.rng.Shuffle(len(r.rest), func(i, j int) { r.rest[i], r.rest[j] = r.rest[j], r.rest[i] })
}

func (r *random) nextListed() (Config, bool) {
	for len(r.rest) > 0 {
		c := r.rest[0]
		r.rest = r.rest[1:]
		if !r.seen[c] {
			return c, true
		}
	}
	return Config{}, false
}

func (r *random) draw() (Config, bool) {
	index := make([]int, len(r.space.knobs))
	rejected := r.space.newRejections()
	for range maxSteps {
		for k := range index {
			index[k] = r.rng.IntN(r.space.knobs[k].count())
		}
		if c := r.space.violated(index); c >= 0 {
			rejected.counts[c]++
		} else if c := r.space.makeConfig(index); !r.seen[c] {
			return c, true
		}
	}
	r.err = rejected.tooSparse()
	return Config{}, false
}
