// This file calls an operator on a device, as tests of several packages do.

package rpctest

import (
	"encoding/binary"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
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

// Twice returns the operator of mlftest.Tiny, and a tensor for it.
func Twice(t testing.TB, s *rpc.Session) (rpc.Function, *rpc.Tensor) {
	t.Helper()
	lib, err := s.SystemLib(t.Context())
	testkit.Must(t, err)
	twice, err := lib.Function(t.Context(), "twice")
	testkit.Must(t, err)
	dtype, err := ndarray.ParseDType("int32")
	testkit.Must(t, err)
	x, err := s.Empty(t.Context(), dtype, []int64{4})
	testkit.Must(t, err)
	return twice, x
}

// CallTwice calls the operator of mlftest.Tiny and checks its answer.
func CallTwice(t testing.TB, s *rpc.Session) {
	t.Helper()
	ctx := t.Context()
	twice, x := Twice(t, s)
	testkit.Must(t, x.Write(ctx, int32s(1, -2, 3, 1<<20)))
	testkit.Must(t, testkit.Last(twice.Call(ctx, x, x)))
	got := make([]byte, 16)
	testkit.Must(t, x.Read(ctx, got))
	testkit.WantEqual(t, got, int32s(2, -4, 6, 1<<21))
}
