// This file makes the page of measurements.

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/valuetext"
	"github.com/boardsmith/boardsmith/measure"
)

// Measurements are results of package measure, and what a page shows beside them.
type Measurements struct {
	Title    string // "": "Measurements"
	Results  []*measure.Result
	Baseline *measure.Baseline   // with which the results are compared; nil: none
	Limits   measure.Limits      // of the comparison
	Wear     []device.DeviceWear // of devices; their names are those of the ledger
}

// largestSymbols is the number of functions, constants and variables that the page lists for a model.
const largestSymbols = 20

// WriteHTML writes one page: a table, flash against the cost, and for each result its size by part and region, the cost
// of its operators, the deepest calls, the largest functions and, if there is a baseline, what differs from it by how
// much; then the wear of each device. It is as the function WriteHTML's page: in one file, without script, safe for any
// names. Its errors are those of drawing.
func (x Measurements) WriteHTML(w io.Writer) error {
	rows := measure.Rows(x.Results, x.Baseline)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
	}
	head := section{Blocks: []block{{Table: &table{rows[0], rows[1:]}}}}
	p := page{
		Title: cmp.Or(printable(x.Title), "Measurements"),
		Intro: "Flash is all in regions of flash, RAM is variables and the running model's part of the arena. " +
			"Instructions are those of an emulated board.",
	}
	if x.Baseline != nil {
		p.Intro += " Where a value differs from the baseline's, both are shown."
	}

	measured := slices.DeleteFunc(slices.Clone(x.Results), func(r *measure.Result) bool { return r.Failure != nil })
	if slices.ContainsFunc(measured, func(r *measure.Result) bool { return r.Cost.Unit != "" }) {
		if err := head.draw(0, pareto(measured)); err != nil {
			return err
		}
	}
	p.Sections = append(p.Sections, head)
	shown := slices.Clone(measured)
	for _, r := range measured {
		if old := x.Baseline.Find(r); old != nil {
			shown = append(shown, old)
		}
	}
	parts := largestParts(shown)
	for i, r := range measured {
		s, err := modelOf(i+1, r, x.Baseline.Find(r), x.Limits, parts)
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, s)
	}
	if len(measured) < len(x.Results) {
		p.Sections = append(p.Sections, failures(x.Results))
	}
	return p.write(w, x.Wear)
}

// failures lists what was not measured, and where devices stopped, the outermost call first.
func failures(results []*measure.Result) section {
	t := &table{Head: []string{"of", "class", "error", "next step"}}
	s := section{Title: "Not measured", Blocks: []block{{Table: t}}}
	for _, r := range results {
		f := r.Failure
		if f == nil {
			continue
		}
		t.add(printable(r.Key()), f.Class, printable(f.Error), printable(f.Next))
		if len(f.Calls) == 0 {
			continue
		}
		calls := slices.Clone(f.Calls)
		slices.Reverse(calls)
		s.Blocks = append(s.Blocks, block{Title: printable(r.Key()), Facts: [][2]string{
			{"Cause", printable(f.Cause)},
			{"Operator", printable(cmp.Or(f.Operator, "unknown"))},
			{"Stopped in", printable(f.Calls[0])},
			{"Next step", printable(f.Next)},
			{"Calls", ""},
		}, Tree: tree(calls)})
	}
	return s
}

// modelOf returns the section of result number n, from 1. old is the earlier one, or nil. parts have a colour each.
func modelOf(n int, r, old *measure.Result, l measure.Limits, parts []string) (section, error) {
	s := section{Title: printable(r.Key())}
	s.list("", r.Doubts())
	figures := []figure{partsFigure(r, old, parts)}
	if len(r.Regions) > 0 {
		figures = append(figures, regionsFigure(r))
	}
	if len(r.Operators) > 0 {
		figures = append(figures, operatorsFigure(r))
	}
	if err := s.draw(n, figures...); err != nil {
		return s, err
	}
	if len(r.StackPath) > 0 {
		s.Blocks = append(s.Blocks, block{
			Title: "Deepest calls", Tree: tree(r.StackPath),
			Text: "The stack takes " + thousands(r.Stack) + " bytes at worst:",
		})
	}
	if old != nil {
		c := measure.Compare(old, r, l)
		changes := &table{Head: []string{"change", "causes"}}
		for _, x := range c.Changes {
			var causes []string
			for _, cause := range x.Causes {
				causes = append(causes, printable(cause.String()))
			}
			changes.add(x.String(), strings.Join(causes, ", "))
		}
		if len(changes.Rows) > 0 {
			s.Blocks = append(s.Blocks, block{Title: "Changes since the baseline", Table: changes})
		}
		if c.Incomparable != "" {
			c.Notes = append(c.Notes, "the cost cannot be compared: "+c.Incomparable)
		}
		s.list("", c.Notes)
	}
	s.Blocks = append(s.Blocks, block{Title: "Largest functions, constants and variables", Table: largest(r)})
	return s, nil
}

