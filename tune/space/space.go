// Package space reads a C kernel with its knobs and proposes configurations of it to measure.
//
// It neither compiles nor measures: a program passes each configuration's flags to a compiler and reports the cost.
package space

import (
	"go/ast"
	"math/big"
	"slices"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// A Space is a kernel and all its configurations: a value for each knob, such that all constraints are satisfied. It is
// immutable, and any number of goroutines may use it. Read returns one.
type Space struct {
	Kernel   []mlf.File
	Entry    string // C name of the packed function; "" with Function
	Function string // C name of the plain function (tune.Func); "" with Entry
	Args     []arg  // of the function, in order

	knobs       []knob         // in the order of the file
	byName      map[string]int // indices of the knobs
	file        string         // path, for errors
	constraints []constraint
	digest      [32]byte // of the kernel and its arguments
}

// An arg describes a tensor. Contents are row-major and little-endian.
type arg struct {
	DType ndarray.DType
	Shape []int64
	Data  []byte // before the call; nil: an output
	Want  []byte // expected after the call; nil: not compared
	// RelTol and AbsTol allow a number to differ from the expected one by AbsTol + RelTol × |expected|.
	RelTol, AbsTol float64
}

// A constraint is a condition that each configuration satisfies.
type constraint struct {
	text string
	line int // in the file
	expr ast.Expr
}

// Size returns the number of combinations of values, including those that violate a constraint.
func (s *Space) Size() *big.Int {
	n := big.NewInt(1)
	for _, k := range s.knobs {
		n.Mul(n, big.NewInt(int64(k.count)))
	}
	return n
}

// violated returns the first constraint that the configuration violates; -1 if there is none.
func (s *Space) violated(index []int) int {
	return slices.IndexFunc(s.constraints, func(c constraint) bool {
		v := (&evaluation{space: s, index: index}).of(c.expr)
		return !v.exists || !v.holds
	})
}
