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
	s := open(t, device())
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
	wantEqual(t, value(f.Call(ctx, f))(t), f)
	m := library(t, s)
	wantEqual(t, value(f.Call(ctx, m))(t), m, "module")
	wantError(t, last(f.Call(ctx, struct{}{})), failure.Internal)
	wantError(t, last(f.Call(ctx, library(t, open(t, device())))), "")
	wantError(t, last((rpc.Function{}).Call(ctx)), "")
	must(t, last(f.Call(ctx, 1)))
}

func TestMissingFunctionIsErrNotFound(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, device())
	if _, err := s.Function(ctx, "absent"); !errors.Is(err, rpc.ErrNotFound) || failure.Of(err) != failure.Config {
		t.Errorf("global: %v", err)
	}
}

// A freed tensor is no argument and cannot be written, and a tensor takes as many bytes as it has.
func TestTensorsOfCalls(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	s := open(t, d)
	in := value(s.NewArray(ctx,
		&ndarray.Array{DType: i8, Shape: []int64{2, 3}, Data: []byte{1, 2, 3, 0xff, 0, 5}}))(t)
	out := value(s.Empty(ctx, i8, in.Shape()))(t)
	must(t, in.CopyTo(ctx, out))
	got := value(out.Array(ctx))(t)
	if !bytes.Equal(got.Data, []byte{1, 2, 3, 0xff, 0, 5}) || got.DType != i8 || !slices.Equal(got.Shape, []int64{2, 3}) {
		t.Errorf("copied on the device: %+v", got)
	}
	must(t, errors.Join(in.Free(ctx), in.Free(ctx)))
	wantError(t, last(operator(t, s, "negate").Call(ctx, in, out)), "")
	wantError(t, in.Write(ctx, got.Data), "")
	wantError(t, out.Write(ctx, got.Data[1:]), failure.Config)
	wantEqual(t, d.Live(), 1)
}

// A handle of 0 is not a function.
func TestNullHandleIsNil(t *testing.T) {
	device := &switching{fixedAnswer: typed(tvmrpc.TypeFunction, tvmrpc.Opaque(0)), first: returned(tvmrpc.Opaque(5))}
	s := rpc.New(device, rpc.Options{})
	f := global(t, s, "f")
	wantResult(t, nil)(f.Call(context.Background()))
}
