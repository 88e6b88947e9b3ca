// This file holds how the outputs of a run compare with the expected ones.

package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/ndarray"
)

// keptMismatches is the number of mismatches that are described.
const keptMismatches = 10

// Outputs are how the outputs of a set of samples compare with the expected ones, and with labels. The JSON form is
// described in docs/release.md.
type Outputs struct {
	Samples int `json:"samples"` // that ran
	Of      int `json:"of"`      // in the set

	// With expected outputs; without, Rule is "":
	Rule        string     `json:"rule,omitempty"`
	Equal       int        `json:"equal"`                  // samples whose outputs the rule accepts
	Mismatches  []Mismatch `json:"mismatches,omitempty"`   // the first 10
	MaxDistance *float64   `json:"max_distance,omitempty"` // of two elements; nil: top-1, or no finite number

	// With labels; without, Classes is 0:
	Classes     int64   `json:"classes,omitempty"`
	Correct     int     `json:"right"`
	MinAccuracy float64 `json:"least_accuracy,omitempty"`
	Confusion   []Cell  `json:"confusion,omitempty"` // those that occurred, by label and predicted class

	wrong bool // outputs differ by more than rounding
}

// rounding is how far real numbers of two compilers or processors differ for no other reason.
var rounding = Rule{Abs: 1e-5, Rel: 1e-5}

// A Mismatch is a sample whose outputs differ from the expected ones.
type Mismatch struct {
	Sample  string `json:"sample"`
	Output  string `json:"output"`
	Element int    `json:"element"` // the worst one; with top-1 the expected class
	Got     string `json:"got"`     // its value; with top-1 the predicted class
	Want    string `json:"want"`
}

// A Cell is one of the confusion table.
type Cell struct {
	Label     int64 `json:"label"`
	Predicted int64 `json:"predicted"` // -1: none, an element of the output is not a number
	Count     int   `json:"count"`
}

func newOutputs(s *Set, o Options) *Outputs {
	r := &Outputs{Of: s.Len(), MinAccuracy: o.Accuracy}
	if s.HasExpected() {
		r.Rule, r.MaxDistance = o.Rule.String(), new(float64)
	}
	if s.HasLabels() {
		r.Classes = classesOf(s.columns[outputKind][s.class].Tensor)
	}
	return r
}

// Compared reports whether the set had expected outputs.
func (r *Outputs) Compared() bool { return r.Rule != "" }

// Labelled reports whether the set had labels.
func (r *Outputs) Labelled() bool { return r.Classes > 0 }

// Accuracy returns the share of samples whose label was predicted, 0 to 1.
func (r *Outputs) Accuracy() float64 { return float64(r.Correct) / float64(max(r.Samples, 1)) }

// rounded is more than the error of a share that was written as a decimal number.
const rounded = 1e-12

// Err returns an error of class wrong-answer if outputs differ, or if too few labels were predicted.
func (r *Outputs) Err() error {
	if n := r.Samples - r.Equal; r.Compared() && n > 0 {
		var first string
		if len(r.Mismatches) > 0 {
			first = "; the first: " + r.Mismatches[0].String()
		}

		next := ""
		if r.Rule == (Rule{}).String() && !r.wrong {
			next = "allow real numbers to be rounded: "
			if r.MaxDistance != nil && *r.MaxDistance == 0 { // the bytes differ, the numbers do not
				next = "only signs of zeros differ; allow that: "
			}
			next += nextstep.Option("Options.Rule", rounding.String())
		}

		return failure.New(failure.WrongAnswer, next, "%d of %d samples differ from the expected outputs (%s)%s", n,
			r.Samples, r.Rule, first)
	}

	if r.Labelled() && r.Accuracy() < r.MinAccuracy-rounded {
		return failure.Errorf(failure.WrongAnswer, "%.4g %% of the labels are right, less than %.4g %%", 100*r.Accuracy(),
			100*r.MinAccuracy)
	}
	return nil
}

func (m Mismatch) String() string {
	return fmt.Sprintf("%s: %s[%d] is %s, not %s", m.Sample, m.Output, m.Element, m.Got, m.Want)
}

