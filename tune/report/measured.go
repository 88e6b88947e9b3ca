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
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/measure"
)

// Measurements are results of package measure, and what a page shows beside them.
type Measurements struct {
	measure.Table
	Title string              // "": "Measurements"
	Wear  []device.DeviceWear // of devices; their names are those of the ledger
}

// largestSymbols is the number of functions, constants and variables that the page lists for a model.
const largestSymbols = 20

// WriteHTML writes one page: a table, flash against the cost, and for each result its size by part and region, the cost
// of its operators, the deepest calls, the largest functions and, if there is a baseline, what differs from it by how
// much; then the wear of each device. It is as the function WriteHTML's page: in one file, without script, safe for any
// names. Its errors are those of drawing.
func (x Measurements) WriteHTML(w io.Writer) error {
	rows := x.Rows()
	head := section{Blocks: []block{{Table: &table{rows[0], rows[1:]}}}}

	p := page{
		Title: cmp.Or(x.Title, "Measurements"),
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

	// A part has one colour on the whole page, also in an earlier result.
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

		t.add(r.Key(), f.Class, f.Error, f.Next)
		if len(f.Calls) == 0 {
			continue
		}

		calls := slices.Clone(f.Calls)
		slices.Reverse(calls)
		s.Blocks = append(s.Blocks, block{Title: r.Key(), Tree: tree(calls), Facts: [][2]string{
			{"Cause", f.Cause},
			{"Operator", cmp.Or(f.Operator, "unknown")},
			{"Stopped in", f.Calls[0]},
			{"Next step", f.Next},
			{"Calls", ""},
		}})
	}

	return s
}

// modelOf returns the section of result number n, from 1. old is the earlier one, or nil. parts have a colour each.
func modelOf(n int, r, old *measure.Result, l measure.Limits, parts []string) (section, error) {
	s := section{Title: r.Key(), Blocks: []block{{Items: r.Doubts()}}}

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
			Text: "The stack takes " + format.Thousands(float64(r.Stack)) + " bytes at worst:",
		})
	}
	if old != nil {
		s.Blocks = append(s.Blocks, changesOf(r.Compare(old, l))...)
	}

	s.Blocks = append(s.Blocks, block{Title: "Largest functions, constants and variables", Table: largest(r)})
	return s, nil
}

// changesOf shows what differs from an earlier result.
func changesOf(c measure.Comparison) (blocks []block) {
	t := &table{Head: []string{"change", "causes"}}

	for _, x := range c.Changes {
		var causes []string
		for _, cause := range x.Causes {
			causes = append(causes, cause.String())
		}
		t.add(x, strings.Join(causes, ", "))
	}

	if len(t.Rows) > 0 {
		blocks = append(blocks, block{Title: "Changes since the baseline", Table: t})
	}

	if c.Incomparable != "" {
		c.Notes = append(c.Notes, "the cost cannot be compared: "+c.Incomparable)
	}

	return append(blocks, block{Items: c.Notes})
}

// partsFigure shows flash and RAM by part, beside those of an earlier result. Each of parts has a colour.
func partsFigure(r, old *measure.Result, parts []string) figure {
	f := figure{
		ID: "parts", Title: "Flash and RAM by part", X: "bytes",
		Table: table{Head: []string{"", "part", "flash", "RAM"}},
	}
	type build struct {
		name, words string
		*measure.Result
	}

	builds := []build{{"", "Flash", r}}
	if old != nil {
		builds = append(builds, build{"before", "Before: flash", old})
	}
	for _, b := range builds {
		f.Words += fmt.Sprintf("%s %s bytes, RAM %s bytes. ", b.words, thousands(b.Flash), thousands(b.RAM))
		for _, p := range b.Parts {
			f.Table.add(b.name, p.Name, p.Flash, p.RAM)
		}
	}

	most := make([]float64, len(parts))

	for _, memory := range []string{"flash", "RAM"} {
		for _, b := range builds {
			bytes := make([]float64, len(parts))
			for _, p := range b.Parts {
				i, n := slices.Index(parts, p.Name), p.Flash
				if i < 0 {
					i = len(parts) - 1 // otherParts
				}
				if memory == "RAM" {
					n = p.RAM
				}
				bytes[i] += float64(n)
				most[i] = max(most[i], bytes[i])
			}
			f.addBar(strings.TrimSpace(memory+" "+b.name), bytes...)
		}
	}

	// A part of no bar needs no colour.
	for i, part := range parts {
		if most[i] > 0 {
			f.Legend = append(f.Legend, legend{i, part})
		}
	}

	return f
}

