// This file holds the candidates that wait for a place.

package tune

import (
	"context"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A job is a candidate that waits for a place.
type job struct {
	gone      <-chan struct{} // closed when nobody waits for the answer any more; nil: never
	candidate Candidate
	load      load
	alone     bool          // it was put into firmware without others
	built     time.Duration // that compiling and linking took
	queued    time.Time
	opens     bool        // there is no candidate: a place takes a new layout
	of        string      // the candidate that it confirms; "" for all others
	answer    chan answer // takes one; nil: nobody waits, the result takes the place of an earlier one
	failed    int         // times that it failed by what could be a board's fault
	suspect   int         // those of them that could be the candidate's, too
}

// done keeps the result, and gives it to whoever waits.
func (j *job) done(k *kind, result Result) {
	result.Build, result.Of = j.built, j.of
	write := k.run.store.add
	if j.answer == nil {
		write = k.run.store.replace
	}
	result, err := k.run.keep(k, j.candidate, result, write)
	switch {
	case j.answer != nil:
		j.answer <- answer{result, err}
	case err != nil:
		k.run.tell(Event{What: "measured " + j.candidate.ID + " again", Err: err})
	}
}

func (j *job) fail(err error) {
	if j.answer != nil {
		j.answer <- answer{err: err}
	}
}

func (j *job) isWanted() bool {
	select {
	case <-j.gone:
		return false
	default:
		return true
	}
}

type answer struct {
	result Result
	err    error
}

// A queue holds the jobs of one kind: a bounded number, so that builders do not run ahead of the boards, and besides
// those that a board has failed and those that go into firmware.
type queue struct {
	jobs  chan *job
	ended chan struct{} // no place is left
	end   sync.Once

	mu    sync.Mutex
	first [][]*job      // come before jobs; those of one list go into one firmware, or are one
	wake  chan struct{} // holds one where first is not empty
}

func newQueue(bound int) *queue {
	return &queue{jobs: make(chan *job, bound), ended: make(chan struct{}), wake: make(chan struct{}, 1)}
}

var errNoPlace = failure.Errorf(failure.BoardLost, "no board is left")

// push waits until there is room for a job.
func (q *queue) push(ctx context.Context, j *job) error {
	select {
	case q.jobs <- j:
		return nil
	case <-q.ended:
		return errNoPlace
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again queues jobs that go into one firmware, or one that a board has failed. It does not wait.
func (q *queue) again(jobs ...*job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.ended:
		for _, j := range jobs {
			j.fail(errNoPlace)
		}
	default:
		q.first = append(q.first, jobs)
		q.signal()
	}
}

// signal wakes one pop. Its caller holds q.mu.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // one will wake anyway
	}
}

// repeat queues a job that has been answered once more.
func (q *queue) repeat(j *job) {
	again := *j
	again.gone, again.answer, again.queued = nil, nil, time.Now()
	again.failed, again.suspect = 0, 0
	q.again(&again)
}

// pop waits for a job, or for several that go into one firmware; nil once ctx has ended.
func (q *queue) pop(ctx context.Context) []*job {
	for {
		if jobs := q.popFirst(); jobs != nil {
			return jobs
		}
		select {
		case <-q.wake:
		case j := <-q.jobs:
			return []*job{j}
		case <-ctx.Done():
			return nil
		}
	}
}

// waits reports whether pop would return a job at once.
func (q *queue) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.first) > 0 || len(q.jobs) > 0
}

func (q *queue) popFirst() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.first) == 0 {
		return nil
	}
	jobs := q.first[0]
	q.first = q.first[1:]
	if len(q.first) > 0 {
		q.signal()
	}
	return jobs
}

// close ends waiting pushes; what is queued is answered that no place is left.
func (q *queue) close() {
	q.end.Do(func() { // the last place and Close may come here at once
		q.mu.Lock()
		close(q.ended)
		q.mu.Unlock()
	})
	for {
		jobs := q.popFirst()
		if jobs == nil {
			select {
			case j := <-q.jobs:
				jobs = []*job{j}
			default:
				return
			}
		}
		for _, j := range jobs {
			j.fail(errNoPlace)
		}
	}
}
