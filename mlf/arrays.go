// This file assigns arrays to a model's tensors.

package mlf

import (
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

// Assign returns the array of each tensor; nil for one without. If a name of an array is that of a tensor or of one of
// others, which have no arrays here, all are names of tensors. Else there is one array for each tensor, in their order;
// or there is none at all. Types and shapes must be equal. kind, "input" or "output", is for the error, of class
// config.
func Assign(kind string, tensors, others []Tensor, arrays []ndarray.Named) ([]*ndarray.Array, error) {
	has := func(tensors []Tensor, name string) bool {
		_, err := Lookup(kind, tensors, name)
		return err == nil
	}
	byName := slices.ContainsFunc(arrays, func(a ndarray.Named) bool {
		return has(tensors, a.Name) || has(others, a.Name)
	})
	if !byName && len(arrays) > 0 && len(arrays) != len(tensors) {
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
