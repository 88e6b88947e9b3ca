// Package search finds fast configurations: of a C kernel with knobs (tune/space), and of the compiler flags of a whole
// network.
//
// It proposes candidates. Package tune measures operators; this package measures networks itself, because each of their
// candidates is a firmware image.
package search

import (
	"context"
	"iter"
	"reflect"
	"strings"

	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/space"
)

// inFlight is the number of configurations that are measured before the first one's result is reported to the proposer.
// It does not depend on the number of boards, so that equal seeds give equal proposals.
const inFlight = 8

// A Trial is a configuration and its result.
type Trial struct {
	Config space.Config
	Result tune.Result
}

// Measure measures configurations of a space as the proposer returns them, at most trials, and reports each to the
// proposer, in the order of the proposals. The run's boards are all of one kind. A configuration with a result in the
// run is not measured again. Errors: those of tune.Run.Measure and of the proposer.
func Measure(ctx context.Context, run *tune.Run, s *space.Space, p space.Proposer, trials int) iter.Seq2[Trial, error] {
	return func(yield func(Trial, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var waiting []chan outcome
		defer func() {
			cancel()
			// The caller may close the run, which they use.
			for _, w := range waiting {
				<-w
			}
		}()

		for n := 0; ; {
			for ; len(waiting) < inFlight && n < trials; n++ {
				c, ok := p.Next()
				if !ok {
					// no more proposals; those under way are still reported
					trials = n
					break
				}
				done := make(chan outcome, 1)
				waiting = append(waiting, done)
				go func() {
					result, err := run.Measure(ctx, candidate(s, c))
					done <- outcome{Trial{c, result}, err}
				}()
			}

			if len(waiting) == 0 {
				if err := p.Err(); err != nil {
					yield(Trial{}, err)
				}
				return
			}

			// in the order of the proposals, on which the next ones depend
			o := <-waiting[0]
			waiting = waiting[1:]
			if o.err != nil {
				yield(Trial{}, o.err)
				return
			}
			report(p, o.trial)
			if !yield(o.trial, nil) {
				return
			}
		}
	}
}

type outcome struct {
	trial Trial
	err   error
}

func report(p space.Proposer, t Trial) {
	if t.Result.Time == nil {
		p.Report(t.Config, 0, false)
		return
	}
	p.Report(t.Config, t.Result.Time.Median, true)
}

// IsCurrent returns a function that reports whether a candidate has the kernel, the arguments and a configuration of
// the space, which may have changed since the candidate was measured.
func IsCurrent(s *space.Space) func(tune.Candidate) bool {
	kernel := kernelCandidate(s)
	return func(c tune.Candidate) bool {
		_, ok := s.Config(c.Record)
		return ok && c.Entry == kernel.Entry && reflect.DeepEqual(c.Operators.Files, kernel.Operators.Files) &&
			reflect.DeepEqual(c.Args, kernel.Args)
	}
}

// maxShown limits the readable part of an ID, in bytes.
const maxShown = 80

// candidate returns the candidate of a configuration, which is its record. Its ID is the configuration's values,
// shortened, and its hash.
func candidate(s *space.Space, c space.Config) tune.Candidate {
	shown := c.String()
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}

	t := kernelCandidate(s)
	t.ID, t.Operators.Flags = shown+" "+c.ID(), c.Flags()
	t.Record, _ = c.MarshalJSON() // of texts and numbers: it has no error
	return t
}

// kernelCandidate returns the common part of the candidates of all configurations.
func kernelCandidate(s *space.Space) tune.Candidate {
	var args []tune.Arg
	for _, a := range s.Args {
		args = append(args, tune.Arg{
			DType: a.DType, Shape: a.Shape, Data: a.Data, Want: a.Want, RelTol: a.RelTol, AbsTol: a.AbsTol,
		})
	}

	if s.Function != "" {
		return tune.Func("", s.Function, s.Kernel, args...)
	}
	return tune.Candidate{Entry: s.Entry, Operators: project.Operators{Files: s.Kernel}, Args: args}
}
