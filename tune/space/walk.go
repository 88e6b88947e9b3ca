package space

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// maxSteps limits the search for one configuration to about a quarter of a second.
const maxSteps = 1 << 18

// All returns all configurations, each once, in the order of the file: the last knob changes fastest. If there is none,
// or if one search exceeds about 260,000 steps, the last pair has an error of class config that names the constraint
// that rejected most.
func (s *Space) All() iter.Seq2[Config, error] {
	return func(yield func(Config, error) bool) {
		w := s.walk(nil)
		for {
			w.steps = maxSteps
			c, ok := w.next()
			if !ok {
				break
			}
			if !yield(c, nil) {
				return
			}
		}
		if err := w.err(); err != nil {
			yield(Config{}, err)
		}
	}
}

// A walker visits all configurations. It chooses the value of one knob after the other by bisecting the list of the
// knob's values, and prunes each part of a list for which a constraint is false for all values of the following knobs.
type walker struct {
	space    *Space
	rng      *rand.Rand // chooses which half comes first; nil: the lower one
	knobs    []span     // ranges of the chosen knobs, of the part, and of the following knobs
	index    []int      // of the chosen values
	parts    []part     // to visit, next one last
	steps    int        // remaining parts to visit
	visited  int        // configurations
	rejected []int      // by constraint
}

// A part is the values from index lo to hi - 1 of a knob, for the chosen values of the previous knobs.
type part struct{ knob, lo, hi int }

func (s *Space) walk(rng *rand.Rand) *walker {
	return &walker{
		space: s, rng: rng, knobs: slices.Clone(s.whole), index: make([]int, len(s.knobs)),
		parts: []part{{0, 0, s.knobs[0].count()}}, rejected: make([]int, len(s.constraints)),
	}
}

// next returns the next configuration. It returns false at the end, and if no steps are left.
func (w *walker) next() (Config, bool) {
	for s := w.space; len(w.parts) > 0 && w.steps > 0; w.steps-- {
		p := w.parts[len(w.parts)-1]
		w.parts = w.parts[:len(w.parts)-1]
		w.knobs[p.knob] = s.knobs[p.knob].span(p.lo, p.hi)
		copy(w.knobs[p.knob+1:], s.whole[p.knob+1:])
		if c := s.rejects(s.constrains[p.knob], w.knobs); c >= 0 {
			w.rejected[c]++
			continue
		}
		if p.hi-p.lo > 1 {
			w.split(p)
			continue
		}
		w.index[p.knob] = p.lo
		if p.knob == len(s.knobs)-1 {
			w.visited++
			return s.makeConfig(w.index), true
		}
		w.parts = append(w.parts, part{p.knob + 1, 0, s.knobs[p.knob+1].count()})
	}
	return Config{}, false
}

func (w *walker) split(p part) {
	middle := p.lo + (p.hi-p.lo)/2
	first, second := part{p.knob, p.lo, middle}, part{p.knob, middle, p.hi}
	if w.rng != nil && w.rng.IntN(2) == 0 {
		first, second = second, first
	}
	w.parts = append(w.parts, second, first)
}

// err returns the reason that next returned false; nil if all configurations were visited, at least one.
func (w *walker) err() error {
	complete := len(w.parts) == 0
	if complete && w.visited > 0 {
		return nil
	}
	text := fmt.Sprintf("no configuration was found in %d steps", maxSteps)
	if complete {
		text = "there is no configuration that satisfies all constraints"
	}
	if len(w.rejected) == 0 {
		return failure.Errorf(failure.Config, "%s: %s", w.space.file, text)
	}
	strictest := 0
	for c, n := range w.rejected {
		if n > w.rejected[strictest] {
			strictest = c
		}
	}
	c := w.space.constraints[strictest]
	return failure.New(failure.Config, "loosen this constraint, or give its knobs fewer values", "%w", &jsonfile.Error{
		File: w.space.file, Line: c.line, Err: fmt.Errorf("%s; most were rejected by the constraint %q", text, c.text),
	})
}
