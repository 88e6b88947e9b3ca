package tune

import (
	"context"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A job is a candidate that waits for a place.
type job struct {
	ctx       context.Context // of whoever waits for the answer
	candidate Candidate
	load      load
	built     time.Duration // that compiling and linking took
	queued    time.Time
	of        string      // the candidate that it confirms; "" for all others
	answer    chan answer // takes one; nil: nobody waits, the result takes the place of an earlier one
	failed    int         // times that it failed by what could be a board's fault
	suspect   int         // those of them that could be the candidate's, too
}

// done gives whoever waits the result.
func (j *job) done(r *Run, result Result) {
	result.Build, result.Of = j.built, j.of
	if j.answer != nil {
		j.answer <- answer{result: result}
		return
	}
	k, err := r.kindOf(j.candidate)
	if err == nil {
		_, err = r.keep(k, j.candidate, result)
	}
	if err != nil {
		r.tell(Event{What: "measured " + j.candidate.ID + " again", Err: err})
	}
}

func (j *job) fail(err error) {
	if j.answer != nil {
		j.answer <- answer{err: err}
	}
}

type answer struct {
	result Result
	err    error
}

// A queue holds the jobs of one kind: a bounded number, so that builders do not run ahead of the boards.
type queue struct {
	jobs  chan *job
	again chan *job     // jobs that a board has failed, which come first
	flash chan []*job   // jobs that go into one firmware together
	ended chan struct{} // no place is left
	end   sync.Once
}

func newQueue(bound int) *queue {
	return &queue{
		jobs: make(chan *job, bound), again: make(chan *job, 1024), flash: make(chan []*job),
		ended: make(chan struct{}),
	}
}

var errNoPlace = failure.New(failure.BoardLost, "", "no board is left")

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

// repeat queues a job that has been answered once more, as far as there is room.
func (q *queue) repeat(j *job) {
	again := *j
	again.ctx, again.answer, again.queued = context.Background(), nil, time.Now()
	again.failed, again.suspect = 0, 0
	select {
	case q.again <- &again:
	default:
	}
}

// together queues jobs that go into one firmware, without waiting for a place to take them.
func (q *queue) together(jobs []*job) {
	go func() {
		select {
		case q.flash <- jobs:
		case <-q.ended:
			for _, j := range jobs {
				j.fail(errNoPlace)
			}
		}
	}()
}

// pop waits for a job, or for several that go into one firmware; nil once ctx has ended.
func (q *queue) pop(ctx context.Context) []*job {
	select {
	case j := <-q.again:
		return []*job{j}
	default:
	}
	select {
	case j := <-q.again:
		return []*job{j}
	case j := <-q.jobs:
		return []*job{j}
	case all := <-q.flash:
		return all
	case <-ctx.Done():
		return nil
	}
}

// close ends waiting pushes; what is queued is answered that no place is left.
func (q *queue) close() {
	q.end.Do(func() { close(q.ended) }) // the last place and Close may come here at once
	for {
		select {
		case j := <-q.again:
			j.fail(errNoPlace)
		case j := <-q.jobs:
			j.fail(errNoPlace)
		default:
			return
		}
	}
}
