// This file reads the content of arguments.

package space

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

// Contents returns what each argument holds before a call, and what is expected of it after the call; nil for nothing.
// Errors are of class config: a file of the arguments cannot be read, or has another type or shape.
func (s *Space) Contents() (data, want [][]byte, err error) {
	for i, a := range s.Args {
		before, after := a.Value, []byte(nil)
		switch {
		case a.Data != nil:
			before, err = a.content(a.Data)
		case a.Seed != nil:
			before, err = a.random(*a.Seed)
		}
		if err == nil && a.Want != nil {
			after, err = a.content(a.Want)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("argument %d: %w", i, err)
		}
		data, want = append(data, before), append(want, after)
	}
	return data, want, nil
}

// content reads an array, which must have the argument's type and shape.
func (a *Arg) content(f *File) ([]byte, error) {
	arrays, err := ndarray.ReadNPZ(f.Path)
	if err != nil {
		return nil, err
	}
	for _, named := range arrays {
		if named.Name != f.Array {
			continue
		}
		if named.Array.DType != a.DType || ndarray.ShapeString(named.Array.Shape) != ndarray.ShapeString(a.Shape) {
			return nil, failure.Errorf(failure.Config, "%s %s is %v %s, not %v %s", f.Path, f.Array, named.Array.DType,
				ndarray.ShapeString(named.Array.Shape), a.DType, ndarray.ShapeString(a.Shape))
		}
		return named.Array.Data, nil
	}
	return nil, failure.Errorf(failure.Config, "%s has no array %q", f.Path, f.Array)
}

// random returns content that depends only on the seed: floats from -1 to 1, or random bits for other types.
func (a *Arg) random(seed uint64) ([]byte, error) {
	bytes, err := ndarray.Bytes(a.DType, a.Shape)
	if err != nil {
		return nil, err
	}
	data, r := make([]byte, bytes), rand.New(rand.NewPCG(seed, 0))
	switch {
	case a.DType.Code == ndarray.Float && a.DType.Bits == 32:
		for i := 0; i+4 <= len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(2*r.Float32()-1))
		}
	case a.DType.Code == ndarray.Float && a.DType.Bits == 64:
		for i := 0; i+8 <= len(data); i += 8 {
			binary.LittleEndian.PutUint64(data[i:], math.Float64bits(2*r.Float64()-1))
		}
	case a.DType.Bits == 1:
		for i := range data {
			data[i] = byte(r.Uint32() & 1)
		}
	default:
		for i := range data {
			data[i] = byte(r.Uint32())
		}
	}
	return data, nil
}
