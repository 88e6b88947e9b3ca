// This file gives each call a time budget on the device, so that the device ends an endless call before the host gives
// up, and can tell where it stood.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// budgets is what the device was told of time budgets.
type budgets struct {
	function Function      // boardsmith.budget
	missing  bool          // the device has none
	granted  time.Duration // 0: it was told nothing, and has its own
}

// SetBudget fixes how long each following call of a function may run on the device, whatever its deadline. 0, as at
// the start, lets the budget follow each call's deadline, which is its context's, else Options.Timeout: it ends a
// tenth earlier, 200 ms to 2 s, and at most half the time. A call that runs longer ends with a *FaultError of
// ReasonTimeout, and the device is reset. A device without boardsmith.budget gets none: there only the host's own
// timeout ends a call, and the session with it. Errors: those of ctx.
func (s *Session) SetBudget(ctx context.Context, d time.Duration) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.budget = d
	return nil
}

const (
	budgetFunction = "boardsmith.budget"
	shortestBudget = time.Millisecond
	longestBudget  = math.MaxInt32 * time.Millisecond
)

// margin is what a budget leaves of limit, the time until the host gives up: the device needs it to reset and to be
// asked for the reason.
func margin(limit time.Duration) time.Duration {
	return min(max(limit/10, 200*time.Millisecond), 2*time.Second, limit/2)
}

// wantedBudget returns the budget of a call that begins now, and how far the device's may differ from it.
func (s *Session) wantedBudget(ctx context.Context) (want, tolerance time.Duration) {
	want = s.budget
	if want <= 0 {
		limit := s.timeout
		if end, limited := ctx.Deadline(); limited {
			limit = time.Until(end)
		}
		want, tolerance = limit-margin(limit), margin(limit)/2
	}
	return min(max(want, shortestBudget), longestBudget), tolerance
}

// grant tells the device the budget of the call that follows, unless it has nearly the same. s.request stays as it is.
func (s *Session) grant(ctx context.Context) error {
	b := &s.known.budgets
	want, tolerance := s.wantedBudget(ctx)
	if b.missing || b.granted != 0 && (b.granted-want).Abs() <= tolerance {
		return nil
	}
	defer s.aside()()
	err := s.tellBudget(ctx, want)
	for tries := 1; tries < attempts && s.again(err); tries++ { // telling it twice does no harm
		err = s.tellBudget(ctx, want)
	}
	var refused *DeviceError
	switch {
	case isNotFound(err):
		b.missing = true
	case errors.As(err, &refused):
		b.missing = true
		s.log.Warn("the device takes no time budget", "error", err)
	case err != nil:
		return fmt.Errorf("calling %s: %w", budgetFunction, err)
	default:
		b.granted = want
	}
	return nil
}

func (s *Session) tellBudget(ctx context.Context, d time.Duration) error {
	f := &s.known.budgets.function
	if err := s.globalOnce(ctx, f, budgetFunction); err != nil {
		return err
	}
	ms := (d + time.Millisecond - 1).Milliseconds() // rounded up: 0 would be the device's own
	p := s.begin(CodeCallFunc)
	p.Handle = f.handle
	p.Args = append(p.Args, Int(ms))
	return s.exchange(ctx)
}

// regrant is grant for a call that the host makes on its own account: it needs a budget only where an earlier call has
// left one, which may be too short for it.
func (s *Session) regrant(ctx context.Context) error {
	if s.known.budgets.granted == 0 {
		return nil
	}
	return s.grant(ctx)
}
