package rpc_test

// This file is what the tests share: a device in memory, sessions with it, and small helpers.

import (
	"bytes"
	"context"
	"encoding/binary"
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
	must       = testkit.Must
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantIs     = testkit.WantIs
	last       = testkit.Last
	wantError  = testkit.WantError
	within     = testkit.Within
)

// serve runs d behind a link until its session has ended, after which the test may read d.
func serve(t testing.TB, d *rpctest.Device, link transport.Link) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Serve(context.Background(), link)
	}()
	t.Cleanup(func() { <-done })
}

// session opens a session over a link.
func session(t testing.TB, link transport.Link, o rpc.Options) *rpc.Session {
	t.Helper()
	s, err := transport.Dial(testkit.Context(t), link, transport.SessionOptions{FrameGap: 50 * time.Millisecond})
	if err != nil {
		_ = link.Close()
		t.Fatal(err)
	}
	r := rpc.New(s, o)
	t.Cleanup(func() { _ = r.Close(testkit.Context(t)) })
	return r
}

// open runs d behind a link in memory, which a wrapper makes a lossy one, and opens a session with it.
func open(t testing.TB, d *rpctest.Device, wrap ...func(transport.Link) transport.Link) *rpc.Session {
	t.Helper()
	if len(wrap) == 0 {
		return opened(t, d, rpc.Options{})
	}
	host, device := transporttest.LossyPair()
	serve(t, d, device)
	return session(t, wrap[0](host), rpc.Options{})
}

// opened is open with options.
func opened(t testing.TB, d *rpctest.Device, o rpc.Options) *rpc.Session {
	t.Helper()
	host, device := transporttest.Pair()
	serve(t, d, device)
	return session(t, host, o)
}

// library returns the module of the operators.
func library(t testing.TB, s *rpc.Session) rpc.Module {
	t.Helper()
	return value(s.SystemLib(testkit.Context(t)))(t)
}

// operator returns a function of that module.
func operator(t testing.TB, s *rpc.Session, name string) rpc.Function {
	t.Helper()
	return value(library(t, s).Function(testkit.Context(t), name))(t)
}

// global returns a function of the device.
func global(t testing.TB, s *rpc.Session, name string) rpc.Function {
	t.Helper()
	return value(s.Function(testkit.Context(t), name))(t)
}

// empty returns a tensor of so many bytes.
func empty(t testing.TB, s *rpc.Session, n int) *rpc.Tensor {
	t.Helper()
	return value(s.Empty(testkit.Context(t), i8, []int64{int64(n)}))(t)
}

// filled returns a tensor with a content.
func filled(t testing.TB, s *rpc.Session, data []byte) *rpc.Tensor {
	t.Helper()
	tensor := empty(t, s, len(data))
	must(t, tensor.Write(testkit.Context(t), data))
	return tensor
}

// content returns the bytes of a tensor.
func content(t testing.TB, tensor *rpc.Tensor) []byte {
	t.Helper()
	return value(tensor.Array(testkit.Context(t)))(t).Data
}

var errWrongData = errors.New("a tensor came back changed")

// roundTrip sends a long tensor to the device and back.
func roundTrip(ctx context.Context, s *rpc.Session) error {
	const n = 40000
	t, err := s.NewArray(ctx, &ndarray.Array{DType: i8, Shape: []int64{n}, Data: random(n)})
	if err != nil {
		return err
	}
	got, err := t.Array(ctx)
	if err == nil && !bytes.Equal(got.Data, random(n)) {
		err = errWrongData
	}
	return errors.Join(err, t.Free(ctx))
}

// shortTrip sends eight bytes to the device, which negates them.
func shortTrip(ctx context.Context, s *rpc.Session, value uint64) error {
	m, err := s.SystemLib(ctx)
	if err != nil {
		return err
	}
	negate, err := m.Function(ctx, "negate")
	if err != nil {
		return err
	}
	in, err := s.NewArray(ctx, &ndarray.Array{
		DType: i8, Shape: []int64{8},
		Data: binary.LittleEndian.AppendUint64(nil, value),
	})
	if err != nil {
		return err
	}
	out, err := s.Empty(ctx, i8, []int64{8})
	if err != nil {
		return err
	}
	if _, err := negate.Call(ctx, in, out); err != nil {
		return err
	}
	got, err := out.Array(ctx)
	if err != nil {
		return err
	}
	for i, b := range got.Data {
		if b != -byte(value>>(8*i)) {
			return errWrongData
		}
	}
	return errors.Join(in.Free(ctx), out.Free(ctx))
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

// doing returns a function of a device without arguments and result.
func doing(do func()) rpctest.Func {
	return func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		do()
		return rpctest.Nothing(), nil
	}
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

// value returns a function that returns a call's result.
func value[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
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
