// This file makes candidates of archives.

package tune

import (
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// CandidateOf makes a candidate of an archive that holds one operator, as AutoTVM exports them (mlf.md §4). inputs and
// want are the inputs and the outputs that are wanted. If a name of theirs is that of an argument, all are: an input
// without an array begins as zero, an output without one is not compared. Else there is one for each input or output,
// in their order. Types and shapes are those of the arguments. Errors are of class config.
func CandidateOf(id string, a *mlf.Archive, inputs, want []ndarray.Named) (Candidate, error) {
	if err := checkID(id); err != nil {
		return Candidate{}, err
	}
	m, err := a.Model("")
	if err != nil {
		return Candidate{}, err
	}
	if m.Entry == "" || len(m.Arguments) == 0 {
		return Candidate{}, failure.New(failure.Config, "export the operator alone",
			"archive %s holds a model, not one operator", a.Path)
	}
	if m.ABI != mlf.ABIPacked {
		return Candidate{}, failure.Errorf(failure.Config, "archive %s: operators of ABI %q cannot be called", a.Path, m.ABI)
	}
	var in, out []mlf.Tensor
	for _, arg := range m.Arguments {
		if arg.Output {
			out = append(out, arg.Tensor)
		} else {
			in = append(in, arg.Tensor)
		}
	}
	given, err := mlf.Assign("input", in, out, inputs)
	if err != nil {
		return Candidate{}, fmt.Errorf("archive %s: %w", a.Path, err)
	}
	expected, err := mlf.Assign("output", out, in, want)
	if err != nil {
		return Candidate{}, fmt.Errorf("archive %s: expected: %w", a.Path, err)
	}
	c := Candidate{ID: id, Entry: m.Entry, Operators: project.CodeOf(m)}
	for _, arg := range m.Arguments {
		bytes, err := ndarray.Bytes(arg.DType, arg.Shape)
		if err != nil {
			return Candidate{}, failure.Errorf(failure.Config, "archive %s: argument %s: %w", a.Path, arg.Name, err)
		}
		of := Arg{DType: arg.DType, Shape: arg.Shape}
		if arg.Output {
			if expected[0] != nil {
				of.Want = expected[0].Data
			}
			expected = expected[1:]
		} else {
			of.Data = make([]byte, bytes)
			if given[0] != nil {
				of.Data = given[0].Data
			}
			given = given[1:]
		}
		c.Args = append(c.Args, of)
	}
	return c, nil
}
