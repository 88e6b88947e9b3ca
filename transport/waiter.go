// This file ends reads and writes with a context.

package transport

import (
	"context"
	"errors"
	"os"
	"time"
)

// A waiter ends reads or writes of a file or a connection with a context. Only one goroutine at a time may use it.
type waiter struct {
	setDeadline func(time.Time) error
	interrupt   func() // ends a wait; created once, so that a wait does not allocate
}

func newWaiter(setDeadline func(time.Time) error) waiter {
	return waiter{setDeadline, func() { _ = setDeadline(time.Unix(1, 0)) }}
}

// wait runs io, which may wait, until it completes or ctx ends. An io that made progress is complete.
func (w *waiter) wait(ctx context.Context, op string, io func() (int, error)) (int, error) {
	start := time.Now()
	for {
		deadline, _ := ctx.Deadline() // the zero time is no deadline
		if err := w.setDeadline(deadline); err != nil {
			return 0, err
		}

		stop := context.AfterFunc(ctx, w.interrupt)
		n, err := io()
		stop()

		switch {
		case n > 0:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil // ignore it: the next wait reports it
			}
			return n, err
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case ended(ctx):
			return 0, waitError(ctx, op, start)
		}
		// An interrupt of an earlier wait: continue.
	}
}

// ended reports whether ctx has ended. It waits for a timer that is slightly late, so that ctx.Err is set when it
// returns true.
func ended(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	if ctx.Err() == nil && (!limited || time.Now().Before(deadline)) {
		return false
	}
	<-ctx.Done()
	return true
}