// add compares the outputs of sample i.
func (r *Outputs) add(s *Set, i int, outputs []*ndarray.Array, rule Rule) {
	r.Samples++
	if r.Labelled() {
		class, _ := tolerance.ArgMax(outputs[s.class])
		r.count(s.label(i), class)
	}
	if !r.Compared() {
		return
	}

	switch m := r.mismatch(s, i, outputs, rule); {
	case m == nil:
		r.Equal++
	case len(r.Mismatches) < keptMismatches:
		r.Mismatches = append(r.Mismatches, *m)
	}
}

// count counts a prediction in the confusion table.
func (r *Outputs) count(label, class int64) {
	if label == class {
		r.Correct++
	}

	cell := Cell{Label: label, Predicted: class}
	at, ok := slices.BinarySearchFunc(r.Confusion, cell, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.Predicted, b.Predicted))
	})
	if !ok {
		r.Confusion = slices.Insert(r.Confusion, at, cell)
	}
	r.Confusion[at].Count++
}

// mismatch returns the first output of sample i that differs, or nil.
func (r *Outputs) mismatch(s *Set, i int, outputs []*ndarray.Array, rule Rule) (first *Mismatch) {
	for j, c := range s.columns[outputKind] {
		if rule.Top1 && j != s.class {
			continue
		}

		m, far := rule.compare(outputs[j], c.of(i))
		r.farther(far)
		if m == nil {
			continue
		}

		if first == nil {
			m.Sample, m.Output = s.name(i), c.Name
			first = m
		}
		// Every output counts, not only the first that differs.
		if more, _ := rounding.compare(outputs[j], c.of(i)); more != nil {
			r.wrong = true
		}
	}
	return first
}

// farther notes a distance. One that is not a finite number leaves none.
func (r *Outputs) farther(by float64) {
	switch {
	case r.MaxDistance == nil:
	case math.IsNaN(by) || math.IsInf(by, 0):
		r.MaxDistance = nil
	default:
		*r.MaxDistance = max(*r.MaxDistance, by)
	}
}

// shownClasses is the number of classes up to which Table returns a whole table.
const shownClasses = 20

// Table returns the confusion table as lines of text: a row for each label with the number of each predicted class, or
// of a model with more than 20 classes the 20 most frequent confusions.
func (r *Outputs) Table() []string {
	if r.Classes > shownClasses {
		return r.confusions()
	}

	count := map[[2]int64]int{}
	width, none := len(fmt.Sprint(r.Classes-1)), false
	for _, c := range r.Confusion {
		count[[2]int64{c.Label, c.Predicted}] = c.Count
		width = max(width, len(fmt.Sprint(c.Count)))
		// one column more if an output had no largest element
		none = none || c.Predicted < 0
	}

	line := func(head string, cell func(class int64) string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%8s", head)
		for class := range r.Classes {
			fmt.Fprintf(&b, " %*s", width, cell(class))
		}
		if none {
			fmt.Fprintf(&b, " %*s", max(width, 4), cell(-1))
		}
		return b.String()
	}

	lines := []string{line("label", func(class int64) string {
		if class < 0 {
			return "none"
		}
		return fmt.Sprint(class)
	})}

	for label := range r.Classes {
		lines = append(lines, line(fmt.Sprint(label), func(class int64) string {
			if n := count[[2]int64{label, class}]; n > 0 {
				return fmt.Sprint(n)
			}
			return "."
		}))
	}

	return lines
}

// confusions returns the most frequent wrong predictions.
func (r *Outputs) confusions() (lines []string) {
	wrong := slices.DeleteFunc(slices.Clone(r.Confusion), func(c Cell) bool { return c.Label == c.Predicted })
	slices.SortStableFunc(wrong, func(a, b Cell) int { return cmp.Compare(b.Count, a.Count) })

	for _, c := range wrong[:min(len(wrong), shownClasses)] {
		lines = append(lines, fmt.Sprintf("%d times class %d in place of %d", c.Count, c.Predicted, c.Label))
	}
	return lines
}
