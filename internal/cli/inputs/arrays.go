// This file reads or generates the data of a model's inputs.

package inputs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// splitNames splits "PATH TENSOR=ARRAY…", which maps arrays of a file to tensors of other names.
func splitNames(value string) (path string, names map[string]string) {
	for names = map[string]string{}; ; {
		at := strings.LastIndexByte(value, ' ')
		tensor, array, ok := strings.Cut(value[at+1:], "=")
		if _, err := os.Stat(value); at <= 0 || !ok || err == nil || strings.ContainsAny(tensor+array, `/\`) {
			return value, names
		}
		names[array], value = tensor, value[:at]
	}
}

// ReadArrays reads INPUT, the file with the arrays of a model's inputs, some perhaps under other names. An unknown or a
// missing input is an error before anything is sent.
func ReadArrays(path string, names map[string]string, m *mlf.Model) ([]ndarray.Named, error) {
	arrays, err := ndarray.ReadNPZ(path)
	if err != nil {
		return nil, fmt.Errorf("INPUT: %w", err)
	}
	for i, a := range arrays {
		arrays[i].Name = cmp.Or(names[a.Name], a.Name)
	}
	if len(arrays) == 1 && arrays[0].Name == "" && len(m.Inputs) == 1 {
		arrays[0].Name = m.Inputs[0].Name // one .npy for the only input
	}
	given := map[int]bool{}
	for _, a := range arrays {
		i, err := tensorlist.Lookup("input", m.Inputs, a.Name)
		if err != nil {
			next := cmp.Or(spelling.Nearest(a.Name, []string{m.Inputs[0].Name}),
				fmt.Sprintf("INPUT='%s %s=%s' takes it for this input", path, m.Inputs[0].Name, a.Name))
			return nil, failure.New(failure.Config, next, "INPUT %s: %w", path, err)
		}
		if given[i] {
			return nil, failure.Errorf(failure.Config, "INPUT %s: two arrays for input %q", path, m.Inputs[i].Name)
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
		return nil, failure.New(failure.Config, "give an array for each input", "INPUT %s: no array for %s", path,
			strings.Join(missing, ", "))
	}
	return arrays, nil
}

// InventArrays generates random data by SEED for a model's inputs, and describes it: floats from -1 to 1 and any bytes;
// wider integers, which may be indices, are zero.
func InventArrays(env console.Environ, m *mlf.Model) ([]ndarray.Named, string, error) {
	seed, err := Seed(env)
	if err != nil {
		return nil, "", err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var arrays []ndarray.Named
	for _, t := range m.Inputs {
		a, err := ndarray.New(t.DType, t.Shape...)
		if err != nil {
			return nil, "", fmt.Errorf("input %q: %w", t.Name, err)
		}
		fill(a, r)
		arrays = append(arrays, ndarray.Named{Name: t.Name, Array: a})
	}
	return arrays, fmt.Sprintf("random input, seed %d (set INPUT for real data)", seed), nil
}

// Seed returns SEED.
func Seed(env console.Environ) (uint64, error) {
	seed, err := strconv.ParseUint(cmp.Or(env("SEED"), "0"), 10, 64)
	if err != nil {
		return 0, failure.Errorf(failure.Config, "SEED=%s is not a number", env("SEED"))
	}
	return seed, nil
}

func fill(a *ndarray.Array, r *rand.Rand) {
	switch {
	case a.DType.Code == ndarray.Float && a.DType.Bits == 32:
		for i := 0; i < len(a.Data); i += 4 {
			binary.LittleEndian.PutUint32(a.Data[i:], math.Float32bits(r.Float32()*2-1))
		}
	case a.DType.Code == ndarray.Float && a.DType.Bits == 64:
		for i := 0; i < len(a.Data); i += 8 {
			binary.LittleEndian.PutUint64(a.Data[i:], math.Float64bits(r.Float64()*2-1))
		}
	case a.DType.Code <= ndarray.UInt && a.DType.Bits == 8:
		for i := range a.Data {
			a.Data[i] = byte(r.Uint32())
		}
	case a.DType.Code == ndarray.UInt && a.DType.Bits == 1:
		for i := range a.Data {
			a.Data[i] = byte(r.Uint32() & 1)
		}
	}
}

// NamedArrays reads the arrays in the file that a variable names. It returns none for "".
func NamedArrays(variable, path string) ([]ndarray.Named, error) {
	if path == "" {
		return nil, nil
	}
	arrays, err := ndarray.ReadNPZ(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return arrays, nil
}