// list adds texts.
func (s *section) list(title string, texts []string) {
	b := block{Title: title}
	for _, text := range texts {
		b.Items = append(b.Items, printable(text))
	}
	s.Blocks = append(s.Blocks, b)
}

// partsFigure shows flash and RAM by part, beside those of an earlier result. Each of parts has a colour.
func partsFigure(r, old *measure.Result, parts []string) figure {
	f := figure{
		ID: "parts", Title: "Flash and RAM by part", Table: table{Head: []string{"", "part", "flash", "RAM"}},
		Words: fmt.Sprintf("Flash %s bytes, RAM %s bytes. ", thousands(r.Flash), thousands(r.RAM)),
	}
	builds := []struct {
		name string
		*measure.Result
	}{{"", r}}
	if old != nil {
		builds = append(builds, struct {
			name string
			*measure.Result
		}{"before", old})
		f.Words += fmt.Sprintf("Before: flash %s bytes, RAM %s bytes. ", thousands(old.Flash), thousands(old.RAM))
	}
	values := make([][]float64, len(parts))
	var names []string
	for _, memory := range []struct {
		name string
		of   func(measure.Part) int64
	}{{"flash", func(p measure.Part) int64 { return p.Flash }}, {"RAM", func(p measure.Part) int64 { return p.RAM }}} {
		for _, b := range builds {
			names = append(names, strings.TrimSpace(memory.name+" "+b.name))
			for i, part := range parts {
				n := int64(0)
				for _, p := range b.Parts {
					if p.Name == part || part == otherParts && !slices.Contains(parts, p.Name) {
						n += memory.of(p)
					}
				}
				values[i] = append(values[i], float64(n))
			}
		}
	}
	for i, part := range parts {
		if slices.Max(values[i]) > 0 {
			f.Legend = append(f.Legend, legend{Tone: i, Name: printable(part)})
		}
	}
	for _, b := range builds {
		for _, p := range b.Parts {
			f.Table.add(b.name, printable(p.Name), thousands(p.Flash), thousands(p.RAM))
		}
	}
	return f.bars("bytes", names, values)
}

// thousands returns a number of bytes as text.
func thousands(n int64) string { return valuetext.Thousands(float64(n)) }

// otherParts stands for the parts that have no colour of their own.
const otherParts = "all other parts"

// largestParts returns the names of the parts of results, the largest first. If there are more than colours, the
// smallest are otherParts.
func largestParts(results []*measure.Result) (names []string) {
	largest := map[string]int64{}
	for _, r := range results {
		for _, p := range r.Parts {
			largest[p.Name] = max(largest[p.Name], p.Flash, p.RAM)
		}
	}
	names = slices.SortedFunc(maps.Keys(largest), func(a, b string) int {
		return cmp.Or(cmp.Compare(largest[b], largest[a]), strings.Compare(a, b))
	})
	if len(names) <= len(tones) {
		return names
	}
	return append(slices.Clone(names[:len(tones)-1]), otherParts)
}

// regionsFigure shows how much of each memory is used.
func regionsFigure(r *measure.Result) figure {
	f := figure{
		ID: "regions", Title: "Use of each memory", Legend: []legend{{0, "used"}, {5, "free"}},
		Table: table{Head: []string{"memory", "used, bytes", "of"}},
	}
	values := make([][]float64, len(tones)) // the sixth tone is of what is free
	var names []string
	for _, g := range r.Regions {
		used := 0.0
		if g.Size > 0 {
			used = min(100, 100*float64(g.Used)/float64(g.Size))
		}
		names = append(names, printable(g.Name))
		for i := range values {
			values[i] = append(values[i], 0)
		}
		values[0][len(names)-1], values[5][len(names)-1] = used, 100-used
		f.Table.add(printable(g.Name), thousands(g.Used), thousands(g.Size))
		f.Words += fmt.Sprintf("%s: %.1f %% of %s bytes. ", printable(g.Name), used, thousands(g.Size))
	}
	return f.bars("per cent", names, values)
}

