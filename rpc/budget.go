// This file sets a time budget for each call on the device, so that the device stops an endless call before the
// host's deadline and records where it was.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// budgets is the state of time budgets on the device.
type budgets struct {
	function Function      // boardsmith.budget
	missing  bool          // the device does not support budgets
	granted  time.Duration // 0: none was sent, the device uses its default
}

// SetBudget fixes how long each following call of a function may run on the device, whatever its deadline. With 0,
// the initial value, the budget follows each call's deadline (its context's, else Options.Timeout), less a tenth,
// which is limited to 200 ms to 2 s and to half the time. A call that exceeds its budget returns a *fault.Error of
// fault.ReasonTimeout, and the device is reset. On a device without boardsmith.budget only the host's timeout ends a
// call, and with it the session. Errors: those of ctx.
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

// margin returns how much earlier than limit, the host's deadline, a budget ends: the device needs that time to
// reset and to report the reason.
func margin(limit time.Duration) time.Duration {
	return min(max(limit/10, 200*time.Millisecond), 2*time.Second, limit/2)
}

// wantedBudget returns the budget of a call that begins now, and how far the device's may differ.
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

// grant sends the budget of the next call, unless the device already has about the same. It keeps s.request.
func (s *Session) grant(ctx context.Context) error {
	b := &s.known.budgets
	want, tolerance := s.wantedBudget(ctx)
	if b.missing || b.granted != 0 && (b.granted-want).Abs() <= tolerance {
		return nil
	}
	defer s.aside()()
	err := s.tellBudget(ctx, want)
	for tries := 1; tries < attempts && s.again(err); tries++ { // sending it twice is harmless
		err = s.tellBudget(ctx, want)
	}
	var refused *DeviceError
	switch {
	case isNotFound(err):
		b.missing = true
	case errors.As(err, &refused):
		b.missing = true
		s.log.Warn("the device does not support time budgets", "error", err)
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
	ms := (d + time.Millisecond - 1).Milliseconds() // rounded up: 0 would mean the device's default
	p := s.begin(CodeCallFunc)
	p.Handle = f.handle
	p.Args = append(p.Args, Int(ms))
	return s.exchange(ctx)
}

// regrant is grant for an internal call. It sends a budget only if an earlier call left one, which may be too
// short.
func (s *Session) regrant(ctx context.Context) error {
	if s.known.budgets.granted == 0 {
		return nil
	}
	return s.grant(ctx)
}
