package space

import (
	"fmt"
	"iter"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// maxSteps limits the search for one configuration to about a tenth of a second.
const maxSteps = 1 << 18

// All returns all configurations, each once, in the order of the file: the last knob changes fastest. If there is none,
// or if one search exceeds 262,144 steps, the last pair has an error of class config that names the constraint that
// rejected most.
func (s *Space) All() iter.Seq2[Config, error] {
	return func(yield func(Config, error) bool) {
		w := s.walk()
		for {
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

// A walker visits all combinations of values. Where the first knobs violate a constraint, it skips the values of the
// others.
type walker struct {
	space    *Space
	index    []int // of the next combination
	complete bool  // there is no next one
	visited  int   // configurations
	rejections
}

func (s *Space) walk() *walker {
	return &walker{space: s, index: make([]int, len(s.knobs)), rejections: s.newRejections()}
}

// next returns the next configuration. It returns false at the end, and after maxSteps.
func (w *walker) next() (Config, bool) {
	for range maxSteps {
		if w.complete {
			break
		}
		c := w.space.violated(w.index)
		if c < 0 {
			found := w.space.makeConfig(w.index)
			w.visited++
			w.advance(len(w.index) - 1)
			return found, true
		}
		w.counts[c]++
		w.advance(w.space.constraints[c].last)
	}
	return Config{}, false
}

// advance goes on with the next value of a knob, and with the first values of those behind it.
func (w *walker) advance(k int) {
	clear(w.index[k+1:])
	for ; k >= 0; k-- {
		if w.index[k]++; w.index[k] < w.space.knobs[k].count() {
			return
		}
		w.index[k] = 0
	}
	w.complete = true
}

// err returns the reason that next returned false; nil if all configurations were visited, at least one.
func (w *walker) err() error {
	switch {
	case !w.complete:
		return w.tooSparse()
	case w.visited == 0:
		return w.because("there is no configuration that satisfies all constraints")
	}
	return nil
}

// rejections count the combinations that each constraint has rejected.
type rejections struct {
	of     *Space
	counts []int
}

func (s *Space) newRejections() rejections { return rejections{s, make([]int, len(s.constraints))} }

// tooSparse returns the error of a search that has found nothing.
func (r rejections) tooSparse() error {
	return r.because(fmt.Sprintf("no configuration was found in %d steps", maxSteps))
}

// because returns an error of class config that names the constraint that rejected most.
func (r rejections) because(text string) error {
	strictest := -1
	for c, n := range r.counts {
		if n > 0 && (strictest < 0 || n > r.counts[strictest]) {
			strictest = c
		}
	}
	if strictest < 0 {
		return failure.Errorf(failure.Config, "%s: %s", r.of.file, text)
	}
	c := r.of.constraints[strictest]
	return failure.New(failure.Config, "loosen this constraint, or give its knobs fewer values", "%w", &jsonfile.Error{
		File: r.of.file, Line: c.line, Err: fmt.Errorf("%s; most were rejected by the constraint %q", text, c.text),
	})
}
