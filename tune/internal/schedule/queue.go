// Package schedule holds the jobs of a tuning run until a place takes them: a queue, and a batcher that collects jobs
// which are built into one firmware.
//
// It starts no goroutine and does not know what a job is.
package schedule

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is returned by Push for a queue that is closed.
var ErrClosed = errors.New("the queue is closed")

// A Queue passes jobs to places. Push blocks while the queue is full, so that builders do not run ahead of the places.
// Requeue does not block, and its jobs come first. Many goroutines may use it.
type Queue[J any] struct {
	jobs   chan J
	closed chan struct{}
	once   sync.Once // closes closed
	drop   func(J)

	mu      sync.Mutex
	batches [][]J         // queued by Requeue
	wake    chan struct{} // holds one token where batches is not empty
}

// NewQueue returns an empty queue that holds bound jobs of Push. It calls drop for each job that is in the queue when
// the queue closes, and for jobs that are requeued later.
func NewQueue[J any](bound int, drop func(J)) *Queue[J] {
	return &Queue[J]{
		jobs: make(chan J, bound), closed: make(chan struct{}), drop: drop, wake: make(chan struct{}, 1),
	}
}

// Push adds a job when there is room for it. Errors: ErrClosed, and that of ctx.
func (q *Queue[J]) Push(ctx context.Context, job J) error {
	select {
	case q.jobs <- job:
		return nil
	case <-q.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Requeue adds a batch before all jobs of Push. One Pop returns the whole batch.
func (q *Queue[J]) Requeue(batch ...J) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.closed:
		for _, job := range batch {
			q.drop(job)
		}
	default:
		q.batches = append(q.batches, batch)
		q.signal()
	}
}

// signal wakes one Pop. The caller holds q.mu.
func (q *Queue[J]) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Pop waits for a batch, or for one job of Push. It returns nil when ctx ends.
func (q *Queue[J]) Pop(ctx context.Context) []J {
	for {
		if batch := q.popBatch(); batch != nil {
			return batch
		}
		select {
		case <-q.wake:
		case job := <-q.jobs:
			return []J{job}
		case <-ctx.Done():
			return nil
		}
	}
}

// Empty reports whether Pop would have to wait.
func (q *Queue[J]) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.batches) == 0 && len(q.jobs) == 0
}

func (q *Queue[J]) popBatch() []J {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return nil
	}
	batch := q.batches[0]
	q.batches = q.batches[1:]
	if len(q.batches) > 0 {
		q.signal()
	}
	return batch
}

// Closed returns a channel that is closed with the queue.
func (q *Queue[J]) Closed() <-chan struct{} { return q.closed }

// Close unblocks Push and drops the jobs that are queued. It may be called more than once.
func (q *Queue[J]) Close() {
	q.once.Do(func() {
		q.mu.Lock() // Requeue must not add a batch after this
		close(q.closed)
		q.mu.Unlock()
	})
	for {
		batch := q.popBatch()
		if batch == nil {
			select {
			case job := <-q.jobs:
				batch = []J{job}
			default:
				return
			}
		}
		for _, job := range batch {
			q.drop(job)
		}
	}
}
