package schedule_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/tune/internal/schedule"
)

var must = testkit.Must

// TestCloseDropsEachJobOnce closes a queue from several goroutines: the last place that is lost, and the run's Close.
func TestCloseDropsEachJobOnce(t *testing.T) {
	for range 100 {
		var dropped atomic.Int32
		q := schedule.NewQueue(2, func(int) { dropped.Add(1) })
		q.Requeue(1)
		must(t, q.Push(t.Context(), 2))
		var all sync.WaitGroup
		for range 4 {
			all.Go(q.Close)
		}
		all.Wait()
		q.Requeue(3)
		if n := dropped.Load(); n != 3 {
			t.Fatalf("%d jobs were dropped, want 3", n)
		}
	}
}

// TestPushFailsWhenClosed: also a queue without room fails once the context ends.
func TestPushFailsWhenClosed(t *testing.T) {
	q := schedule.NewQueue(0, func(int) {})
	q.Close()
	if err := q.Push(t.Context(), 1); !errors.Is(err, schedule.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := schedule.NewQueue(0, func(int) {}).Push(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("full: %v", err)
	}
}

// TestRequeueNeverBlocks requeues more jobs than any channel holds, and has several goroutines take them all.
func TestRequeueNeverBlocks(t *testing.T) {
	q := schedule.NewQueue(2, func(int) {})
	const n = 5000
	var counts [4]int
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var total atomic.Int64
	for i := range counts {
		all.Go(func() {
			for batch := q.Pop(ctx); batch != nil; batch = q.Pop(ctx) {
				counts[i] += len(batch)
				if total.Add(int64(len(batch))) == n {
					cancel()
				}
			}
		})
	}
	for i := range n / 5 {
		q.Requeue(1, 2)
		q.Requeue(3)
		q.Requeue(4)
		if i%2 == 0 {
			q.Requeue(5)
		} else {
			must(t, q.Push(ctx, 5))
		}
	}
	all.Wait()
	if total.Load() != n {
		t.Errorf("%v jobs were taken, want %d", counts, n)
	}
}

// TestBatchIsReleasedWhenNothingCanJoin: a batch waits for jobs in progress, up to its size.
func TestBatchIsReleasedWhenNothingCanJoin(t *testing.T) {
	var batches [][]string
	b := schedule.Batcher[string]{Size: 2, Release: func(jobs ...string) { batches = append(batches, jobs) }}
	check := func(step string, want ...[]string) {
		t.Helper()
		if !slices.EqualFunc(batches, want, slices.Equal) {
			t.Errorf("%s: released %q, want %q", step, batches, want)
		}
	}
	endA, endB, endC, endOther := b.Begin(), b.Begin(), b.Begin(), b.Begin()
	b.Add("a")
	check("others are in progress")
	b.Add("b")
	check("it is full", []string{"a", "b"})
	b.Add("c")
	check("another one is in progress", []string{"a", "b"})
	endOther()
	check("none can join", []string{"a", "b"}, []string{"c"})
	for _, end := range []func(){endA, endB, endC} {
		b.Done()
		end()
	}
	end := b.Begin()
	b.Add("d")
	check("it is alone", []string{"a", "b"}, []string{"c"}, []string{"d"})
	b.Done()
	end()
}
