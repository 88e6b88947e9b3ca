package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A used session has an object of each kind on the device.
type used struct {
	*rpc.Session
	lib    rpc.Module
	negate rpc.Function
	slow   rpc.Function // never answers
	tensor *rpc.Tensor
}

func use(t *testing.T) used {
	release := make(chan struct{})
	d := device()
	d.Globals["slow"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		<-release
		return rpctest.Nothing(), nil
	}
	s := open(t, d, nil)
	t.Cleanup(func() { close(release) }) // before open's deadline, which waits for the device
	return used{s, library(t, s), operator(t, s, "negate"), global(t, s, "slow"), empty(t, s, 4)}
}

// TestContexts calls every function of this package with contexts that end before and during the call.
func TestContexts(t *testing.T) {
	u := use(t)
	array := valueOf[*ndarray.Array](t)(ndarray.New(i8, 4))
	bytes := make([]byte, 4)
	host, other := transporttest.Pair()
	serve(t, &rpctest.Device{}, other)
	device, err := transport.Dial(testkit.Context(t), host, transport.SessionOptions{})
	must(t, err)
	t.Cleanup(func() { device.Close() })
	failuretest.Ended(t, failuretest.Calls{
		"Transport.Send":            func(ctx context.Context) error { return device.Send(ctx, bytes) },
		"Transport.Recv":            failuretest.Of(device.Recv),
		"Session.Platform":          failuretest.Of(u.Platform),
		"Session.PriorFault":        failuretest.Of(u.PriorFault),
		"Session.Function":          func(ctx context.Context) error { _, err := u.Function(ctx, "echo"); return err },
		"Session.SystemLib":         failuretest.Of(u.SystemLib),
		"Session.Empty":             func(ctx context.Context) error { _, err := u.Empty(ctx, i8, []int64{1}); return err },
		"Session.Alloc":             func(ctx context.Context) error { _, err := u.Alloc(ctx, 8, 8); return err },
		"Session.NewArray":          func(ctx context.Context) error { _, err := u.NewArray(ctx, array); return err },
		"Session.Damages":           failuretest.Of(u.Damages),
		"Session.AcknowledgeDamage": u.AcknowledgeDamage,
		"Session.SetBudget":         func(ctx context.Context) error { return u.SetBudget(ctx, time.Second) },
		"Session.Do":                func(ctx context.Context) error { return ping(ctx, u.Session) },
		"Session.Renew":             u.Renew,
		"Session.TensorAt":          func(ctx context.Context) error { _, err := u.TensorAt(ctx, 8, i8, nil); return err },
		"Tensor.Discard":            u.tensor.Discard,
		"Session.Close":             func(ctx context.Context) error { return use(t).Close(ctx) },
		"Module.Function":           func(ctx context.Context) error { _, err := u.lib.Function(ctx, "fail"); return err },
		"Module.Time": func(ctx context.Context) error {
			_, err := u.lib.Time(ctx, "negate", rpc.TimeOptions{})
			return err
		},
		"Module.Free":             u.lib.Free,
		"Module.Check":            u.lib.Check,
		"Module.Unlink":           u.lib.Unlink,
		"Session.Windows":         failuretest.Of(u.Windows),
		"Tensor.Fill":             func(ctx context.Context) error { return u.tensor.Fill(ctx, 1) },
		"Session.TimedInterrupts": failuretest.Of(u.TimedInterrupts),
		"Session.Upload": func(ctx context.Context) error {
			_, err := u.Upload(ctx, rpc.Program{Base: 16, Bytes: bytes})
			return err
		},
		"Function.Call": func(ctx context.Context) error { _, err := u.negate.Call(ctx, u.tensor, u.tensor); return err },
		"Tensor.Write":  func(ctx context.Context) error { return u.tensor.Write(ctx, bytes) },
		"Tensor.Read":   func(ctx context.Context) error { return u.tensor.Read(ctx, bytes) },
		"Tensor.CRC32":  func(ctx context.Context) error { _, err := u.tensor.CRC32(ctx); return err },
		"Tensor.Array":  failuretest.Of(u.tensor.Array),
		"Tensor.Free":   u.tensor.Free,
	})
	if err := u.tensor.Write(testkit.Context(t), bytes); err != nil {
		t.Errorf("after contexts that had ended before anything was sent: %v", err)
	}
	busy := func() used {
		u, began := use(t), make(chan struct{})
		go func() { close(began); _, _ = u.slow.Call(context.Background()) }()
		<-began
		time.Sleep(10 * time.Millisecond) // until its turn
		return u
	}
	failuretest.Waiting(t, failuretest.Calls{
		"Function.Call":                   func(ctx context.Context) error { _, err := use(t).slow.Call(ctx); return err },
		"waiting for its turn":            func(ctx context.Context) error { return ping(ctx, busy().Session) },
		"Session.Damages while busy":      func(ctx context.Context) error { _, err := busy().Damages(ctx); return err },
		"Session.Close of a busy session": func(ctx context.Context) error { return busy().Close(ctx) },
	})
}
