// This file has the schedulers and boards of a run, closes it, and measures single candidates.

package tune

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/tune/internal/cpulock"
)

// A Run measures candidates and stores their results in a folder. A run that was stopped at any moment can be
// continued. Many goroutines may use it.
type Run struct {
	dir   string
	desk  *device.Desk
	o     Options
	store *store
	gate  cpulock.Gate // of compilers, and of measurements on this computer's processors

	schedulers map[string]*scheduler // by the name of the kind of board
	boards     sync.WaitGroup
	stop       context.CancelFunc // ends the boards' goroutines
	closed     <-chan struct{}    // closed by stop

	current sync.Map // the content with which Measure was called last, by label
}

// schedulerOf returns the scheduler of a board, which the user has named by word. The first time, it builds firmware.
func (r *Run) schedulerOf(ctx context.Context, word string) (*scheduler, error) {
	b, err := boards.Find(word, r.o.Builder.Path)
	if err != nil {
		return nil, err
	}
	if s := r.schedulers[b.Name]; s != nil {
		return s, nil
	}

	s := newScheduler(b.Name, &r.o, r.store)
	s.firmware = &firmware{
		kind: b.Name, dir: r.dir, o: &r.o, board: b, gate: &r.gate, closed: r.closed, wanted: make(chan struct{}),
		onLayout: func(l *layout) { s.queue.Requeue(&job{isLayout: true, layout: l, image: l.resident}) },
	}
	r.schedulers[b.Name] = s // Close closes what it has built
	return s, s.firmware.open(ctx, word)
}

// newBoard returns a board of a kind, which has a name in the run.
func (r *Run) newBoard(s *scheduler, p place, name string) *board {
	b := newBoard(p, name, s.firmware)
	b.scheduler = s
	if c := r.o.Reference; c != nil && (c.Kind == "" || c.Kind == s.kind) {
		b.reference.candidate = c
	}
	return b
}

// Close ends the run. It interrupts measurements; their candidates are measured when the run is continued.
func (r *Run) Close() error {
	r.stop()
	for _, s := range r.schedulers {
		s.queue.Close()
	}
	// before the firmware is closed, which they use
	r.boards.Wait()

	var errs []error
	for _, s := range r.schedulers {
		errs = append(errs, s.firmware.close())
	}
	return errors.Join(append(errs, r.store.close())...)
}

// Kinds returns the names of the run's kinds of board, sorted.
func (r *Run) Kinds() []string { return slices.Sorted(maps.Keys(r.schedulers)) }

// Results reads the finished results from the run's folder, in order of finishing.
func (r *Run) Results() ([]Result, error) { return ReadResults(r.dir) }

// Fastest returns the fastest of Results whose times may be compared with that of one of measured, a disturbed one only
// if there is no other. Its Time is nil if there is none.
func (r *Run) Fastest(measured []Result) (Result, error) {
	all, err := r.Results()
	return fastest(all, measured), err
}

// Measure compiles, loads, checks and times one candidate. It returns when the result is in the run's folder. It
// returns the stored result of a candidate with equal content (kind, files, flags, arguments, record, compiler,
// libraries and firmware); SameAs is its ID, if that differs. With Options.Retry, it does not return a failure that an
// earlier run has stored. A candidate that fails is a Result with a Failure; if that has Retry set, it is not stored.
// Errors: of class interrupted if ctx or the run ended, of class config for a candidate without ID or entry, and of the
// last board that was given up.
func (r *Run) Measure(ctx context.Context, c Candidate) (Result, error) {
	if err := checkID(c.ID); err != nil {
		return Result{}, err
	}
	if c.Entry == "" {
		return Result{}, failure.New(failure.Config, "give the name of its function", "candidate %q has no entry", c.ID)
	}

	s := r.schedulers[c.Kind]
	if c.Kind == "" && len(r.schedulers) == 1 {
		s = r.schedulers[r.Kinds()[0]]
	}
	if s == nil {
		return Result{}, failure.Errorf(failure.Config, "candidate %s: the run has no board %q", c.ID, c.Kind)
	}

	if err := r.store.keep(s.kind, s.firmware.toolchain, &c); err != nil {
		return Result{}, err
	}
	r.current.Store(label{s.kind, c.ID}, c.content)
	return s.measure(ctx, c)
}

// LeaveOut removes candidates for which remove returns true from the run's results: those that the caller does not have
// any more, or has another version of. A candidate that is measured later is among the results again.
func (r *Run) LeaveOut(remove func(Candidate) bool) error {
	results, err := r.Results()
	if err != nil {
		return err
	}

	var left []label
	for _, result := range results {
		if result.Confirms != "" {
			continue // removed with its candidate
		}
		c, err := readCandidate(r.dir, result)
		if err != nil {
			return err
		}
		if remove(c) {
			left = append(left, result.label())
		}
	}

	if left == nil {
		return nil
	}
	return r.store.append(resultLine{LeftOut: left})
}
