package tune

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// TestQueueEnds ends a queue from several goroutines: the last place that is lost, and the run's Close.
func TestQueueEnds(t *testing.T) {
	for range 100 {
		q := newQueue(2)
		j := &job{answer: make(chan answer, 1)}
		q.again(j)
		var all sync.WaitGroup
		for range 4 {
			all.Go(q.close)
		}
		all.Wait()
		if a := <-j.answer; a.err == nil {
			t.Fatal("a queued job was not told")
		}
	}
}

// TestQueueAgain queues more jobs again than any channel holds, and has several goroutines take them all.
func TestQueueAgain(t *testing.T) {
	q := newQueue(2)
	const n = 5000
	var got [4]int
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var total atomic.Int64
	for i := range got {
		all.Go(func() {
			for jobs := q.pop(ctx); jobs != nil; jobs = q.pop(ctx) {
				got[i] += len(jobs)
				if total.Add(int64(len(jobs))) == n {
					cancel()
				}
			}
		})
	}
	for i := range n / 5 {
		q.again(&job{}, &job{})
		q.again(&job{})
		q.again(&job{})
		if i%2 == 0 {
			q.again(&job{})
		} else if err := q.push(ctx, &job{}); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if total.Load() != n {
		t.Errorf("%v taken of %d", got, n)
	}
}
