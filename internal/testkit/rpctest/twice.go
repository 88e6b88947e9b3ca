// This file calls an operator on a device, as tests of several packages do.

package rpctest

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

func int32s(v ...int32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// CallTwice calls the operator of mlftest.Tiny and checks its answer.
func CallTwice(t testing.TB, s *rpc.Session) {
	t.Helper()
	ctx := t.Context()
	dtype, err := ndarray.ParseDType("int32")
	if err != nil {
		t.Fatal(err)
	}
	lib, err := s.SystemLib(ctx)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := lib.Function(ctx, "twice")
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Empty(ctx, dtype, []int64{4})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Empty(ctx, dtype, []int64{4})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Write(ctx, int32s(1, -2, 3, 1<<20)); err != nil {
		t.Fatal(err)
	}
	_, err = twice.Call(ctx, in, out)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	if err := out.Read(ctx, got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, int32s(2, -4, 6, 1<<21)) {
		t.Errorf("twice answered % x", got)
	}
}
