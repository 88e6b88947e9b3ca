// This file holds sets of samples, and checks them.

package measure

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// maxSamples limits a set. Arrays without elements would allow any number.
const maxSamples = 1 << 20

// A Set holds the inputs of a model's runs, and what is expected of them. It does not change, and may be used from many
// goroutines.
type Set struct {
	columns [3][]*column // by kind; of labels one
	class   int          // the output with one value per class; -1: there is none
	rule    Rule         // by which the expected outputs are compared unless another is chosen
}

// A kind of arrays.
type kind int

const (
	inputKind kind = iota
	outputKind
	labelKind
)

// A column holds what all samples have of one tensor, or their labels. The bytes are parts of larger arrays.
type column struct {
	kind
	mlf.Tensor // of labels the zero value
	parts      [][]byte
	labels     []int64
	names      []string // of the samples
}

func (c *column) len() int { return len(c.names) }

// of returns what sample i has.
func (c *column) of(i int) *ndarray.Array {
	return &ndarray.Array{DType: c.DType, Shape: c.Shape, Data: c.parts[i]}
}

// Len returns the number of samples: without inputs, that of the expected outputs.
func (s *Set) Len() int {
	if len(s.columns[inputKind]) == 0 {
		return s.most(outputKind)
	}
	return s.most(inputKind)
}

// HasExpected reports whether the set has expected outputs.
func (s *Set) HasExpected() bool { return s.most(outputKind) > 0 }

// HasLabels reports whether the set has labels.
func (s *Set) HasLabels() bool { return s.most(labelKind) > 0 }

// most returns the largest number of samples of a column.
func (s *Set) most(k kind) (n int) {
	for _, c := range s.columns[k] {
		n = max(n, c.len())
	}
	return n
}

// name returns the name of a sample, by the file of its first tensor.
func (s *Set) name(i int) string {
	return slices.Concat(s.columns[inputKind], s.columns[outputKind])[0].names[i]
}

// label returns the label of a sample.
func (s *Set) label(i int) int64 { return s.columns[labelKind][0].labels[i] }