// thousands returns a number of bytes as text.
func thousands(n int64) string { return format.Thousands(float64(n)) }

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

	names = bySize(largest)
	if len(names) <= len(tones) {
		return names
	}
	return append(slices.Clone(names[:len(tones)-1]), otherParts)
}

// regionsFigure shows how much of each memory is used.
func regionsFigure(r *measure.Result) figure {
	f := figure{
		ID: "regions", Title: "Use of each memory", Legend: []legend{{0, "used"}, {5, "free"}}, X: "per cent",
		Table: table{Head: []string{"memory", "used, bytes", "of"}},
	}
	for _, g := range r.Regions {
		used := 0.0
		if g.Size > 0 {
			used = min(100, 100*float64(g.Used)/float64(g.Size))
		}
		// The sixth tone, a grey, is that of free memory.
		f.addBar(g.Name, used, 0, 0, 0, 0, 100-used)
		f.Table.add(g.Name, g.Used, g.Size)
		f.Words += fmt.Sprintf("%s: %.1f %% of %s bytes. ", g.Name, used, thousands(g.Size))
	}

	return f
}

// operatorsFigure shows the cost of each node of a graph.
func operatorsFigure(r *measure.Result) figure {
	most := 0.0
	for _, o := range r.Operators {
		most = max(most, o.Median)
	}

	scale, unit := axisOf(r.Cost.Unit, most)
	f := figure{
		ID: "operators", Title: "Cost by operator", Legend: []legend{{0, "median, " + unit}}, X: unit,
		Table: table{Head: []string{"operator", "cost"}},
	}

	for _, o := range r.Operators {
		cost := measure.Cost{Unit: r.Cost.Unit, Median: o.Median}
		f.addBar(o.Node, o.Median*scale)
		f.Table.add(o.Node, cost)
		f.Words += fmt.Sprintf("%s: %s. ", o.Node, cost)
	}

	return f
}

// axisOf returns the unit of an axis for costs up to the largest, and what their own unit has of it.
func axisOf(unit string, largest float64) (scale float64, name string) {
	if (measure.Cost{Unit: unit}).Counts() {
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
	bytes := map[string]int64{}
	for _, of := range []map[string]int64{r.FlashOf, r.RAMOf} {
		for name, n := range of {
			bytes[name] = max(bytes[name], n)
		}
	}

	names := bySize(bytes)
	for _, name := range names[:min(len(names), largestSymbols)] {
		t.add(name, r.FlashOf[name], r.RAMOf[name])
	}

	return t
}

// bySize returns names, that of the largest first.
func bySize(bytes map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(bytes), func(a, b string) int {
		return cmp.Or(cmp.Compare(bytes[b], bytes[a]), strings.Compare(a, b))
	})
}

// pareto shows flash against the cost, with the front of each model, of results whose costs have one unit: the unit
// that most of them have.
func pareto(results []*measure.Result) figure {
	f := figure{
		ID: "pareto", Title: "Flash against cost", Table: table{Head: []string{"of", "cost", "flash, bytes"}},
		Words: "Each dot is a result. A line joins those of a model than which no other one is both cheaper and smaller. ",
	}

	// Costs of different units have no common axis.
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
	f.X, f.Y = "cost, "+name, "flash, bytes"

	byModel := map[string][]dot{}
	for _, r := range byUnit[unit] {
		byModel[r.Model] = append(byModel[r.Model], dot{r.Cost.Median * scale, float64(r.Flash), r.Board})
		f.Table.add(r.Key(), r.Cost, r.Flash)
	}

	for i, model := range slices.Sorted(maps.Keys(byModel)) {
		f.addFront(i, short(model, 40), byModel[model])
	}

	return f
}
