package tune

import (
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// CandidateOf returns the candidate of an archive that holds one operator, as AutoTVM exports them (mlf.md §4). inputs
// and want are arrays of the inputs and of the expected outputs, assigned by name if a name is that of an argument,
// else in order. By name, an input without an array starts as zero, and an output without one is not compared; in
// order, there must be one for each; nil is none at all. Types and shapes must be those of the arguments. Errors are of
// class config.
func CandidateOf(id string, archive *mlf.Archive, inputs, want []ndarray.Named) (Candidate, error) {
	if err := checkID(id); err != nil {
		return Candidate{}, err
	}
	m, err := archive.Model("")
	if err != nil {
		return Candidate{}, err
	}
	if m.Entry == "" || len(m.Arguments) == 0 {
		return Candidate{}, failure.New(failure.Config, "export the operator alone",
			"archive %s holds a model, not one operator", archive.Path)
	}
	if m.ABI != mlf.ABIPacked {
		return Candidate{}, failure.Errorf(failure.Config, "archive %s: operators of ABI %q cannot be called", archive.Path,
			m.ABI)
	}

	var in, out []mlf.Tensor
	for _, arg := range m.Arguments {
		if arg.Output {
			out = append(out, arg.Tensor)
		} else {
			in = append(in, arg.Tensor)
		}
	}

	data, err := tensorlist.Assign("input", in, out, inputs)
	if err != nil {
		return Candidate{}, fmt.Errorf("archive %s: %w", archive.Path, err)
	}
	expected, err := tensorlist.Assign("output", out, in, want)
	if err != nil {
		return Candidate{}, fmt.Errorf("archive %s: expected: %w", archive.Path, err)
	}

	// data and expected have one element for each input and output, nil without an array.
	code := project.Operators{Files: m.Code(), Flags: []string{"-Iinclude"}}
	c := Candidate{ID: id, Entry: m.Entry, Operators: code}
	for _, arg := range m.Arguments {
		size, err := ndarray.Bytes(arg.DType, arg.Shape)
		if err != nil {
			return Candidate{}, failure.Errorf(failure.Config, "archive %s: argument %s: %w", archive.Path, arg.Name, err)
		}

		a := Arg{DType: arg.DType, Shape: arg.Shape}
		if arg.Output {
			if expected[0] != nil {
				a.Want = expected[0].Data
			}
			expected = expected[1:]
		} else {
			a.Data = make([]byte, size)
			if data[0] != nil {
				a.Data = data[0].Data
			}
			data = data[1:]
		}

		c.Args = append(c.Args, a)
	}
	return c, nil
}
