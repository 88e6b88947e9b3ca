// This file looks up functions and calls them by their handles, and frees handles and memory. It sets a time budget for
// each call, so that the device stops an endless call before the host's deadline and records its position.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// A caller calls functions of the device by their handles. It is the layer of a Session above channel.
type caller struct {
	channel
	names    map[uint32]string // of functions, by the part of the handle that a fault record holds
	returned map[string]bool   // by name: functions of which a call succeeded since the last allocation
	budget   time.Duration     // set by SetBudget; 0: it follows each call's deadline
	handles  map[string]uint64 // cached until a reset
	grants   grants            // until a reset
}

const (
	moduleGetFunction = "tvm.rpc.server.ModuleGetFunction"
	evaluatorFunction = "runtime.RPCTimeEvaluator"
)

// lookup returns the handle of a global function. Errors: ErrNotFound; those of a request.
func (c *caller) lookup(ctx context.Context, name string) (uint64, error) {
	if h, ok := c.handles[name]; ok {
		return h, nil
	}

	p := c.begin(tvmrpc.CodeGetGlobalFunc)
	p.Args = append(p.Args, tvmrpc.Text(name))
	h, err := c.exchangeHandle(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking up %s: %w", name, err)
	}
	if h == 0 {
		return 0, fmt.Errorf("%w %q in the device", ErrNotFound, name)
	}

	c.names[uint32(h)] = name
	// On every firmware, these functions keep their handles until a reset.
	if strings.HasPrefix(name, "boardsmith.") || name == moduleGetFunction || name == evaluatorFunction {
		c.handles[name] = h
	}
	return h, nil
}

// call exchanges the CallFunc in c.request and returns the reply's values, which are valid until the next exchange.
func (c *caller) call(ctx context.Context) ([]tvmrpc.Value, error) {
	if err := c.regrant(ctx); err != nil {
		return nil, err
	}
	if err := c.exchange(ctx); err != nil {
		return nil, err
	}
	return c.reply.Args, nil
}

// callScalar calls a function whose result is no object on the device.
func (c *caller) callScalar(ctx context.Context, handle uint64, args ...tvmrpc.Value) (any, error) {
	p := c.begin(tvmrpc.CodeCallFunc)
	p.Handle, p.Args = handle, append(p.Args, args...)

	values, err := c.call(ctx)
	if err != nil {
		return nil, err
	}

	result, err := scalar(values)
	if err != nil {
		return nil, c.breakUp(err)
	}
	return result, nil
}

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

		// Deadlines differ a little from call to call: a similar budget is kept.
		want, tolerance = limit-margin(limit), margin(limit)/2
	}

	return min(max(want, shortestBudget), longestBudget), tolerance
}

// grant sends the budget of the next call, unless the device already has about the same. It keeps c.request.
func (c *caller) grant(ctx context.Context) error {
	b := &c.grants
	want, tolerance := c.nextBudget(ctx)
	if b.missing || b.granted != 0 && (b.granted-want).Abs() <= tolerance {
		return nil
	}

	// An internal call has filled its request already.
	defer c.saveRequest()()
	err := c.sendBudget(ctx, want)
	for tries := 1; tries < attempts && c.retryable(err); tries++ { // sending it twice is harmless
		err = c.sendBudget(ctx, want)
	}

	// A device without budgets is no error: the host's deadline ends its calls.
	var rejected *DeviceError
	switch {
	case errors.Is(err, ErrNotFound):
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

	p := c.begin(tvmrpc.CodeCallFunc)
	p.Handle, p.Args = handle, append(p.Args, tvmrpc.Int(budgetMS(d)))
	return c.exchange(ctx)
}

// budgetMS returns a budget in milliseconds, rounded up: 0 would mean the device's default.
func budgetMS(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// regrant is grant for an internal call. It sends a budget only if an earlier call left one, which may be too
// short.
func (c *caller) regrant(ctx context.Context) error {
	if c.grants.granted == 0 {
		return nil
	}
	return c.grant(ctx)
}

var errResult = tvmrpc.Errorf("invalid result of a call")

// resultOf splits the result of a call into its type and its value (rpc.md §4.2).
func resultOf(args []tvmrpc.Value) (tvmrpc.TypeCode, tvmrpc.Value, error) {
	if len(args) < 2 || args[0].Type != tvmrpc.TypeInt || args[0].Word > math.MaxInt8 {
		return 0, tvmrpc.Value{}, errResult
	}
	return tvmrpc.TypeCode(args[0].Word), args[1], nil
}

// scalar decodes a result that is no object on the device. It shares no memory with args.
func scalar(args []tvmrpc.Value) (any, error) {
	kind, v, err := resultOf(args)
	if err != nil {
		return nil, err
	}
	if len(args) != 2 || v.Type != kind {
		return nil, errResult
	}

	switch kind {
	case tvmrpc.TypeInt:
		return int64(v.Word), nil
	case tvmrpc.TypeUint:
		return v.Word, nil
	case tvmrpc.TypeFloat:
		return math.Float64frombits(v.Word), nil
	case tvmrpc.TypeNull:
		return nil, nil
	case tvmrpc.TypeDType:
		return tvmrpc.WordDType(v.Word), nil
	case tvmrpc.TypeDevice:
		return tvmrpc.WordDevice(v.Word), nil
	case tvmrpc.TypeStr:
		return string(v.Data), nil
	case tvmrpc.TypeBytes:
		return append([]byte(nil), v.Data...), nil
	case tvmrpc.TypeHandle:
		return Handle(v.Word), nil
	}
	return nil, errResult
}

func (c *caller) freeHandle(ctx context.Context, handle uint64, kind tvmrpc.TypeCode) error {
	p := c.begin(tvmrpc.CodeFreeHandle)
	p.Args = append(p.Args, tvmrpc.Opaque(handle), tvmrpc.Int(int64(kind)))
	if err := c.exchangeVoid(ctx); err != nil {
		return fmt.Errorf("freeing handle %#x: %w", handle, err)
	}
	return nil
}

func (c *caller) freeData(ctx context.Context, handle uint64) error {
	p := c.begin(tvmrpc.CodeFreeData)
	p.Args = append(p.Args, tvmrpc.OnDevice(tvmrpc.CPU), tvmrpc.Opaque(handle))
	if err := c.exchangeVoid(ctx); err != nil {
		return fmt.Errorf("freeing a tensor: %w", err)
	}
	return nil
}
