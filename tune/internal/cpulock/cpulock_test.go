package cpulock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/tune/internal/cpulock"
)

var must = testkit.Must

// TestGateAdmitsWorksOrOneTiming: any number work together, or one times; those who stop waiting leave nothing behind.
func TestGateAdmitsWorksOrOneTiming(t *testing.T) {
	var g cpulock.Gate
	ctx := t.Context()
	first, err := g.Work(ctx)
	must(t, err)
	second, err := g.Work(ctx)
	must(t, err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := g.Time(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("timed among works: %v", err)
	}
	third, err := g.Work(ctx) // the timing that was given up keeps nobody out
	must(t, err)
	first()
	second()
	third()
	end, err := g.Time(ctx)
	must(t, err)
	if _, err := g.Work(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("work while it is timed: %v", err)
	}
	if _, err := g.Time(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("two timings: %v", err)
	}
	end()
	if end, err = g.Time(ctx); err != nil {
		t.Fatal(err)
	}
	end()
}

// TestWorkNeverOverlapsTiming has many goroutines work and time.
func TestWorkNeverOverlapsTiming(t *testing.T) {
	var g cpulock.Gate
	var works, timings atomic.Int32
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			for range 50 {
				enter, count := g.Work, &works
				if n%4 == 0 {
					enter, count = g.Time, &timings
				}
				end, err := enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				count.Add(1)
				if w, at := works.Load(), timings.Load(); at > 1 || at == 1 && w > 0 {
					t.Errorf("%d work while %d are timed", w, at)
				}
				count.Add(-1)
				end()
			}
		})
	}
	all.Wait()
}
