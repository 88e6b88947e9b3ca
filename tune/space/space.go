// Package space reads a C kernel with its knobs and proposes configurations of it to measure.
//
// It neither compiles nor measures: a program passes each configuration's flags to a compiler and reports the cost.
package space

import (
	"math/big"
	"slices"

	"github.com/boardsmith/boardsmith/ndarray"
)

// A Space is a kernel and all its configurations: a value for each knob, such that all constraints are satisfied. It is
// immutable, and any number of goroutines may use it. Read returns one.
type Space struct {
	Kernel   []Source
	Entry    string // C name of the packed function; "" with Function
	Function string // C name of the plain function (tune.Func); "" with Entry
	Args     []Arg  // of the function, in order

	knobs       []knob // in the order of the file
	file        string // path, for errors
	constraints []constraint
	constrains  [][]int  // by knob: indices of the constraints that name it
	whole       []span   // by knob: range of all its values
	digest      [32]byte // of the kernel and its arguments
}

// A Source is a C file or a header of the kernel.
type Source struct {
	Name string // base name
	Data []byte
}

// An Arg describes a tensor. At most one of Value, Data and Seed is set; none is for an output.
type Arg struct {
	DType ndarray.DType
	Shape []int64
	Value []byte  // of a scalar, little-endian; nil: none
	Data  *File   // content before the call; nil: none
	Seed  *uint64 // of random content before the call; nil: none
	Want  *File   // expected content after the call; nil: not compared
	// RelTol and AbsTol allow a number to differ from the expected one by AbsTol + RelTol × |expected|.
	RelTol, AbsTol float64
}

// A File names an array in a file.
type File struct {
	Path  string // of an .npy or .npz, absolute, in the format of the operating system
	Array string // its name in an .npz; "" in an .npy
}

// A constraint is a condition that each configuration satisfies.
type constraint struct {
	text string
	line int // in the file
	node *node
}

// Size returns the number of combinations of values, including those that violate a constraint.
func (s *Space) Size() *big.Int {
	n := big.NewInt(1)
	for _, k := range s.knobs {
		n.Mul(n, big.NewInt(int64(k.count())))
	}
	return n
}

// rejects returns the first of the constraints that is false for all values in the spans, or -1.
func (s *Space) rejects(constraints []int, knobs []span) int {
	for _, c := range constraints {
		if v := s.constraints[c].node.eval(knobs); v.empty() || v == point(0) {
			return c
		}
	}
	return -1
}

// violated returns the first constraint that the configuration violates, or -1.
func (s *Space) violated(index []int) int {
	knobs := make([]span, len(index))
	for k, i := range index {
		knobs[k] = s.knobs[k].span(i, i+1)
	}
	return slices.IndexFunc(s.constraints, func(c constraint) bool { return c.node.eval(knobs) != point(1) })
}
