// This file holds what a validation found.

package validate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

// keptMismatches is the number of mismatches that a report describes.
const keptMismatches = 10

// A Report is what a validation found. Its JSON form is described in docs/release.md.
type Report struct {
	Samples int `json:"samples"` // that ran
	Of      int `json:"of"`      // in the set

	// With expected outputs:
	Rule        string     `json:"rule,omitempty"`
	Equal       int        `json:"equal"`                  // samples whose outputs the rule accepts
	Mismatches  []Mismatch `json:"mismatches,omitempty"`   // the first 10
	MaxDistance *float64   `json:"max_distance,omitempty"` // of two elements; nil: top-1, or no finite number

	// With labels:
	Classes     int64   `json:"classes,omitempty"`
	Correct     int     `json:"right"`
	MinAccuracy float64 `json:"least_accuracy,omitempty"`
	Confusion   []Cell  `json:"confusion,omitempty"` // those that occurred, by label and predicted class

	Time   Times  `json:"time"`
	Memory Memory `json:"memory"`

	compared, labelled bool
	wrong              bool // outputs differ by more than rounding
	cells              map[[2]int64]int
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

// Times are those of an inference, in seconds and, if the device returned them, in counts of its timer.
type Times struct {
	Runs   int     `json:"runs"` // that were timed
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
	Counts *Counts `json:"counts,omitempty"`
	// what the timer's rate was compared with: "host", "instructions" of an emulator, or "unverified"
	Clock string `json:"clock"`
}

// Counts are times in counts of the device's timer.
type Counts struct {
	Min    uint64 `json:"min"`
	Median uint64 `json:"median"` // the lower one of an even number
	Max    uint64 `json:"max"`
	Hz     uint32 `json:"hz"`
}

// Memory is what the running model took, in bytes. What is not known is nil.
type Memory struct {
	Stack     *StackUse `json:"stack,omitempty"`
	Workspace *int64    `json:"workspace,omitempty"` // of standalone firmware: planned, all of it is used
	Arena     *ArenaUse `json:"arena,omitempty"`     // of firmware with an RPC server
}

// A StackUse is the stack of the firmware's thread.
type StackUse struct {
	Used     int64 `json:"used,omitempty"` // measured; 0: not measured
	Size     int64 `json:"size"`
	Computed int64 `json:"computed,omitempty"` // at worst, from the image; 0: not computed
}

// An ArenaUse is the arena that the RPC server allocates from.
type ArenaUse struct {
	Used   int64    `json:"used"` // computed: the model's allocations
	Size   int64    `json:"size"`
	Unsure []string `json:"unsure"` // reasons why it may be more
}

func newReport(s *Set, o Options) *Report {
	r := &Report{Of: s.Len(), compared: s.expected, labelled: s.labels, MinAccuracy: o.Accuracy, cells: map[[2]int64]int{}}

	if s.expected {
		r.Rule, r.MaxDistance = o.Rule.String(), new(float64)
	}
	if s.labels {
		r.Classes = classesOf(s.outputs[s.class])
	}
	return r
}

// Compared reports whether the set had expected outputs.
func (r *Report) Compared() bool { return r.compared }

// Labelled reports whether the set had labels.
func (r *Report) Labelled() bool { return r.labelled }

// Accuracy returns the share of samples whose label was predicted, 0 to 1.
func (r *Report) Accuracy() float64 { return float64(r.Correct) / float64(max(r.Samples, 1)) }

// Err returns an error of class wrong-answer if outputs differ, or if too few labels were predicted.
func (r *Report) Err() error {
	if n := r.Samples - r.Equal; r.compared && n > 0 {
		var first string
		if len(r.Mismatches) > 0 {
			first = "; the first: " + r.Mismatches[0].String()
		}

		next := ""
		if r.Rule == (Rule{}).String() && !r.wrong {
			next = "allow real numbers to be rounded: "
			if *r.MaxDistance == 0 { // the bytes differ, the numbers do not
				next = "only signs of zeros differ; allow that: "
			}
			next += failure.Option("Options.Rule", rounding.String())
		}

		return failure.New(failure.WrongAnswer, next, "%d of %d samples differ from the expected outputs (%s)%s", n,
			r.Samples, r.Rule, first)
	}

	if r.labelled && r.Accuracy() < r.MinAccuracy {
		return failure.Errorf(failure.WrongAnswer, "%.4g %% of the labels are right, less than %.4g %%", 100*r.Accuracy(),
			100*r.MinAccuracy)
	}
	return nil
}

func (m Mismatch) String() string {
	return fmt.Sprintf("%s: %s[%d] is %s, not %s", m.Sample, m.Output, m.Element, m.Got, m.Want)
}

// add compares the outputs of a sample.
func (r *Report) add(s *Set, x *sample, outputs []*ndarray.Array, rule Rule) {
	r.Samples++
	if r.labelled {
		class, _ := argMax(outputs[s.class])
		r.cells[[2]int64{x.label, class}]++
		if class == x.label {
			r.Correct++
		}
	}

	if !r.compared {
		return
	}

	if m := r.mismatch(s, x, outputs, rule); m != nil {
		if len(r.Mismatches) < keptMismatches {
			r.Mismatches = append(r.Mismatches, *m)
		}
		return
	}

	r.Equal++
}

// mismatch returns what differs, or nil.
func (r *Report) mismatch(s *Set, x *sample, outputs []*ndarray.Array, rule Rule) *Mismatch {
	if rule.Top1 {
		t := s.outputs[s.class]
		// top-1 has no distance
		r.MaxDistance = nil

		want, _ := argMax(t.array(x.want[s.class]))
		got, _ := argMax(outputs[s.class])
		if got == want {
			return nil
		}
		return &Mismatch{x.name, t.Name, int(want), fmt.Sprintf("class %d", got), fmt.Sprintf("class %d", want)}
	}

	var first *Mismatch
	for i, t := range s.outputs {
		want := t.array(x.want[i])

		worst, far, ok := rule.compare(outputs[i], want)
		r.farther(far)
		if ok {
			continue
		}

		if first == nil {
			e := worst.element
			first = &Mismatch{x.name, t.Name, e, outputs[i].Text(e), want.Text(e)}
		}
		// Every output counts, not only the first that differs.
		if _, _, near := rounding.compare(outputs[i], want); !near {
			r.wrong = true
		}
	}

	return first
}

// farther notes a distance. One that is not a finite number leaves none.
func (r *Report) farther(by float64) {
	switch {
	case r.MaxDistance == nil:
	case math.IsNaN(by) || math.IsInf(by, 0):
		r.MaxDistance = nil
	default:
		*r.MaxDistance = max(*r.MaxDistance, by)
	}
}

// table returns the cells of the confusion table, sorted.
func (r *Report) table() (cells []Cell) {
	for at, n := range r.cells {
		cells = append(cells, Cell{at[0], at[1], n})
	}

	slices.SortFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.Predicted, b.Predicted))
	})
	return cells
}

