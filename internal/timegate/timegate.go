// Package timegate keeps work on this computer, such as compilers, apart from what is timed by its clock on its
// processors.
//
// It starts and stops no process: those who work and those who time ask it first.
package timegate

import (
	"context"
	"sync"
)

// A Gate admits any number of works, or one timing. A timing that waits goes before later works. The zero value admits
// both. Many goroutines may use it.
type Gate struct {
	mu      sync.Mutex
	works   int
	timed   bool
	waiting int           // timings
	changed chan struct{} // closed at the next end; nil: nobody waits
}

// Work waits until nothing is timed, and admits a work until the function that it returns is called, once. Its error is
// that of ctx, then nothing is to be called.
func (g *Gate) Work(ctx context.Context) (end func(), err error) {
	free := func() bool { return !g.timed && g.waiting == 0 }
	if err := g.enter(ctx, free, func() { g.works++ }); err != nil {
		return nil, err
	}
	return func() { g.leave(func() { g.works-- }) }, nil
}

// Time waits until every work and other timing has ended, and admits none until the function that it returns is called,
// once. Its error is that of ctx, then nothing is to be called.
func (g *Gate) Time(ctx context.Context) (end func(), err error) {
	g.mu.Lock()
	g.waiting++
	g.mu.Unlock()
	err = g.enter(ctx, func() bool { return !g.timed && g.works == 0 }, func() { g.timed = true })
	g.leave(func() { g.waiting-- })
	if err != nil {
		return nil, err
	}
	return func() { g.leave(func() { g.timed = false }) }, nil
}

// enter calls take as soon as free is true.
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

// leave applies an end, and wakes those who wait.
func (g *Gate) leave(end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	end()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
