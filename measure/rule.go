// This file compares an output with the expected one.

package measure

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// A Rule is how outputs are compared with expected ones. The zero value compares bytes or, in a run, by the rule of
// the set if it has one.
type Rule struct {
	// Abs and Rel are how far an element may be from the expected one w: at most Abs + Rel·|w|. Not a number equals not a
	// number only, and an infinity itself only. Both 0: the bytes are compared.
	Abs, Rel float64

	// Top1 compares the position of the largest element of the output that has one value per class, the first such output.
	// Of several largest elements, it is the first one's.
	Top1 bool

	exact bool // also for a set that has a rule
}

// ParseRule parses "exact", "top1", or "abs=N", "rel=N" or both, separated by a comma. "" is the zero value.
func ParseRule(text string) (Rule, error) {
	var r Rule
	switch text {
	case "":
		return r, nil
	case "exact":
		return Rule{exact: true}, nil
	case "top1":
		return Rule{Top1: true}, nil
	}

	for _, word := range strings.Split(text, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(word), "=")
		to := map[string]*float64{"abs": &r.Abs, "rel": &r.Rel}[name]
		v, err := strconv.ParseFloat(number, 64)
		// each once, and not 0: that is the rule exact
		if to == nil || *to != 0 || err != nil || v == 0 {
			return Rule{}, badRule(text)
		}
		*to = v
	}

	if r.check() != nil {
		return Rule{}, badRule(text)
	}

	return r, nil
}

func badRule(text string) error {
	return failure.Errorf(failure.Config, "%q is none of exact, top1, abs=0.001, rel=0.01 and abs=0.001,rel=0.01", text)
}

func (r Rule) check() error {
	for _, v := range []float64{r.Abs, r.Rel} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return failure.Errorf(failure.Config, "a tolerance of %v is not a positive number", v)
		}
	}

	if r.Top1 && (r.Abs != 0 || r.Rel != 0) {
		return failure.New(failure.Config, "choose one", "top-1 has no tolerance")
	}
	return nil
}

// String returns the rule as ParseRule accepts it.
func (r Rule) String() string {
	var words []string
	if r.Top1 {
		words = append(words, "top1")
	}
	if r.Abs != 0 {
		words = append(words, fmt.Sprintf("abs=%g", r.Abs))
	}
	if r.Rel != 0 {
		words = append(words, fmt.Sprintf("rel=%g", r.Rel))
	}

	if words == nil {
		return "exact"
	}
	return strings.Join(words, ",")
}

// Compare returns an error of class wrong-answer, with the worst element, if an array differs from the expected one by
// more than the rule allows. Arrays of different types or shapes differ by any rule. Errors of class config: a rule
// that is invalid or has no meaning for the arrays, such as Top1 for one that is no vector of classes.
func (r Rule) Compare(got, want *ndarray.Array) error {
	if err := cmp.Or(r.check(), got.Check(), want.Check()); err != nil {
		return failure.Errorf(failure.Config, "%w", err)
	}

	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return failure.Errorf(failure.WrongAnswer, "%v %s is not %v %s", got.DType, ndarray.ShapeString(got.Shape),
			want.DType, ndarray.ShapeString(want.Shape))
	}

	// A run checks its rule and compares by the same code: the array is the only output of a set with one sample.
	c := &column{parts: [][]byte{want.Data}, names: []string{"array"}}
	c.Tensor = mlf.Tensor{Name: "output", DType: want.DType, Shape: want.Shape}
	s := &Set{columns: [3][]*column{{c}, {c}}}
	s.class = classOutput(s.columns[outputKind])
	if err := s.checkRule(r); err != nil {
		return err
	}

	if m, _ := r.compare(got, want); m != nil {
		return failure.Errorf(failure.WrongAnswer, "element %d is %s, not %s (%v)", m.Element, m.Got, m.Want, r)
	}
	return nil
}

// compare returns the worst difference of two arrays of one type and shape, nil if the rule allows all, and the largest
// distance of two elements: NaN if there is none, as by top-1.
func (r Rule) compare(got, want *ndarray.Array) (m *Mismatch, far float64) {
	if r.Top1 {
		class, _ := tolerance.ArgMax(got)
		expected, _ := tolerance.ArgMax(want)
		if class != expected {
			m = &Mismatch{
				Element: int(expected), Got: fmt.Sprintf("class %d", class), Want: fmt.Sprintf("class %d", expected),
			}
		}
		return m, math.NaN()
	}

	exact := r.Abs == 0 && r.Rel == 0
	worst := 0.0
	size := got.DType.Size()
	for i := range got.Len() {
		// Equal bytes need no distance; two NaNs have none.
		if bytes.Equal(got.Data[i*size:(i+1)*size], want.Data[i*size:(i+1)*size]) {
			continue
		}

		by, near := tolerance.Compare(got, want, i, r.Abs, r.Rel)
		far = max(far, by) // a NaN stays
		if !exact && near {
			continue
		}

		// A NaN is worse than any number.
		if m == nil || by > worst || math.IsNaN(by) && !math.IsNaN(worst) {
			m, worst = &Mismatch{Element: i, Got: got.Text(i), Want: want.Text(i)}, by
		}
	}
	return m, far
}
