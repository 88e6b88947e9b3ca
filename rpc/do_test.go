package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// A gateway passes the requests of TCP clients on to one device.
type gateway struct {
	device   *rpc.Session
	listener *transporttest.Listener
	gone     chan error // receives the result of freeing for each client that disconnects
}

func startGateway(t *testing.T, device *rpc.Session) *gateway {
	t.Helper()
	l := transporttest.Listen(t, "127.0.0.1:0")
	g := &gateway{device, l, make(chan error, 8)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			link, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go func() { g.gone <- g.serve(newStream(link, 1<<20)) }()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return g
}

// serve answers one client's requests, then begins a new session for the next one.
func (g *gateway) serve(client *stream) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		msg, err := client.Recv(ctx)
		if err != nil {
			break
		}
		reply := tvmrpc.Exception("not a request")
		var request tvmrpc.Packet
		if err = request.Parse(msg); err == nil {
			if answer, err := g.device.Do(ctx, &request); err == nil {
				reply = answer
			}
		}
		if client.Send(ctx, reply.Append(nil)) != nil {
			break
		}
	}
	return errors.Join(client.Close(), g.device.Renew(ctx))
}

func (g *gateway) client(t *testing.T) *rpc.Session {
	t.Helper()
	link, err := transport.DialTCP(testkit.Context(t), transport.TCPConfig{Address: g.listener.Address()})
	must(t, err)
	t.Cleanup(func() { _ = link.Close() })
	return rpc.New(newStream(link, 1<<20), rpc.Options{})
}

// leave disconnects a client without a message, as if it were killed.
func (g *gateway) leave(t *testing.T, client *rpc.Session) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = client.Close(ended) // frees nothing
	if err := <-g.gone; err != nil {
		t.Error(err)
	}
}

// TestGatewayFreesAllOfLostClient uses one device from two clients over TCP, one after the other. What the first one
// has there when it vanishes is freed, and was lost for this side, too.
func TestGatewayFreesAllOfLostClient(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	session := opened(t, d, rpc.Options{})
	g := startGateway(t, session)
	own := one(t, session)
	for sign := range byte(2) {
		client := g.client(t)
		lib := valueOf[rpc.Module](t)(client.SystemLib(ctx))
		negate := valueOf[rpc.Function](t)(lib.Function(ctx, "negate"))
		pair := &ndarray.Array{DType: i8, Shape: []int64{2}, Data: []byte{sign, 2}}
		in := valueOf[*rpc.Tensor](t)(client.NewArray(ctx, pair))
		out := valueOf[*rpc.Tensor](t)(client.Empty(ctx, i8, []int64{2}))
		_, err := negate.Call(ctx, in, out)
		must(t, err)
		if got := valueOf[*ndarray.Array](t)(out.Array(ctx)); !bytes.Equal(got.Data, []byte{-sign, 0xfe}) {
			t.Errorf("client %d: the tensor holds % x", sign, got.Data)
		}
		if _, err := valueOf[rpc.Function](t)(client.Function(ctx, "fail")).Call(ctx); err == nil ||
			err.Error() != "calling fail: device: boom" {
			t.Errorf("client %d: %v", sign, err)
		}
		g.leave(t, client)
		if d.Live() != 0 {
			t.Errorf("client %d left %d allocations", sign, d.Live())
		}
	}
	if err := own.Read(ctx, make([]byte, 1)); !errors.Is(err, rpc.ErrStale) {
		t.Errorf("a tensor of the session before: %v", err)
	}
	if err := errors.Join(own.Free(ctx), session.Close(ctx)); err != nil || len(d.Freed) > 0 {
		t.Errorf("%v, freed %v", err, d.Freed)
	}
}

func one(t *testing.T, s *rpc.Session) *rpc.Tensor {
	return valueOf[*rpc.Tensor](t)(s.Empty(testkit.Context(t), i8, []int64{1}))
}