// operatorsFigure shows the cost of each node of a graph.
func operatorsFigure(r *measure.Result) figure {
	most := 0.0
	for _, o := range r.Operators {
		most = max(most, o.Median)
	}
	scale, unit := axisOf(r.Cost.Unit, most)
	f := figure{
		ID: "operators", Title: "Cost by operator", Legend: []legend{{0, "median, " + unit}},
		Table: table{Head: []string{"operator", "cost"}},
	}
	var names []string
	var values []float64
	for _, o := range r.Operators {
		cost := measure.Cost{Unit: r.Cost.Unit, Median: o.Median}.String()
		names, values = append(names, printable(o.Node)), append(values, o.Median*scale)
		f.Table.add(printable(o.Node), cost)
		f.Words += fmt.Sprintf("%s: %s. ", printable(o.Node), cost)
	}
	return f.bars(unit, names, [][]float64{values})
}

// axisOf returns the unit of an axis for costs up to the largest, and what their own unit has of it.
func axisOf(unit string, largest float64) (scale float64, name string) {
	if unit == measure.Instructions {
		return 1, unit
	}
	u := unitFor(largest)
	return u.second, u.name
}

// tree returns calls as lines, each a step further in than its caller.
func tree(path []string) string {
	var b strings.Builder
	for i, call := range path {
		if i > 0 {
			b.WriteString(strings.Repeat("  ", i-1) + "└ ")
		}
		b.WriteString(printable(call) + "\n")
	}
	return b.String()
}

// largest lists what takes most memory.
func largest(r *measure.Result) *table {
	t := &table{Head: []string{"of", "flash", "RAM"}}
	names := maps.Clone(r.FlashOf)
	if names == nil {
		names = map[string]int64{}
	}
	for name, n := range r.RAMOf {
		names[name] = max(names[name], n)
	}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[b], names[a]), strings.Compare(a, b))
	})
	for _, name := range sorted[:min(len(sorted), largestSymbols)] {
		t.add(printable(name), thousands(r.FlashOf[name]), thousands(r.RAMOf[name]))
	}
	return t
}

// pareto shows flash against the cost, with the front of each model, of results whose costs have one unit: the unit
// that most of them have.
func pareto(results []*measure.Result) figure {
	f := figure{ID: "pareto", Title: "Flash against cost", Table: table{Head: []string{"of", "cost", "flash, bytes"}}}
	byUnit := map[string][]*measure.Result{}
	unit, most := "", 0.0
	for _, r := range results {
		byUnit[r.Cost.Unit] = append(byUnit[r.Cost.Unit], r)
		if r.Cost.Unit != "" && (unit == "" || len(byUnit[r.Cost.Unit]) > len(byUnit[unit])) {
			unit = r.Cost.Unit
		}
	}
	if len(byUnit[unit]) < 2 {
		f.Words = "There are fewer than two results in one unit."
		return f
	}
	for _, r := range byUnit[unit] {
		most = max(most, r.Cost.Median)
	}
	scale, name := axisOf(unit, most)

	byModel := map[string][]dot{}
	for _, r := range byUnit[unit] {
		byModel[r.Model] = append(byModel[r.Model], dot{r.Cost.Median * scale, float64(r.Flash), printable(r.Board)})
		f.Table.add(printable(r.Key()), r.Cost.String(), thousands(r.Flash))
	}
	f.Words = "Each dot is a result. A line joins those of a model than which no other one is both cheaper and smaller. "
	var all []series
	for i, model := range slices.Sorted(maps.Keys(byModel)) {
		f.Legend = append(f.Legend, legend{Tone: i % len(tones), Name: short(model, 40)})
		all = append(all, seriesOf(i, byModel[model]))
		f.Words += fmt.Sprintf("%s: %s. ", short(model, 40), namesOf(front(byModel[model])))
	}
	return f.plot("cost, "+name, "flash, bytes", all)
}
