package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

func TestValuesSurviveCall(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, device(), nil)
	f := global(t, s, "echo")
	for _, c := range []struct{ give, want any }{
		{nil, nil},
		{1, int64(1)},
		{int8(-1), int64(-1)},
		{int64(math.MinInt64), int64(math.MinInt64)},
		{uint8(255), int64(255)},
		{uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{true, int64(1)},
		{1.5, 1.5},
		{float32(0.25), 0.25},
		{"text\x00\xff", "text\x00\xff"},
		{[]byte{0xff, 0xfd, 0}, []byte{0xff, 0xfd, 0}},
		{f32, f32},
		{tvmrpc.DLDevice{Type: 1, ID: -2}, tvmrpc.DLDevice{Type: 1, ID: -2}},
		{rpc.Handle(0xffffffff80028000), rpc.Handle(0xffffffff80028000)},
	} {
		got, err := f.Call(ctx, "ignored", c.give)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%T %v: got %T %v, %v", c.give, c.give, got, got, err)
		}
	}
	if got := valueOf[any](t)(f.Call(ctx, f)); got != f {
		t.Errorf("function: %v", got)
	}
	m := library(t, s)
	if got := valueOf[any](t)(f.Call(ctx, m)); got != m {
		t.Errorf("module: %v", got)
	}
	_, err := f.Call(ctx, struct{}{})
	wantError(t, err, failure.Internal)
	if _, err := f.Call(ctx, library(t, open(t, device(), nil))); err == nil {
		t.Error("a module of another session was accepted")
	}
	if _, err := (rpc.Function{}).Call(ctx); err == nil {
		t.Error("a function of no session was called")
	}
	if _, err := f.Call(ctx, 1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestMissingFunctionIsErrNotFound(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, device(), nil)
	if _, err := s.Function(ctx, "absent"); !errors.Is(err, rpc.ErrNotFound) || failure.Of(err) != failure.Config {
		t.Errorf("global: %v", err)
	}
}

// A freed tensor is no argument and cannot be written, and a tensor takes as many bytes as it has.
func TestTensorsOfCalls(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	s := open(t, d, nil)
	in := valueOf[*rpc.Tensor](t)(s.NewArray(ctx,
		&ndarray.Array{DType: i8, Shape: []int64{2, 3}, Data: []byte{1, 2, 3, 0xff, 0, 5}}))
	out := valueOf[*rpc.Tensor](t)(s.Empty(ctx, i8, in.Shape()))
	must(t, in.CopyTo(ctx, out))
	got := valueOf[*ndarray.Array](t)(out.Array(ctx))
	if !bytes.Equal(got.Data, []byte{1, 2, 3, 0xff, 0, 5}) || got.DType != i8 || !slices.Equal(got.Shape, []int64{2, 3}) {
		t.Errorf("copied on the device: %+v", got)
	}
	must(t, errors.Join(in.Free(ctx), in.Free(ctx)))
	if _, err := operator(t, s, "negate").Call(ctx, in, out); err == nil {
		t.Error("a freed tensor was accepted as an argument")
	}
	if err := in.Write(ctx, got.Data); err == nil {
		t.Error("a freed tensor was written")
	}
	wantError(t, out.Write(ctx, got.Data[1:]), failure.Config)
	if d.Live() != 1 {
		t.Errorf("%d allocations left", d.Live())
	}
}

// A handle of 0 is not a function.
func TestNullHandleIsNil(t *testing.T) {
	device := &switching{fixedAnswer: typed(tvmrpc.TypeFunction, tvmrpc.Opaque(0)), first: returned(tvmrpc.Opaque(5))}
	s := rpc.New(device, rpc.Options{})
	f := global(t, s, "f")
	if got, err := f.Call(context.Background()); got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
