package transport

import (
	"context"
	"errors"
	"os"
	"time"
)

// A waiter makes reads or writes of a file or a connection end with a context. One goroutine at a time may use it.
type waiter struct {
	setDeadline func(time.Time) error
	interrupt   func() // makes a wait end; made once, so that a wait allocates nothing
}

func newWaiter(setDeadline func(time.Time) error) waiter {
	return waiter{setDeadline, func() { _ = setDeadline(time.Unix(1, 0)) }}
}

// wait runs io, which may wait, until it is done or ctx is. An io that made progress is done.
func (w *waiter) wait(ctx context.Context, op string, io func() (int, error)) (int, error) {
	began := time.Now()
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
				err = nil // of the rest; the next wait reports it
			}
			return n, err
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case ended(ctx):
			return 0, waitError(ctx, op, began)
		}
		// An interrupt that was meant for an earlier wait: go on.
	}
}

// ended says whether ctx has ended, also where its own timer is a moment late: what it returns true for, ctx.Err knows.
func ended(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	if ctx.Err() == nil && (!limited || time.Now().Before(deadline)) {
		return false
	}
	<-ctx.Done()
	return true
}
