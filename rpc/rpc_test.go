package rpc_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// Each result of a call is freed according to its type, and Close frees the rest, newest first.
func TestCloseFreesNewestFirst(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	d.Globals["make"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		return rpctest.HandleResult(tvmrpc.TypeModule, 0x8001), nil
	}
	s := open(t, d)
	f, tensor := global(t, s, "echo"), empty(t, s, 3)
	value(global(t, s, "make").Call(ctx))(t)
	value(f.Call(ctx, tensor))(t)
	array := value(f.Call(ctx, tensor))(t).(*rpc.Tensor)
	must(t, array.Write(ctx, []byte{1, 2, 3}))
	must(t, array.Free(ctx))
	must(t, s.Close(ctx))
	want := []tvmrpc.TypeCode{tvmrpc.TypeNDArray, tvmrpc.TypeNDArray, tvmrpc.TypeModule, tvmrpc.TypeHandle}
	if !slices.Equal(d.Freed, want) || d.Live() != 0 {
		t.Errorf("freed %v, want %v; %d allocations left", d.Freed, want, d.Live())
	}
	wantIs(t, ping(ctx, s), rpc.ErrBroken, "after Close")
}

// A call that takes too long is a timeout, and ends the session with a clear error.
func TestTimeoutEndsSession(t *testing.T) {
	release := make(chan struct{})
	d := device()
	d.Globals["sleep"] = doing(func() { <-release })
	s := open(t, d)
	defer close(release)
	f := global(t, s, "sleep")
	_, err := f.Call(within(t, 30*time.Millisecond))
	if !errors.Is(err, context.DeadlineExceeded) || failure.Of(err) != failure.Timeout {
		t.Errorf("got %v", err)
	}
	_, err = f.Call(within(t, time.Second))
	if !errors.Is(err, rpc.ErrBroken) || failure.Of(err) != failure.Timeout || failure.Next(err) == "" {
		t.Errorf("afterwards: %v, class %s", err, failure.Of(err))
	}
}

// The session's timeout limits a request whose context has no deadline.
func TestTimeoutLimitsContextWithoutDeadline(t *testing.T) {
	s := rpc.New(silent{}, rpc.Options{Timeout: 20 * time.Millisecond})
	wantIs(t, last(s.Function(context.Background(), "x")), context.DeadlineExceeded)
}

// An ending transport ends a context once so many replies were received.
type ending struct {
	*transport.Session
	left int
	end  context.CancelFunc
}

func (e *ending) Recv(ctx context.Context) ([]byte, error) {
	msg, err := e.Session.Recv(ctx)
	if e.left--; e.left == 0 {
		e.end()
	}
	return msg, err
}

// A step of several requests whose context ends between two of them leaves the session usable.
func TestCancelBetweenRequestsKeepsSession(t *testing.T) {
	host, far := transporttest.Pair()
	d := device()
	d.Streams, d.Packet = false, 128
	serve(t, d, far)
	e := &ending{Session: value(transport.Dial(testkit.Context(t), host,
		transport.SessionOptions{}))(t)}
	s := rpc.New(e, rpc.Options{})
	tensor := filled(t, s, random(1000))
	replies := 0
	for ended := false; !ended; replies++ {
		var ctx context.Context
		ctx, e.end = context.WithCancel(testkit.Context(t))
		e.left = replies + 1
		err := tensor.Write(ctx, random(1000))
		if ended = err == nil; !ended && !errors.Is(err, context.Canceled) {
			t.Fatalf("ended after reply %d: %v", replies+1, err)
		}
		e.left = 0
		must(t, tensor.Write(testkit.Context(t), random(1000)))
	}
	if replies < 3 {
		t.Errorf("a write of %d requests", replies)
	}
	_ = s.Close(testkit.Context(t))
}

// Requests from many goroutines do not get mixed up.
func TestConcurrentCallsGetTheirAnswers(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, device())
	f := global(t, s, "echo")
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				want := int64(1000*g + i)
				if got, err := f.Call(ctx, want); err != nil || got != want {
					t.Errorf("got %v, %v; want %d", got, err, want)
					return
				}
			}
		})
	}
	all.Wait()
}

// A link that is cut after any number of bytes is an error with a class.
func TestCutLinkIsErrClosed(t *testing.T) {
	run := func(link transport.Link) error {
		ctx := testkit.Context(t)
		s, err := transport.Dial(ctx, link, transport.SessionOptions{Seed: 1})
		if err != nil {
			return err
		}
		r := rpc.New(s, rpc.Options{})
		return errors.Join(shortTrip(ctx, r, 7), r.Close(ctx))
	}
	start := func() transport.Link {
		host, dev := transporttest.Pair()
		d := device()
		d.Seed = 1 // so that every run has the same bytes to escape
		go func() { _ = d.Serve(context.Background(), dev) }()
		return host
	}
	link, count := transporttest.Count(start())
	must(t, run(link))
	for n := 0; n < count(); n++ {
		link := start()
		wantIs(t, run(transporttest.CutAfter(n, link)), transport.ErrClosed, n, count())
		link.Close()
	}
}