// TestDoSplitsCopies copies any length to devices that accept only short messages.
func TestDoSplitsCopies(t *testing.T) {
	for name, d := range map[string]*rpctest.Device{"streams": {Streams: true}, "packets of 128": {Packet: 128}} {
		t.Run(name, func(t *testing.T) {
			ctx := testkit.Context(t)
			g := startGateway(t, opened(t, d, rpc.Options{}))
			link, err := transport.DialTCP(ctx, transport.TCPConfig{Address: g.listener.Address()})
			must(t, err)
			client := newStream(link, 1<<20)
			defer client.Close()
			ask := func(p *tvmrpc.Packet) (reply tvmrpc.Packet) {
				must(t, client.Send(ctx, p.AppendHead(nil), p.Data))
				must(t, reply.Parse(valueOf[[]byte](t)(client.Recv(ctx))))
				return reply
			}
			ref := tvmrpc.DLTensor{Device: tvmrpc.CPU, DType: i8, Shape: []int64{5000}}
			created := ask(&tvmrpc.Packet{
				Code: tvmrpc.CodeAllocDataWithScope,
				Args: []tvmrpc.Value{tvmrpc.TensorOf(&ref), tvmrpc.Null()},
			})
			ref.Data, ref.ByteOffset = created.Args[0].Word, 4
			if got := ask(&tvmrpc.Packet{
				Code: tvmrpc.CodeCopyToRemote, Tensor: ref, Size: 4990,
				Data: random(4990),
			}); got.Code != tvmrpc.CodeReturn {
				t.Errorf("%+v", got)
			}
			if got := ask(&tvmrpc.Packet{Code: tvmrpc.CodeCopyFromRemote, Tensor: ref, Size: 4990}); !bytes.Equal(got.Data,
				random(4990)) {
				t.Errorf("%v: %d bytes", got.Code, len(got.Data))
			}
			if got := ask(&tvmrpc.Packet{
				Code: tvmrpc.CodeCopyFromRemote, Tensor: ref,
				Size: 1 << 40,
			}); got.Code != tvmrpc.CodeException {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestDoRejectsUnsafeRequests: requests that would stop the device or hang a reference firmware are not sent.
func TestDoRejectsUnsafeRequests(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	s := opened(t, d, rpc.Options{})
	for _, code := range []tvmrpc.Code{
		tvmrpc.CodeNone, tvmrpc.CodeShutdown, tvmrpc.CodeReturn,
		tvmrpc.CodeException, tvmrpc.CodeCopyAck,
	} {
		if _, err := s.Do(ctx, &tvmrpc.Packet{Code: code}); failure.Of(err) != failure.Config {
			t.Errorf("%v: %v", code, err)
		}
	}
	for _, p := range []*tvmrpc.Packet{
		{Code: tvmrpc.CodeGetGlobalFunc},
		{Code: 99},
		{Code: tvmrpc.CodeFreeHandle, Args: []tvmrpc.Value{tvmrpc.Opaque(1), tvmrpc.Int(8)}},
	} {
		a, err := s.Do(ctx, p)
		if err != nil || a.Code != tvmrpc.CodeException {
			t.Errorf("%v: %+v, %v", p.Code, a, err)
		}
	}
	if err := s.Close(ctx); err != nil || len(d.Requests) > 0 {
		t.Errorf("%v; the device got %v", err, d.Requests)
	}
}

// TestDoAfterReset: a fault names the function that the client called.
func TestDoAfterReset(t *testing.T) {
	ctx := testkit.Context(t)
	d := faulty(busFault())
	d.Globals["crash"] = d.Module["bad"]
	s := opened(t, d, rpc.Options{})
	var lookup *tvmrpc.Packet
	for range 2 { // the first handle is that of boardsmith.fault after the reset
		lookup = valueOf[*tvmrpc.Packet](t)(s.Do(ctx, &tvmrpc.Packet{
			Code: tvmrpc.CodeGetGlobalFunc, Args: []tvmrpc.Value{tvmrpc.Text("crash")},
		}))
	}
	var faultErr *fault.Error
	if _, err := s.Do(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: lookup.Args[0].Word}); !errors.As(err,
		&faultErr) || faultErr.Function != "crash" {
		t.Errorf("got %v", err)
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}
