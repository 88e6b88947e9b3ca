// This file reads or generates the data of a model's inputs.

package inputs

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// SplitNames splits "PATH TENSOR=ARRAY…", which maps arrays of a file to tensors of other names. An array is for one
// tensor.
func SplitNames(value string) (path string, names map[string]string, err error) {
	for names = map[string]string{}; ; {
		// From the end: a path may contain spaces and equal signs.
		at := strings.LastIndexByte(value, ' ')
		tensor, array, ok := strings.Cut(value[at+1:], "=")
		if _, missing := os.Stat(value); at <= 0 || !ok || missing == nil || strings.ContainsAny(tensor+array, `/\`) {
			return value, names, err
		}

		if other := names[array]; other != "" {
			err = failure.New(failure.Config, "store it in the file under both names",
				"INPUT takes array %q for %s and for %s", array, tensor, other)
		}
		names[array], value = tensor, value[:at]
	}
}

// ReadArrays reads the file that a variable names, with the arrays of a model's inputs, some perhaps under other names.
// An unknown or a missing input is an error before anything is sent.
func ReadArrays(variable, path string, names map[string]string, m *mlf.Model) ([]ndarray.Named, error) {
	arrays, err := NamedArrays(variable, path, names)
	if err != nil {
		return nil, err
	}

	for i, a := range arrays {
		at, err := tensorlist.Lookup("input", m.Inputs, a.Name)
		// An array without a name is that of the only input.
		if a.Name == "" && len(m.Inputs) == 1 {
			at, err = 0, nil
		}
		if err != nil && a.Name != "" {
			next := fmt.Sprintf("INPUT='%s %s=%s' takes it for this input", path, m.Inputs[0].Name, a.Name)
			if variable != "INPUT" {
				next = "" // it takes no names
			}

			next = cmp.Or(spelling.Nearest(a.Name, []string{m.Inputs[0].Name}), next)
			return nil, failure.New(failure.Config, next, "%s %s: %w", variable, path, err)
		}

		if err == nil {
			if arrays[i].Array, err = tensorlist.Quantize(m.Inputs[at], a.Array); err != nil {
				return nil, fmt.Errorf("%s %s: array %q: %w", variable, path, a.Name, err)
			}
			if err := tensorlist.CheckInput(m.Inputs[at], arrays[i].Array); err != nil {
				return nil, fmt.Errorf("%s %s: %w", variable, path, err)
			}
		}
	}

	if err := tensorlist.CheckInputs(m, arrays); err != nil {
		return nil, fmt.Errorf("%s %s: %w", variable, path, err)
	}

	return arrays, nil
}

// InventArrays generates random data by SEED for a model's inputs, and describes it.
func InventArrays(seed uint64, m *mlf.Model) ([]ndarray.Named, string, error) {
	arrays, err := tensorlist.RandomInputs(m, seed)
	return arrays, fmt.Sprintf("random input, seed %d (set INPUT for real data)", seed), err
}

// NamedArrays reads the arrays in the file that a variable names, some perhaps under other names. It returns none for
// "".
func NamedArrays(variable, path string, names map[string]string) ([]ndarray.Named, error) {
	if path == "" {
		return nil, nil
	}
	arrays, err := ndarray.ReadNPZ(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}

	var all []string
	for i, a := range arrays {
		all = append(all, a.Name)
		arrays[i].Name = cmp.Or(names[a.Name], a.Name)
	}

	if err := tensorlist.CheckNames(names, all); err != nil {
		return nil, fmt.Errorf("%s %s: %w", variable, path, err)
	}
	return arrays, nil
}
