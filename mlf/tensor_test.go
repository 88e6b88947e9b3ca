package mlf_test

import (
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestDims: an unknown shape is one axis, a known one stays, also that of a scalar.
func TestDims(t *testing.T) {
	float := ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}
	for _, c := range []struct {
		t    mlf.Tensor
		want []int64
	}{
		{mlf.Tensor{DType: float, Bytes: 12}, []int64{3}},
		{mlf.Tensor{DType: float, Shape: []int64{3, 1}, Bytes: 12}, []int64{3, 1}},
		{mlf.Tensor{DType: float, Shape: []int64{}, Bytes: 4}, []int64{}},
		{mlf.Tensor{Bytes: 4}, nil},
	} {
		if got := c.t.Dims(); !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v: %v, want %v", c.t, got, c.want)
		}
	}
}
