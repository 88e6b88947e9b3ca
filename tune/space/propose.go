// This file proposes configurations in order and at random.

package space

import (
	"fmt"
	"iter"
	"math/big"
	"math/rand/v2"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// maxSteps limits the search for one configuration to about a tenth of a second.
const maxSteps = 1 << 18

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

// A proposer tries combinations of values, and proposes those that satisfy the constraints.
type proposer struct {
	space *Space
	// try sets index to another combination; n is the number of those that were rejected since the last proposal. It
	// returns false if none is left.
	try      func(n int) bool
	index    []int
	last     int   // the knob that advance changes; -1: there is no next combination
	found    bool  // a combination satisfied the constraints
	rejected []int // combinations, by each constraint

	mu   sync.Mutex
	seen map[Config]bool // proposed or reported
	err  error           // that Next returned false
}

func (s *Space) newProposer() *proposer {
	return &proposer{
		space: s, index: make([]int, len(s.knobs)), rejected: make([]int, len(s.constraints)), seen: map[Config]bool{},
	}
}

// Next implements Proposer.
func (p *proposer) Next() (Config, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range maxSteps {
		if !p.try(n) {
			if !p.found && p.err == nil {
				p.err = p.because("there is no configuration that satisfies all constraints")
			}
			return Config{}, false
		}
		if c := p.space.violated(p.index); c >= 0 {
			p.rejected[c]++
			p.last = p.space.constraints[c].last
			continue
		}

		p.found, p.last = true, len(p.index)-1
		if c := p.space.makeConfig(p.index); !p.seen[c] {
			p.seen[c] = true
			return c, true
		}
	}
	p.err = p.because(fmt.Sprintf("no configuration was found in %d steps", maxSteps))
	return Config{}, false
}

// because returns an error of class config that names the constraint that rejected most.
func (p *proposer) because(text string) error {
	strictest := -1
	for c, n := range p.rejected {
		if n > 0 && (strictest < 0 || n > p.rejected[strictest]) {
			strictest = c
		}
	}
	if strictest < 0 {
		return failure.Errorf(failure.Config, "%s: %s", p.space.file, text)
	}
	c := p.space.constraints[strictest]
	return failure.New(failure.Config, "loosen this constraint, or give its knobs fewer values", "%w", &jsonfile.Error{
		File: p.space.file, Line: c.line, Err: fmt.Errorf("%s; most were rejected by the constraint %q", text, c.text),
	})
}

// Report implements Proposer.
func (p *proposer) Report(c Config, _ float64, _ bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(c)
}

func (p *proposer) add(c Config) {
	if c.space != p.space {
		panic(fmt.Sprintf("space: Report with a configuration of another space: %v", c))
	}
	p.seen[c] = true
}

// Err implements Proposer.
func (p *proposer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// NewGrid returns a Proposer of all configurations in the order of Space.All.
func NewGrid(s *Space) Proposer {
	p := s.newProposer()
	p.last = len(p.index) - 1
	p.index[p.last] = -1 // before the first combination
	p.try = p.advance
	return p
}

// advance goes on with the next value of the last knob of the constraint that rejected a combination, and with the
// first values of the knobs behind it.
func (p *proposer) advance(int) bool {
	clear(p.index[p.last+1:])
	for ; p.last >= 0; p.last-- {
		if p.index[p.last]++; p.index[p.last] < p.space.knobs[p.last].count() {
			return true
		}
		p.index[p.last] = 0
	}
	return false
}

// All returns all configurations, each once, in the order of the file: the last knob changes fastest. If there is none,
// or if one search exceeds 262,144 steps, the last pair has an error of class config that names the constraint that
// rejected most.
func (s *Space) All() iter.Seq2[Config, error] {
	return func(yield func(Config, error) bool) {
		grid := NewGrid(s)
		for c, ok := grid.Next(); ok; c, ok = grid.Next() {
			if !yield(c, nil) {
				return
			}
		}
		if err := grid.Err(); err != nil {
			yield(Config{}, err)
		}
	}
}

// NewRandom returns a Proposer of configurations in random order, all equally likely. It lists those of a space of at
// most 262,144 combinations, and draws up to as many combinations of a larger one until it finds a configuration. Equal
// seeds give equal proposals.
func NewRandom(s *Space, seed uint64) Proposer { return newRandom(s, rand.New(rand.NewPCG(seed, 0))) }

func newRandom(s *Space, rng *rand.Rand) *proposer {
	p := s.newProposer()
	if s.Size().Cmp(big.NewInt(maxSteps)) > 0 {
		p.try = func(int) bool {
			for k := range p.index {
				p.index[k] = rng.IntN(s.knobs[k].count())
			}
			return true
		}
		return p
	}

	var rest []Config // that were not tried
	for c, err := range s.All() {
		if err != nil {
			p.err = err
			break
		}
		rest = append(rest, c)
	}
	rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	p.try = func(int) bool {
		if len(rest) == 0 {
			return false
		}
		p.index, rest = rest[0].Indices(), rest[1:]
		return true
	}
	return p
}
