// This file checks or generates the data of a model's inputs.

package tensorlist

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// CheckInputs returns an error of class config unless there is one array for each input, by its name. The array without
// a name of a model's only input gets its name.
func CheckInputs(m *mlf.Model, arrays []ndarray.Named) error {
	if len(arrays) == 1 && arrays[0].Name == "" && len(m.Inputs) == 1 {
		arrays[0].Name = m.Inputs[0].Name // one .npy for the only input
	}

	given := map[int]bool{}
	for _, a := range arrays {
		i, err := Lookup("input", m.Inputs, a.Name)
		if err != nil {
			return err
		}
		if given[i] {
			return failure.Errorf(failure.Config, "two arrays for input %q", m.Inputs[i].Name)
		}
		given[i] = true
	}

	var missing []string
	for i, t := range m.Inputs {
		if !given[i] {
			missing = append(missing, t.String())
		}
	}

	if len(missing) > 0 {
		return failure.New(failure.Config, "give an array for each input", "no array for %s", strings.Join(missing, ", "))
	}
	return nil
}

// CheckInput returns an error of class config unless an array has the type and shape of an input (mlf.Tensor.Dims).
func CheckInput(want mlf.Tensor, a *ndarray.Array) error {
	if err := a.Check(); err != nil {
		return failure.Errorf(failure.Config, "input %q: %w", want.Name, err)
	}

	dims := want.Dims()
	if a.DType == want.DType && slices.Equal(a.Shape, dims) {
		return nil
	}

	shape := ndarray.ShapeString(dims)
	next := fmt.Sprintf("convert it first, in Python: x.astype(%q).reshape(%s)", want.DType, shape)
	// Data of another size cannot be converted.
	if bytes, err := ndarray.Bytes(want.DType, dims); err != nil || a.Len()*want.DType.Size() != bytes {
		next = "give one sample of this shape; " + nextstep.Target("validate") + " runs several"
	}

	return failure.New(failure.Config, next, "input %q must be %v %s, not %v %s", want.Name, want.DType, shape, a.DType,
		ndarray.ShapeString(a.Shape))
}

// RandomInputs returns data for each input: floats from -1 to 1, and any integers of up to 16 bits; wider ones, which
// may be indices, are zero. The same seed gives the same data everywhere.
func RandomInputs(m *mlf.Model, seed uint64) ([]ndarray.Named, error) {
	r := rand.New(rand.NewPCG(seed, 0))
	var arrays []ndarray.Named
	for _, t := range m.Inputs {
		a, err := ndarray.New(t.DType, t.Dims()...)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", t.Name, err)
		}
		if err := fillRandom(a, r); err != nil {
			return nil, fmt.Errorf("input %q: %w", t.Name, err)
		}
		arrays = append(arrays, ndarray.Named{Name: t.Name, Array: a})
	}
	return arrays, nil
}

func fillRandom(a *ndarray.Array, r *rand.Rand) error {
	d := a.DType
	switch {
	case d.Code == ndarray.Float && (d.Bits == 32 || d.Bits == 64),
		d.Code <= ndarray.UInt && (d.Bits == 8 || d.Bits == 1):
		FillRandom(d, a.Data, r)
	case d.Code <= ndarray.UInt && d.Bits > 16: // zero
	default:
		b, err := ndarray.Fill(d, a.Shape, r.Uint64())
		if err != nil {
			return err
		}
		copy(a.Data, b.Data)
	}
	return nil
}

// FillRandom fills an array's data: with floats from -1 to 1, or with random bits of other types.
func FillRandom(d ndarray.DType, data []byte, r *rand.Rand) {
	switch {
	case d.Code == ndarray.Float && d.Bits == 32:
		for i := 0; i+4 <= len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(r.Float32()*2-1))
		}
	case d.Code == ndarray.Float && d.Bits == 64:
		for i := 0; i+8 <= len(data); i += 8 {
			binary.LittleEndian.PutUint64(data[i:], math.Float64bits(r.Float64()*2-1))
		}
	default:
		for i := range data {
			data[i] = byte(r.Uint32())
			if d.Bits == 1 {
				data[i] &= 1
			}
		}
	}
}
