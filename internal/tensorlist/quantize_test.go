package tensorlist_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

func floats(values ...float32) *ndarray.Array {
	d := ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}
	a := &ndarray.Array{DType: d, Shape: []int64{int64(len(values))}}
	for _, v := range values {
		a.Data = binary.LittleEndian.AppendUint32(a.Data, math.Float32bits(v))
	}
	return a
}

// TestQuantize converts real numbers to integers: halves go to even, what is too large to the limits of the type.
// Integers, and arrays for a tensor without a scale, stay as they are.
func TestQuantize(t *testing.T) {
	infinite := float32(math.Inf(1))
	in := floats(0, 0.25, 0.75, -1, 1e6, -infinite)
	for code, want := range map[uint8][]int64{
		ndarray.Int: {-3, -3, -1, -5, 127, -128}, ndarray.UInt: {0, 0, 0, 0, 255, 0},
	} {
		tensor := mlf.Tensor{DType: ndarray.DType{Code: code, Bits: 8, Lanes: 1}, Scale: 0.5, ZeroPoint: -3}
		q, err := tensorlist.Quantize(tensor, in)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for i := range q.Len() {
			got = append(got, q.Int(i))
		}
		if q.DType != tensor.DType || q.Check() != nil || !slices.Equal(got, want) {
			t.Errorf("%v %v, want %v", q.DType, got, want)
		}
		if same, err := tensorlist.Quantize(tensor, q); same != q || err != nil {
			t.Errorf("integers: %v, %v", same, err)
		}
		if _, err := tensorlist.Quantize(tensor, floats(float32(math.NaN()))); failure.Of(err) != failure.Config {
			t.Errorf("not a number: %v", err)
		}
		tensor.Scale = 0
		if same, err := tensorlist.Quantize(tensor, in); same != in || err != nil {
			t.Errorf("without a scale: %v, %v", same, err)
		}
	}
}