func timesOf(seconds []float64, counts []uint64, hz uint32) Times {
	if len(seconds) == 0 {
		return Times{}
	}

	s := slices.Sorted(slices.Values(seconds))
	t := Times{Runs: len(s), Min: s[0], Median: (s[(len(s)-1)/2] + s[len(s)/2]) / 2, Max: s[len(s)-1]}
	if len(counts) > 0 {
		c := slices.Sorted(slices.Values(counts))
		t.Counts = &Counts{Min: c[0], Median: c[(len(c)-1)/2], Max: c[len(c)-1], Hz: hz}
	}
	return t
}

// shownClasses is the number of classes up to which Table returns a whole table.
const shownClasses = 20

// Table returns the confusion table as lines of text: a row for each label with the number of each predicted class, or
// of a model with more than 20 classes the 20 most frequent confusions.
func (r *Report) Table() []string {
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
func (r *Report) confusions() (lines []string) {
	wrong := slices.DeleteFunc(slices.Clone(r.Confusion), func(c Cell) bool { return c.Label == c.Predicted })
	slices.SortStableFunc(wrong, func(a, b Cell) int { return cmp.Compare(b.Count, a.Count) })

	for _, c := range wrong[:min(len(wrong), shownClasses)] {
		lines = append(lines, fmt.Sprintf("%d times class %d in place of %d", c.Count, c.Predicted, c.Label))
	}
	return lines
}
