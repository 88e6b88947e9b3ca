// Package ndarray holds tensors in the host's memory and their files, .npy and .npz.
//
// It does no arithmetic. A tensor on a device is an rpc.Tensor.
package ndarray

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// MaxBytes limits the data of one array or one file of arrays, so that a hostile file cannot exhaust memory. Any
// microcontroller's model needs less.
const MaxBytes = 512 << 20

// An Array is a tensor in row-major order without gaps, little-endian. A scalar has a Shape of length 0. len(Data)
// == DType.Size() * product of Shape; Check verifies that.
type Array struct {
	DType DType
	Shape []int64
	Data  []byte
}

// A Named is an array with its name in a file or a model.
type Named struct {
	Name string
	*Array
}

// New returns an array of zeroes. It returns an error for a negative dimension or more than MaxBytes.
func New(d DType, shape ...int64) (*Array, error) {
	n, err := Bytes(d, shape)
	if err != nil {
		return nil, err
	}
	return &Array{DType: d, Shape: append([]int64{}, shape...), Data: make([]byte, n)}, nil
}

// Bytes returns the size of a compact array. It returns an error for a type without bits, a negative dimension or
// more than MaxBytes.
func Bytes(d DType, shape []int64) (int, error) {
	if d.Size() == 0 {
		return 0, fmt.Errorf("data type %v has no size", d)
	}
	if slices.ContainsFunc(shape, func(v int64) bool { return v < 0 }) {
		return 0, fmt.Errorf("shape %v has a negative dimension", shape)
	}
	if slices.Contains(shape, 0) {
		return 0, nil // whatever the other dimensions are
	}

	n := int64(d.Size())
	for _, v := range shape {
		// Divided, since the product may overflow.
		if n > MaxBytes/v {
			return 0, fmt.Errorf("an array %v of %v is larger than %d MiB", shape, d, MaxBytes>>20)
		}
		n *= v
	}
	return int(n), nil
}

// Check returns an error unless the data's length follows from type and shape.
func (a *Array) Check() error {
	n, err := Bytes(a.DType, a.Shape)
	if err != nil {
		return err
	}
	if len(a.Data) != n {
		return fmt.Errorf("an array %s of %v must have %d bytes, not %d", ShapeString(a.Shape), a.DType, n, len(a.Data))
	}
	return nil
}

// Len returns the number of elements.
func (a *Array) Len() int {
	if a.DType.Size() == 0 {
		return 0
	}
	return len(a.Data) / a.DType.Size()
}

// Equal reports whether both have the same type, shape and bytes.
func (a *Array) Equal(b *Array) bool {
	return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && string(a.Data) == string(b.Data)
}

// word returns the bits of element i, zero-extended, or the first 64 of a wider element.
func (a *Array) word(i int) uint64 {
	var buf [8]byte
	size := a.DType.Size()
	copy(buf[:], a.Data[i*size:(i+1)*size])
	return binary.LittleEndian.Uint64(buf[:])
}

// Int returns element i as an integer: a float is truncated (a NaN becomes 0), an unsigned 64-bit value wraps.
func (a *Array) Int(i int) int64 {
	switch a.DType.Code {
	case Float, BFloat:
		return truncated(a.Float(i))
	case Int:
		w := 64 - min(int(a.DType.Bits), 64)
		return int64(a.word(i)<<w) >> w
	}
	return int64(a.word(i))
}

func truncated(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// Float returns element i as a float64, or NaN for a type that is not a number.
func (a *Array) Float(i int) float64 {
	switch {
	case a.DType.Lanes != 1:
		return math.NaN()
	case a.DType.Code == Int:
		return float64(a.Int(i))
	case a.DType.Code == UInt:
		return float64(a.word(i))
	case a.DType.Code == BFloat && a.DType.Bits == 16:
		// bfloat16 is the upper half of a float32.
		return float64(math.Float32frombits(uint32(a.word(i)) << 16))
	case a.DType.Code == Float && a.DType.Bits == 16:
		return half(uint16(a.word(i)))
	case a.DType.Code == Float && a.DType.Bits == 32:
		return float64(math.Float32frombits(uint32(a.word(i))))
	case a.DType.Code == Float && a.DType.Bits == 64:
		return math.Float64frombits(a.word(i))
	}
	return math.NaN()
}

// half converts an IEEE 754 binary16.
func half(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10)&0x1f, float64(h&0x3ff)
	if h&0x8000 != 0 {
		sign = -1
	}

	switch {
	case exp == 0x1f && frac != 0:
		return math.NaN()
	case exp == 0x1f:
		return math.Inf(int(sign))
	case exp == 0:
		// A subnormal number has no leading one.
		return sign * math.Ldexp(frac, -24)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// Text formats element i with the fewest digits that parse back to the same number.
func (a *Array) Text(i int) string {
	switch {
	case a.DType == DType{UInt, 1, 1}:
		return strconv.FormatBool(a.word(i) != 0)
	case a.DType.Lanes != 1 || a.DType.Size() > 8 || a.DType.Code == Handle:
		size := a.DType.Size()
		return fmt.Sprintf("%x", a.Data[i*size:(i+1)*size])
	case a.DType.Code == Int:
		return strconv.FormatInt(a.Int(i), 10)
	case a.DType.Code == UInt:
		return strconv.FormatUint(a.word(i), 10)
	case a.DType.Bits == 64:
		return strconv.FormatFloat(a.Float(i), 'g', -1, 64)
	}
	return strconv.FormatFloat(a.Float(i), 'g', -1, 32)
}

// ShapeString formats a shape as Python does: "()", "(3,)", "(1, 64)".
func ShapeString(shape []int64) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}

	b := []byte{'('}
	for i, v := range shape {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return string(append(b, ')'))
}
