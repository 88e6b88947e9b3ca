// This file converts real numbers to the integers of a quantized tensor.

package tensorlist

import (
	"encoding/binary"
	"math"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// Quantize returns an array of real numbers as the integers of the tensor t that stand for them: rounded, halves to
// even, and limited to the tensor's type. An array of any other type, and one for a tensor without a scale, is
// returned as it is. An error has class config: an element is not a number.
func Quantize(t mlf.Tensor, a *ndarray.Array) (*ndarray.Array, error) {
	low, high := t.DType.Range()
	isReal := a.DType.Code == ndarray.Float && a.DType.Lanes == 1
	if !isReal || low == high || t.Scale <= 0 || a.Check() != nil {
		return a, nil
	}

	q := &ndarray.Array{DType: t.DType, Shape: a.Shape}
	size := t.DType.Size()
	for i := range a.Len() {
		real := a.Float(i)
		if math.IsNaN(real) {
			return nil, failure.Errorf(failure.Config, "element %d is not a number: it has no %v", i, t.DType)
		}
		near := math.RoundToEven(real/t.Scale) + float64(t.ZeroPoint)
		// Limited before the conversion, which is undefined for numbers out of range.
		word := uint64(int64(max(float64(low), min(float64(high), near))))
		q.Data = append(q.Data, binary.LittleEndian.AppendUint64(nil, word)[:size]...)
	}
	return q, nil
}
