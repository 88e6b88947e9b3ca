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
	"github.com/boardsmith/boardsmith/ndarray"
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
	s := open(t, d, nil)
	f := valueOf[rpc.Function](t)(s.Function(ctx, "echo"))
	mk := valueOf[rpc.Function](t)(s.Function(ctx, "make"))
	tensor := valueOf[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{3}))
	valueOf[any](t)(mk.Call(ctx))
	valueOf[any](t)(f.Call(ctx, tensor))
	array := valueOf[any](t)(f.Call(ctx, tensor)).(*rpc.Tensor)
	must(t, array.Write(ctx, []byte{1, 2, 3}))
	must(t, array.Free(ctx))
	must(t, s.Close(ctx))
	want := []tvmrpc.TypeCode{tvmrpc.TypeNDArray, tvmrpc.TypeNDArray, tvmrpc.TypeModule, tvmrpc.TypeHandle}
	if !slices.Equal(d.Freed, want) || d.Live() != 0 {
		t.Errorf("freed %v, want %v; %d allocations left", d.Freed, want, d.Live())
	}
	if err := ping(ctx, s); !errors.Is(err, rpc.ErrBroken) {
		t.Errorf("after Close: %v", err)
	}
}

// A call that takes too long is a timeout, and ends the session with a clear error.
func TestTimeoutEndsSession(t *testing.T) {
	release := make(chan struct{})
	d := device()
	d.Globals["sleep"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		<-release
		return rpctest.Nothing(), nil
	}
	s := open(t, d, nil)
	defer close(release)
	f := valueOf[rpc.Function](t)(s.Function(testkit.Context(t), "sleep"))
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
	if _, err := s.Function(context.Background(), "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	s = rpc.New(silent{}, rpc.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 {
		if _, err := s.Function(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before it began: %v", err)
		}
	}
	if _, err := s.Function(within(t, time.Millisecond), "x"); errors.Is(err, rpc.ErrBroken) {
		t.Errorf("a request that was never sent ended the session: %v", err)
	}
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
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = d.Serve(context.Background(), far)
	}()
	e := &ending{Session: valueOf[*transport.Session](t)(transport.Dial(testkit.Context(t), host,
		transport.SessionOptions{}))}
	s := rpc.New(e, rpc.Options{})
	tensor := valueOf[*rpc.Tensor](t)(s.Empty(testkit.Context(t), i8, []int64{1000}))
	must(t, tensor.Write(testkit.Context(t), random(1000)))
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
		if err := tensor.Write(testkit.Context(t), random(1000)); err != nil {
			t.Fatalf("the write after one that ended after reply %d: %v", replies+1, err)
		}
	}
	if replies < 3 {
		t.Errorf("a write of %d requests", replies)
	}
	_ = s.Close(testkit.Context(t))
	<-served
}

// held is a device that never answers and signals each request.
type held struct {
	silent
	sent chan struct{}
}

func (h held) Send(context.Context, ...[]byte) error {
	close(h.sent)
	return nil
}

// Requests from many goroutines do not get mixed up.
func TestConcurrentCallsGetTheirAnswers(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, device(), nil)
	f := valueOf[rpc.Function](t)(s.Function(ctx, "echo"))
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

// A goroutine stops waiting for its turn when its context ends, and so does Close.
func TestWaitForTurnEndsWithContext(t *testing.T) {
	link := held{sent: make(chan struct{})}
	s := rpc.New(link, rpc.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := s.Function(ctx, "x")
		done <- err
	}()
	<-link.sent
	if err := ping(within(t, 10*time.Millisecond), s); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(within(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	cancel()
	<-done
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
		m, err := r.SystemLib(ctx)
		if err != nil {
			return err
		}
		f, err := m.Function(ctx, "negate")
		if err != nil {
			return err
		}
		a, err := r.NewArray(ctx, &ndarray.Array{DType: i8, Shape: []int64{3}, Data: []byte{1, 2, 3}})
		if err != nil {
			return err
		}
		if _, err := f.Call(ctx, a, a); err != nil {
			return err
		}
		if _, err := a.Array(ctx); err != nil {
			return err
		}
		return r.Close(ctx)
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
		if err := run(transporttest.CutAfter(n, link)); !errors.Is(err, transport.ErrClosed) {
			t.Fatalf("cut after %d of %d bytes: %v", n, count(), err)
		}
		link.Close()
	}
}

func BenchmarkCallInMemory(b *testing.B) {
	s := open(b, device(), nil)
	benchmarkCalls(b, s)
}

// benchmarkCalls reports the median of an empty call.
func benchmarkCalls(b *testing.B, s *rpc.Session) {
	ctx := context.Background()
	f := valueOf[rpc.Function](b)(s.Function(ctx, "runtime.SystemLib"))
	times := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		_, err := f.Call(ctx)
		must(b, err)
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "median-µs")
	b.ReportMetric(float64(times[len(times)*9/10].Nanoseconds())/1e3, "p90-µs")
}
