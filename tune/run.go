// This file has the kinds and workers of a run, closes it, and measures single candidates.

package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/tune/internal/schedule"
	"github.com/boardsmith/boardsmith/tune/internal/timegate"
)

// A Run measures candidates and stores their results in a folder. A run that was stopped at any moment can be
// continued. Many goroutines may use it.
type Run struct {
	dir   string
	desk  *device.Desk
	o     Options
	kinds map[string]*boardKind // by name
	store *store
	gate  timegate.Gate // of compilers, and of measurements on this computer's processors

	stop    context.CancelFunc // ends the workers
	closed  <-chan struct{}    // closed by stop
	workers sync.WaitGroup

	measuring claims[string] // by content
	current   currentContents
}

// currentContents are the contents with which Measure was called, by label.
type currentContents struct {
	mu      sync.Mutex
	byLabel map[label]string
}

func (c *currentContents) set(name label, content string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byLabel[name] = content
}

// contains reports whether Measure was called with the label and content of a result, and with no other content since.
func (c *currentContents) contains(r Result) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byLabel[r.label()] == r.Content
}

// kindOfBoard returns the kind of a board, which the user has named by name. The first time, it builds its firmware.
func (r *Run) kindOfBoard(ctx context.Context, name string) (*boardKind, error) {
	b, err := boards.Find(name, r.o.Builder.Path)
	if err != nil {
		return nil, err
	}
	k := r.kinds[b.Name]
	if k == nil {
		k, err = r.newKind(ctx, b, name)
		r.kinds[b.Name] = k // Close closes what it has built
	}
	return k, err
}

// workerAt returns a worker for a place of a kind, which it has in the run under a name.
func (r *Run) workerAt(k *boardKind, place Place, name string) *worker {
	l := k.firmware.current()
	s := &station{
		place: place, name: name, o: &r.o, firmware: k.firmware, gate: &r.gate, layout: l, image: l.resident,
	}
	s.changing, _ = place.(changingPlace)

	reference := &reference{station: s, drift: r.o.Drift, others: &k.references}
	if c := r.o.Reference; c != nil && (c.Kind == "" || c.Kind == k.name) {
		reference.candidate = c
	}
	return &worker{kind: k, station: s, reference: reference}
}

// newKind builds the firmware of a kind of board, which the user has named by word. After an error it returns the kind
// too, so that it can be closed.
func (r *Run) newKind(ctx context.Context, b *boards.Board, word string) (*boardKind, error) {
	k := &boardKind{
		name: b.Name, o: &r.o, closed: r.closed,
		queue:    schedule.NewQueue(queueBound, func(j *job) { j.fail(errNoPlace) }),
		recorder: &recorder{kind: b.Name, o: &r.o, store: r.store},
	}
	k.batcher = &schedule.Batcher[*job]{Size: r.o.FlashBatch, Release: k.queue.Requeue}

	k.firmware = &firmware{
		kind: b.Name, dir: r.dir, o: &r.o, board: b, gate: &r.gate, places: &k.places, closed: r.closed,
		wanted: make(chan struct{}),
		onLayout: func(l *layout) {
			k.queue.Requeue(&job{isLayout: true, load: load{layout: l, image: l.resident}})
		},
	}

	err := k.firmware.open(ctx, word)
	k.recorder.toolchain = k.firmware.toolchain
	return k, err
}

// Close ends the run. It interrupts measurements; their candidates are measured when the run is continued.
func (r *Run) Close() error {
	r.stop()
	for _, k := range r.kinds {
		k.queue.Close()
	}
	// before the firmware is closed, which they use
	r.workers.Wait()

	var errs []error
	for _, k := range r.kinds {
		errs = append(errs, k.firmware.close())
	}
	return errors.Join(append(errs, r.store.close())...)
}

// Kinds returns the names of the run's kinds of board, sorted.
func (r *Run) Kinds() []string { return slices.Sorted(maps.Keys(r.kinds)) }

// Results reads the finished results from the run's folder, in order of finishing.
func (r *Run) Results() ([]Result, error) { return ReadResults(r.dir) }

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

	k, err := r.kindOf(c)
	if err != nil {
		return Result{}, err
	}
	if err := r.store.describe(k.name, k.firmware.toolchain, &c); err != nil {
		return Result{}, err
	}
	r.current.set(label{k.name, c.ID}, c.content)

	for {
		finished, err := r.isFinished(c.content)
		if err != nil {
			return Result{}, err
		}
		if finished {
			return k.recorder.share(c, Result{}, c.content)
		}

		m, first := r.measuring.get(c.content)
		if first {
			// Deferred calls run in reverse: it is removed when the others look for the result.
			defer close(m.done)
			defer r.measuring.remove(c.content)
			return r.measure(ctx, k, c)
		}

		// Another goroutine measures it. If that gives no result, this goroutine measures it.
		select {
		case <-m.done:
		case <-ctx.Done():
			return Result{}, failure.Stopped(ctx, "measure %s", c.ID)
		}
	}
}

// isFinished reports whether a content has a result that counts: of this process, or of an earlier one unless it is a
// failure and Options.Retry is set.
func (r *Run) isFinished(content string) (bool, error) {
	result, own, ok, err := r.store.find(content)
	return ok && (own || result.Failure == nil || !r.o.Retry), err
}

func (r *Run) kindOf(c Candidate) (*boardKind, error) {
	if k := r.kinds[c.Kind]; k != nil {
		return k, nil
	}
	if c.Kind == "" && len(r.kinds) == 1 {
		for _, k := range r.kinds {
			return k, nil
		}
	}
	return nil, failure.Errorf(failure.Config, "candidate %s: the run has no board %q", c.ID, c.Kind)
}

// maxHostTries limits how often a candidate is built if the computer is to blame.
const maxHostTries = 3

// measure measures a candidate whose content is locked, and writes its result.
func (r *Run) measure(ctx context.Context, k *boardKind, c Candidate) (result Result, err error) {
	suspicions := 0
	for range maxHostTries {
		result, err = k.measure(ctx, c)
		if err != nil || result.ID == c.ID { // a worker has written it
			return result, err
		}

		if result.Failure == nil || result.Failure.Blame != BlameHost {
			break
		}
		if result.Failure.suspected != "" {
			suspicions++
		}
	}

	if suspicions == maxHostTries && k.firmware.compilerWorks(ctx) {
		f := result.Failure
		f.Class, f.Blame, f.Retry = f.suspected, BlameCandidate, false
		f.Message = fmt.Sprintf("the compiler fails each time, and not for another source: %s", f.Message)
	}

	if result.sharedKey != "" {
		return k.recorder.share(c, Result{Build: result.Build}, result.sharedKey)
	}
	return k.recorder.add(c, result)
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
		c, err := r.store.candidate(result)
		if err != nil {
			return err
		}
		if remove(c) {
			left = append(left, result.label())
		}
	}

	return r.store.leaveOut(left)
}
