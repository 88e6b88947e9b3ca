package tolerance_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/ndarray"
)

// array returns an array of one element of 64 bits.
func array(code uint8, bits uint64) *ndarray.Array {
	return &ndarray.Array{
		DType: ndarray.DType{Code: code, Bits: 64, Lanes: 1}, Shape: []int64{1},
		Data: binary.LittleEndian.AppendUint64(nil, bits),
	}
}

func TestCompare(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		got, want, abs, rel float64
		ok                  bool
	}{
		{1, 1, 0, 0, true},
		{1.5, 1, 0.5, 0, true},
		{1.5, 1, 0.25, 0.25, true},
		{1.5, 1, 0.25, 0.125, false},
		{inf, inf, 0, 0, true},
		{1, inf, 1, 1, false},
		{-inf, inf, 1, 1, false},
		{inf, 1, 1, 1, false},
		{nan, nan, 0, 0, true},
		{nan, 1, 1, 1, false},
		{1, nan, 1, 1, false},
	} {
		got, want := array(ndarray.Float, math.Float64bits(c.got)), array(ndarray.Float, math.Float64bits(c.want))
		if _, ok := tolerance.Compare(got, want, 0, c.abs, c.rel); ok != c.ok {
			t.Errorf("%+v: %v", c, ok)
		}
	}
	const large = 1 << 53 // a float64 does not hold the next integer
	next, same := array(ndarray.Int, large+1), array(ndarray.Int, large)
	if by, ok := tolerance.Compare(next, same, 0, 0, 0); ok || by != 1 {
		t.Errorf("%v, %v", by, ok)
	}
	highest, lowest := array(ndarray.Int, math.MaxInt64), array(ndarray.Int, 1<<63)
	if by, ok := tolerance.Compare(highest, lowest, 0, 1, 0); ok || by != 1<<64 {
		t.Errorf("%v, %v", by, ok)
	}
}
