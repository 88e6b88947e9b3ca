// This file makes candidates of archives.

package tune

import (
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// CandidateOf makes a candidate of an archive that holds one operator, as AutoTVM exports them (mlf.md §4). Arrays are
// the inputs and the outputs that are wanted, by the names of the operator's arguments, or else in their order: an
// input without an array begins as zero, an output without one is not compared. Errors are of class config.
func CandidateOf(id string, a *mlf.Archive, inputs, want []ndarray.Named) (Candidate, error) {
	m, err := a.Model("")
	if err != nil {
		return Candidate{}, err
	}
	if m.Entry == "" || len(m.Arguments) == 0 {
		return Candidate{}, failure.New(failure.Config, "export the operator alone",
			"archive %s holds a model, not one operator", a.Path)
	}
	if m.ABI != mlf.ABIPacked {
		return Candidate{}, failure.New(failure.Config, "", "archive %s: operators of ABI %q cannot be called", a.Path, m.ABI)
	}
	c := Candidate{ID: id, Entry: m.Entry, Operators: project.CodeOf(m)}
	in, out := 0, 0
	for _, arg := range m.Arguments {
		given := Arg{DType: arg.DType, Shape: arg.Shape}
		var array *ndarray.Array
		if arg.Output {
			array, out = pick(want, arg.Name, out), out+1
		} else {
			array, in = pick(inputs, arg.Name, in), in+1
		}
		bytes, err := ndarray.Bytes(arg.DType, arg.Shape)
		if err != nil {
			return Candidate{}, failure.New(failure.Config, "", "archive %s: argument %s: %w", a.Path, arg.Name, err)
		}
		switch {
		case array != nil && (array.DType != arg.DType || len(array.Data) != bytes):
			return Candidate{}, failure.New(failure.Config, "", "argument %s is %v %s, not %v %s", arg.Name, arg.DType,
				ndarray.ShapeString(arg.Shape), array.DType, ndarray.ShapeString(array.Shape))
		case array != nil && arg.Output:
			given.Want = array.Data
		case array != nil:
			given.Data = array.Data
		case !arg.Output:
			given.Data = make([]byte, bytes)
		}
		c.Args = append(c.Args, given)
	}
	return c, nil
}

// pick is the array of that name, else the nth of those without a name that fits any argument.
func pick(arrays []ndarray.Named, name string, n int) *ndarray.Array {
	for _, a := range arrays {
		if a.Name == name {
			return a.Array
		}
	}
	if n < len(arrays) {
		return arrays[n].Array
	}
	return nil
}
