package rpc

import (
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TensorAt returns a tensor of memory that is the device's own, at a handle that one of its functions returned: a
// parameter in flash, say. It is not to be freed.
func (s *Session) TensorAt(h Handle, dtype ndarray.DType, shape []int64) (*Tensor, error) {
	t, err := s.newTensor(DLTensor{Device: CPU, DType: dtype, Shape: append([]int64{}, shape...)})
	if err != nil {
		return nil, failure.New(failure.Config, "", "tensor %v%s: %w", dtype, ndarray.ShapeString(shape), err)
	}
	t.ref.Data, t.memory.handle = uint64(h), uint64(h)
	return t, nil
}
