// Package tensorlist finds tensors of a model by their names, and assigns arrays to them.
package tensorlist

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// Lookup finds a tensor by its name, or by its name in C if that is unique. kind, "input" or "output", is for the
// error, which lists the tensors and names the most similar one.
func Lookup(kind string, tensors []mlf.Tensor, name string) (int, error) {
	match, inC := -1, spelling.Sanitize(name)
	for i, t := range tensors {
		if t.Name == name {
			return i, nil
		}
		if c := spelling.Sanitize(t.Name); c == inC && (inC == name || c == t.Name) {
			// Two tensors may have one name in C: then it means none.
			if match >= 0 {
				match = len(tensors)
			} else {
				match = i
			}
		}
	}

	if match >= 0 && match < len(tensors) {
		return match, nil
	}

	names, list := make([]string, len(tensors)), make([]string, len(tensors))
	for i, t := range tensors {
		names[i], list[i] = t.Name, t.String()
	}

	next := cmp.Or(spelling.Nearest(name, names), "use the name of an "+kind)
	return -1, failure.New(failure.Config, next, "the model has no %s %q; its %ss are: %s", kind, name, kind,
		strings.Join(list, "; "))
}

// Assign returns the array of each tensor; nil for one without. If a name of an array is that of a tensor or of one of
// others, which have no arrays here, all are names of tensors. Else there is one array for each tensor, in their order;
// or arrays is nil. Types and shapes must be equal. kind, "input" or "output", is for the error, of class
// config.
func Assign(kind string, tensors, others []mlf.Tensor, arrays []ndarray.Named) ([]*ndarray.Array, error) {
	has := func(tensors []mlf.Tensor, name string) bool {
		_, err := Lookup(kind, tensors, name)
		return err == nil
	}

	byName := slices.ContainsFunc(arrays, func(a ndarray.Named) bool {
		return has(tensors, a.Name) || has(others, a.Name)
	})

	if !byName && arrays != nil && len(arrays) != len(tensors) {
		var list []string
		for _, t := range tensors {
			list = append(list, t.String())
		}
		return nil, failure.New(failure.Config, "name each array as its tensor, or give one for each in their order",
			"%d %s arrays, none with the name of a tensor, and %d %ss: %s", len(arrays), kind, len(tensors), kind,
			strings.Join(list, "; "))
	}

	all := make([]*ndarray.Array, len(tensors))
	for i, a := range arrays {
		if byName {
			var err error
			if i, err = Lookup(kind, tensors, a.Name); err != nil {
				return nil, err
			}
		}

		t := tensors[i]
		if all[i] != nil {
			return nil, failure.Errorf(failure.Config, "two arrays for %s %s", kind, t)
		}
		if a.Array.DType != t.DType || t.Shape != nil && !slices.Equal(a.Array.Shape, t.Shape) {
			return nil, failure.Errorf(failure.Config, "array %q is %v %s, and %s %s", a.Name, a.Array.DType,
				ndarray.ShapeString(a.Array.Shape), kind, t)
		}

		all[i] = a.Array
	}
	return all, nil
}

// OutputName returns the name that output i has in files: output0, output1, …, or its own if another output has that.
func OutputName(outputs []mlf.Tensor, i int) string {
	name := "output" + strconv.Itoa(i)
	for at, t := range outputs {
		if at != i && t.Name == name {
			return outputs[i].Name
		}
	}
	return name
}

// CheckNames returns an error if a name of names, which has those of tensors by those of arrays, is not an array's.
func CheckNames(names map[string]string, arrays []string) error {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Contains(arrays, name) {
			return failure.New(failure.Config, cmp.Or(spelling.Nearest(name, arrays), "use the name of an array"),
				"there is no array %q for %q, but %q", name, names[name], arrays)
		}
	}
	return nil
}