// inputsDigest returns the SHA-256 of the inputs of all samples, in hexadecimal.
func (s *Set) inputsDigest() string {
	h := sha256.New()
	for i := range s.Len() {
		for _, c := range s.columns[inputKind] {
			// with the length: the same bytes, divided in another way, are other inputs
			fmt.Fprintf(h, "%q %d\n", c.Name, len(c.parts[i]))
			h.Write(c.parts[i])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// tensors returns the model's tensors with the shapes of Dims.
func tensors(all []mlf.Tensor) []mlf.Tensor {
	all = slices.Clone(all)
	for i, t := range all {
		all[i].Shape = t.Dims()
	}
	return all
}

// split returns the samples in an array, which may have real numbers in place of quantized ones: one if it has the
// tensor's shape, else one for each place on its first axis, which a tensor with a first axis of length 1 may have in
// its place.
func split(t mlf.Tensor, a *ndarray.Array) ([][]byte, error) {
	a, err := tensorlist.Quantize(t, a)
	if err != nil {
		return nil, err
	}
	if err := a.Check(); err != nil {
		return nil, err
	}

	n, shape := int64(1), a.Shape
	if !slices.Equal(shape, t.Shape) && len(shape) > 0 {
		n, shape = shape[0], shape[1:]
		if slices.Equal(shape, inRow(t)) {
			shape = t.Shape
		}
	}
	if a.DType != t.DType || !slices.Equal(shape, t.Shape) {
		return nil, misfit(t, a)
	}
	if n > maxSamples {
		return nil, tooMany(n, "samples")
	}

	parts := make([][]byte, n)
	for i := range parts {
		size := len(a.Data) / len(parts)
		// limited in capacity: an append does not overwrite the next sample
		parts[i] = a.Data[i*size : (i+1)*size : (i+1)*size]
	}

	return parts, nil
}

// inRow returns the shape of each of several samples of a tensor, which may have the place of a first axis of length 1.
func inRow(t mlf.Tensor) []int64 {
	if len(t.Shape) > 0 && t.Shape[0] == 1 {
		return t.Shape[1:]
	}
	return t.Shape
}

func tooMany(n int64, what string) error {
	return failure.New(failure.Config, "divide the set", "%d %s are more than %d", n, what, maxSamples)
}

// misfit returns the error for an array of another type or shape than a tensor and samples of it have.
func misfit(t mlf.Tensor, a *ndarray.Array) error {
	many := strings.Replace(ndarray.ShapeString(append([]int64{-1}, inRow(t)...)), "-1", "N", 1)
	wrong := "shape"
	if a.DType != t.DType {
		wrong = "type"
	}

	return fmt.Errorf("wrong %s: %v %s is neither one sample, %v %s, nor N samples, %v %s", wrong, a.DType,
		ndarray.ShapeString(a.Shape), t.DType, ndarray.ShapeString(t.Shape), t.DType, many)
}

// labelsOf returns the labels in an array of integers with one axis, besides axes of length 1, or none.
func labelsOf(a *ndarray.Array) ([]int64, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if !tolerance.IsInteger(a.DType) || a.DType.Bits == 1 || longAxes(a.Shape) > 1 {
		return nil, fmt.Errorf("labels are integers on one axis, not %v %s", a.DType, ndarray.ShapeString(a.Shape))
	}
	if a.Len() > maxSamples {
		return nil, tooMany(int64(a.Len()), "labels")
	}

	labels := make([]int64, a.Len())
	for i := range labels {
		labels[i] = a.Int(i)
		// Int returns a number of 2⁶³ or more as a negative one.
		if a.DType.Code == ndarray.UInt && labels[i] < 0 {
			return nil, fmt.Errorf("the label %s is no class of any model", a.Text(i))
		}
	}

	return labels, nil
}

// longAxes returns how many axes have another length than 1.
func longAxes(shape []int64) (n int) {
	for _, length := range shape {
		if length != 1 {
			n++
		}
	}
	return n
}

// classOutput returns the first output that has one number per class: one axis of 2 elements or more, all others of
// length 1.
func classOutput(outputs []*column) int {
	return slices.IndexFunc(outputs, func(c *column) bool {
		n := classesOf(c.Tensor)
		return longAxes(c.Shape) == 1 && n >= 2 && n <= maxSamples && isNumber(c.DType)
	})
}

func classesOf(t mlf.Tensor) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

func isNumber(d ndarray.DType) bool {
	return d.Lanes == 1 && d.Size() <= 8 && (d.Code <= ndarray.Float || d.Code == ndarray.BFloat)
}

// checkLabels returns an error for labels that are no class of the model.
func (s *Set) checkLabels() error {
	if !s.HasLabels() {
		return nil
	}
	if s.class < 0 {
		return failure.New(failure.Config, "leave the labels out",
			"the set has labels, and the model has no output with a value for each class")
	}

	classes := classesOf(s.columns[outputKind][s.class].Tensor)
	for i := range s.Len() {
		if label := s.label(i); label < 0 || label >= classes {
			return failure.Errorf(failure.Config, "%s: the label %d is not one of the model's classes, 0 to %d", s.name(i),
				label, classes-1)
		}
	}
	return nil
}

// checkRule returns an error for a rule by which the set's outputs cannot be compared.
func (s *Set) checkRule(r Rule) error {
	if !s.HasExpected() || r == (Rule{}) || r.exact {
		return nil
	}

	if !r.Top1 {
		for _, c := range s.columns[outputKind] {
			if !isNumber(c.DType) {
				return failure.New(failure.Config, "compare exactly", "output %q: %v has no distance", c.Name, c.DType)
			}
		}
		return nil
	}

	if s.class < 0 {
		return failure.New(failure.Config, "compare by another rule",
			"top-1: the model has no output with a value for each class")
	}
	c := s.columns[outputKind][s.class]
	for i := range c.parts {
		if _, ok := tolerance.ArgMax(c.of(i)); !ok {
			return failure.Errorf(failure.Config, "%s: the expected output %q has no largest element: one is not a number",
				s.name(i), c.Name)
		}
	}
	return nil
}
