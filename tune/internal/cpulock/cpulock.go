// Package cpulock excludes work on this computer's processors, such as that of compilers, while something is timed on
// them.
//
// It starts and stops no process: goroutines enter the gate before they work or measure.
package cpulock

import (
	"context"
	"sync"
)

// A Gate admits any number of works, or one timing. A waiting timing precedes later works. The zero value is open. Many
// goroutines may use it.
type Gate struct {
	mu      sync.Mutex
	works   int
	timing  bool
	waiting int           // timings
	changed chan struct{} // closed at the next end; nil: no goroutine waits
}

// Work waits until no timing runs or waits, and admits a work until the caller calls end, once. Its error is that of
// ctx; end is nil then.
func (g *Gate) Work(ctx context.Context) (end func(), err error) {
	free := func() bool { return !g.timing && g.waiting == 0 }
	if err := g.enter(ctx, free, func() { g.works++ }); err != nil {
		return nil, err
	}
	return func() { g.leave(func() { g.works-- }) }, nil
}

// Time waits until all works and other timings have ended, and admits none until the caller calls end, once. Its error
// is that of ctx; end is nil then.
func (g *Gate) Time(ctx context.Context) (end func(), err error) {
	g.mu.Lock()
	g.waiting++
	g.mu.Unlock()
	err = g.enter(ctx, func() bool { return !g.timing && g.works == 0 }, func() { g.timing = true })
	g.leave(func() { g.waiting-- })
	if err != nil {
		return nil, err
	}
	return func() { g.leave(func() { g.timing = false }) }, nil
}

// enter waits until free returns true, and calls take under the lock.
func (g *Gate) enter(ctx context.Context, free func() bool, take func()) error {
	for ctx.Err() == nil {
		g.mu.Lock()
		if free() {
			take()
			g.mu.Unlock()
			return nil
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// leave calls end under the lock, and wakes all goroutines that wait.
func (g *Gate) leave(end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	end()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
