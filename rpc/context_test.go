package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
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
	d.Globals["slow"] = doing(func() { <-release })
	s := open(t, d)
	t.Cleanup(func() { close(release) }) // before open's deadline, which waits for the device
	return used{s, library(t, s), operator(t, s, "negate"), global(t, s, "slow"), empty(t, s, 4)}
}

// TestContexts calls every function of this package with contexts that end before and during the call.
func TestContexts(t *testing.T) {
	u := use(t)
	array := value(ndarray.New(i8, 4))(t)
	bytes := make([]byte, 4)
	host, other := transporttest.Pair()
	serve(t, &rpctest.Device{}, other)
	device, err := transport.Dial(testkit.Context(t), host, transport.SessionOptions{})
	must(t, err)
	t.Cleanup(func() { device.Close() })
	of := failuretest.Of
	failuretest.Ended(t, failuretest.Calls{
		"Transport.Send":            of(device.Send, bytes),
		"Transport.Recv":            of(device.Recv),
		"Session.Platform":          of(u.Platform),
		"Session.PriorFault":        of(u.PriorFault),
		"Session.Function":          of(u.Function, "echo"),
		"Session.SystemLib":         of(u.SystemLib),
		"Session.Empty":             of(u.Empty, i8, []int64{1}),
		"Session.Alloc":             of(u.Alloc, 8, 8),
		"Session.NewArray":          of(u.NewArray, array),
		"Session.Damages":           of(u.Damages),
		"Session.AcknowledgeDamage": u.AcknowledgeDamage,
		"Session.SetBudget":         of(u.SetBudget, time.Second),
		"Session.Do":                of(ping, u.Session),
		"Session.Renew":             u.Renew,
		"Session.TensorAt":          of(u.TensorAt, rpc.Handle(8), i8, nil),
		"Tensor.Discard":            u.tensor.Discard,
		"Session.Close":             func(ctx context.Context) error { return use(t).Close(ctx) },
		"Module.Function":           of(u.lib.Function, "fail"),
		"Module.Time":               of(u.lib.Time, "negate", rpc.TimeOptions{}),
		"Module.Free":               u.lib.Free,
		"Module.Check":              u.lib.Check,
		"Module.Unlink":             u.lib.Unlink,
		"Session.Windows":           of(u.Windows),
		"Tensor.Fill":               of(u.tensor.Fill, uint64(1)),
		"Session.TimedInterrupts":   of(u.TimedInterrupts),
		"Session.Upload":            of(u.Upload, rpc.Program{Base: 16, Bytes: bytes}),
		"Function.Call":             of(u.negate.Call, u.tensor, u.tensor),
		"Tensor.Write":              of(u.tensor.Write, bytes),
		"Tensor.Read":               of(u.tensor.Read, bytes),
		"Tensor.CRC32":              of(u.tensor.CRC32),
		"Tensor.Array":              of(u.tensor.Array),
		"Tensor.Free":               u.tensor.Free,
	})
	must(t, u.tensor.Write(testkit.Context(t), bytes))
	busy := func() used {
		u, began := use(t), make(chan struct{})
		go func() { close(began); _, _ = u.slow.Call(context.Background()) }()
		<-began
		time.Sleep(10 * time.Millisecond) // until its turn
		return u
	}
	failuretest.Waiting(t, failuretest.Calls{
		"Function.Call":                   func(ctx context.Context) error { return last(use(t).slow.Call(ctx)) },
		"waiting for its turn":            func(ctx context.Context) error { return ping(ctx, busy().Session) },
		"Session.Damages while busy":      func(ctx context.Context) error { return last(busy().Damages(ctx)) },
		"Session.Close of a busy session": func(ctx context.Context) error { return busy().Close(ctx) },
	})
}
