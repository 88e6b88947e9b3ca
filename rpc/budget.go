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

// grants is the state of time budgets on the device.
type grants struct {
	missing bool          // the device does not support budgets
	granted time.Duration // 0: none was sent, the device uses its default
}

const (
	budgetFunction = "boardsmith.budget"
	shortestBudget = time.Millisecond
	longestBudget  = math.MaxInt32 * time.Millisecond
)

// margin returns the time between a budget's end and limit, the host's deadline: the device needs it to reset and to
// report the reason.
func margin(limit time.Duration) time.Duration {
	return min(max(limit/10, 200*time.Millisecond), 2*time.Second, limit/2)
}

// nextBudget returns the budget of a call that begins at once, and the tolerated difference of the device's.
func (c *caller) nextBudget(ctx context.Context) (want, tolerance time.Duration) {
	want = c.budget
	if want <= 0 {
		limit := c.timeout
		if end, limited := ctx.Deadline(); limited {
			limit = time.Until(end)
		}
		want, tolerance = limit-margin(limit), margin(limit)/2
	}
	return min(max(want, shortestBudget), longestBudget), tolerance
}

// grant sends the budget of the next call, unless the device already has about the same. It keeps s.request.
func (c *caller) grant(ctx context.Context) error {
	b := &c.grants
	want, tolerance := c.nextBudget(ctx)
	if b.missing || b.granted != 0 && (b.granted-want).Abs() <= tolerance {
		return nil
	}
	defer c.saveRequest()()
	err := c.sendBudget(ctx, want)
	for tries := 1; tries < attempts && c.retryable(err); tries++ { // sending it twice is harmless
		err = c.sendBudget(ctx, want)
	}
	var rejected *DeviceError
	switch {
	case isNotFound(err):
		b.missing = true
	case errors.As(err, &rejected):
		b.missing = true
		c.log.Warn("the device does not support time budgets", "error", err)
	case err != nil:
		return fmt.Errorf("calling %s: %w", budgetFunction, err)
	default:
		b.granted = want
	}
	return nil
}

func (c *caller) sendBudget(ctx context.Context, d time.Duration) error {
	handle, err := c.lookup(ctx, budgetFunction)
	if err != nil {
		return err
	}
	ms := (d + time.Millisecond - 1).Milliseconds() // rounded up: 0 would mean the device's default
	p := c.begin(CodeCallFunc)
	p.Handle, p.Args = handle, append(p.Args, Int(ms))
	return c.exchange(ctx)
}

// regrant is grant for an internal call. It sends a budget only if an earlier call left one, which may be too
// short.
func (c *caller) regrant(ctx context.Context) error {
	if c.grants.granted == 0 {
		return nil
	}
	return c.grant(ctx)
}
