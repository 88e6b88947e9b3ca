package rpc_test

// This file is what the tests share: a device in memory, sessions with it, and small helpers.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

var (
	i8  = ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	f32 = ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	wantError = testkit.WantError
)

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// open runs d behind a link in memory and opens a session with it.
func open(t testing.TB, d *rpctest.Device, wrap func(transport.Link) transport.Link) *rpc.Session {
	t.Helper()
	host, device := transporttest.Pair()
	if wrap != nil {
		host, device = transporttest.LossyPair()
		host = wrap(host)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Serve(context.Background(), device)
	}()
	s, err := transport.Dial(testkit.Context(t), host, transport.SessionOptions{FrameGap: 50 * time.Millisecond})
	must(t, err)
	session := rpc.New(s, rpc.Options{})
	t.Cleanup(func() {
		_ = session.Close(testkit.Context(t))
		<-done // so that the test may read d
	})
	return session
}

// echo returns its last argument.
func echo(_ *rpctest.Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	switch v := args[len(args)-1]; v.Type {
	case tvmrpc.TypeModule, tvmrpc.TypeFunction:
		return rpctest.HandleResult(v.Type, v.Word), nil
	case tvmrpc.TypeTensor:
		return rpctest.ArrayResult(v.Tensor, 0x1234), nil
	default:
		return rpctest.Result(v), nil
	}
}

func negate(d *rpctest.Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	in, err := d.Content(args[0].Tensor)
	if err != nil {
		return nil, err
	}
	out, err := d.Content(args[1].Tensor)
	if err != nil {
		return nil, err
	}
	for i := range in {
		out[i] = -in[i]
	}
	return rpctest.Nothing(), nil
}

// ping sends a request without a result.
func ping(ctx context.Context, s *rpc.Session) error {
	a, err := s.Do(ctx, &tvmrpc.Packet{
		Code: tvmrpc.CodeStreamSync,
		Args: []tvmrpc.Value{tvmrpc.OnDevice(tvmrpc.CPU), tvmrpc.Opaque(0)},
	})
	if err == nil && a.Code != tvmrpc.CodeReturn {
		err = fmt.Errorf("StreamSync: %v", a.Code)
	}
	return err
}

func fail(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) { return nil, errors.New("boom") }

func device() *rpctest.Device {
	return &rpctest.Device{
		Globals: map[string]rpctest.Func{"echo": echo, "fail": fail},
		Module:  map[string]rpctest.Func{"negate": negate, "fail": fail},
		Streams: true,
	}
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func valueOf[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// silent is a link to a device that never answers.
type silent struct{}

func (silent) Send(context.Context, ...[]byte) error { return nil }
func (silent) Close() error                          { return nil }
func (silent) Lossy() bool                           { return false }
func (silent) Recv(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
