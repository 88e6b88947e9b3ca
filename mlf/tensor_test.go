package mlf_test

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
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
		testkit.Equal(t, c.t, c.t.Dims(), c.want)
	}
}
