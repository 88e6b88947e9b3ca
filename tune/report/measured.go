// This file makes the page of measurements.

package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/measure"
)

//go:embed measured.html
var measuredText string

var measuredTemplate = template.Must(template.Must(pageTemplate.Clone()).New("measured").Parse(measuredText))

// Measurements are results of package measure, and what a page shows beside them.
type Measurements struct {
	Title    string // "": "Measurements"
	Results  []*measure.Result
	Baseline *measure.Baseline   // with which the results are compared; nil: none
	Limits   measure.Limits      // of the comparison
	Wear     []device.DeviceWear // of devices; their names are those of the ledger
}

type measuredPage struct {
	Title    string
	Tones    []tone
	Baseline bool
	Results  table
	Pareto   *figure // nil: no result has a cost
	Models   []measuredModel
	Wear     []heatMap
	Failed   table
	Faults   []explainedFault
}

// An explainedFault is where a device stopped.
type explainedFault struct {
	Of, Cause, Operator, Location, Next string
	Calls                               string // as measuredModel.Stack
}

type measuredModel struct {
	Name       string
	Figures    []figure
	Stack      string // one call a line, each deeper than the one before
	StackBytes int64
	Doubts     []string
	Changes    table
	Notes      []string
	Largest    table
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
	p := measuredPage{
		Title: cmp.Or(printable(x.Title), "Measurements"), Tones: tones, Baseline: x.Baseline != nil,
		Results: table{Head: rows[0], Rows: rows[1:]},
		Failed:  table{Head: []string{"of", "class", "error", "next step"}},
	}
	var costs []*measure.Result
	for _, r := range x.Results {
		if f := r.Failure; f != nil {
			p.Failed.add(printable(r.Key()), f.Class, printable(f.Error), printable(f.Next))
			if len(f.Calls) > 0 {
				p.Faults = append(p.Faults, explain(r.Key(), f))
			}
			continue
		}
		if r.Cost.Unit != "" {
			costs = append(costs, r)
		}
		var old *measure.Result
		if x.Baseline != nil {
			old = x.Baseline.Find(r)
		}
		m, err := modelOf(len(p.Models)+1, r, old, x.Limits)
		if err != nil {
			return err
		}
		p.Models = append(p.Models, m)
	}
	if len(costs) > 0 {
		f, err := pareto(costs)
		if err != nil {
			return err
		}
		p.Pareto = &f
	}
	for i, d := range x.Wear {
		p.Wear = append(p.Wear, heatMapOf(i+1, d))
	}
	return measuredTemplate.Execute(w, p)
}

// explain returns where a device stopped, the outermost call first.
func explain(of string, f *measure.Failure) explainedFault {
	calls := slices.Clone(f.Calls)
	slices.Reverse(calls)
	return explainedFault{
		Of: printable(of), Cause: printable(f.Cause), Operator: printable(cmp.Or(f.Operator, "unknown")),
		Location: printable(f.Calls[0]), Next: printable(f.Next), Calls: stackTree(calls),
	}
}

// modelOf returns the section of result number n, from 1. old is the earlier one, or nil.
func modelOf(n int, r, old *measure.Result, l measure.Limits) (m measuredModel, err error) {
	m = measuredModel{Name: printable(r.Key()), StackBytes: r.Stack, Stack: stackTree(r.StackPath), Largest: largest(r)}
	for _, d := range r.Doubts() {
		m.Doubts = append(m.Doubts, printable(d))
	}
	draws := []func() (figure, error){func() (figure, error) { return partsFigure(r, old) }}
	if len(r.Regions) > 0 {
		draws = append(draws, func() (figure, error) { return regionsFigure(r) })
	}
	if len(r.Operators) > 0 {
		draws = append(draws, func() (figure, error) { return operatorsFigure(r) })
	}
	for _, draw := range draws {
		f, err := draw()
		if err != nil {
			return m, fmt.Errorf("chart %s of %s: %w", f.ID, r.Key(), err)
		}
		f.ID = fmt.Sprintf("%s-%d", f.ID, n)
		m.Figures = append(m.Figures, f)
	}
	if old == nil {
		return m, nil
	}
	c := measure.Compare(old, r, l)
	m.Changes.Head = []string{"change", "causes"}
	for _, x := range c.Changes {
		var causes []string
		for _, cause := range x.Causes {
			causes = append(causes, printable(cause.String()))
		}
		m.Changes.add(x.String(), strings.Join(causes, ", "))
	}
	if c.Incomparable != "" {
		c.Notes = append(c.Notes, "the cost cannot be compared: "+c.Incomparable)
	}
	for _, note := range c.Notes {
		m.Notes = append(m.Notes, printable(note))
	}
	return m, nil
}

// partsFigure shows flash and RAM by part, beside those of an earlier result.
func partsFigure(r, old *measure.Result) (figure, error) {
	f := figure{
		ID: "parts", Title: "Flash and RAM by part", Table: table{Head: []string{"", "part", "flash", "RAM"}},
		Words: fmt.Sprintf("Flash %d bytes, RAM %d bytes. ", r.Flash, r.RAM),
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
		f.Words += fmt.Sprintf("Before: flash %d bytes, RAM %d bytes. ", old.Flash, old.RAM)
	}
	var all []measure.Part
	for _, b := range builds {
		all = append(all, b.Parts...)
	}
	parts := largestParts(all)
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
		f.Legend = append(f.Legend, legend{Tone: i, Name: printable(part)})
	}
	for _, b := range builds {
		for _, p := range b.Parts {
			f.Table.add(b.name, printable(p.Name), strconv.FormatInt(p.Flash, 10), strconv.FormatInt(p.RAM, 10))
		}
	}
	return f.bars("bytes", names, values)
}

// otherParts stands for the parts that have no colour of their own.
const otherParts = "all other parts"

// largestParts returns the names of parts, or if there are more than colours those of the largest and otherParts.
func largestParts(all []measure.Part) (names []string) {
	bytes := map[string]int64{}
	for _, p := range all {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
		bytes[p.Name] = max(bytes[p.Name], p.Flash+p.RAM)
	}
	if len(names) <= len(tones) {
		return names
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(bytes[b], bytes[a]) })
	return append(slices.Clone(names[:len(tones)-1]), otherParts)
}

// regionsFigure shows how much of each memory is used.
func regionsFigure(r *measure.Result) (figure, error) {
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
		f.Table.add(printable(g.Name), strconv.FormatInt(g.Used, 10), strconv.FormatInt(g.Size, 10))
		f.Words += fmt.Sprintf("%s: %.1f %% of %d bytes. ", printable(g.Name), used, g.Size)
	}
	return f.bars("per cent", names, values)
}

// operatorsFigure shows the cost of each node of a graph.
func operatorsFigure(r *measure.Result) (figure, error) {
	f := figure{
		ID: "operators", Title: "Cost by operator", Legend: []legend{{0, "median, " + r.Cost.Unit}},
		Table: table{Head: []string{"operator", r.Cost.Unit}},
	}
	var names []string
	var values []float64
	for _, o := range r.Operators {
		names, values = append(names, printable(o.Node)), append(values, o.Median)
		f.Table.add(printable(o.Node), strconv.FormatFloat(o.Median, 'g', 5, 64))
		f.Words += fmt.Sprintf("%s: %.4g. ", printable(o.Node), o.Median)
	}
	return f.bars(r.Cost.Unit, names, [][]float64{values})
}

// stackTree returns the deepest calls, each a step further in than its caller.
func stackTree(path []string) string {
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
func largest(r *measure.Result) table {
	t := table{Head: []string{"of", "flash", "RAM"}}
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
		t.add(printable(name), strconv.FormatInt(r.FlashOf[name], 10), strconv.FormatInt(r.RAMOf[name], 10))
	}
	return t
}

// pareto shows flash against the cost, with the front of each model, of results whose costs have one unit: the unit
// that most of them have.
func pareto(results []*measure.Result) (figure, error) {
	f := figure{ID: "pareto", Title: "Flash against cost", Table: table{Head: []string{"of", "cost", "flash, bytes"}}}
	byUnit := map[string][]*measure.Result{}
	unit := ""
	for _, r := range results {
		byUnit[r.Cost.Unit] = append(byUnit[r.Cost.Unit], r)
		if unit == "" || len(byUnit[r.Cost.Unit]) > len(byUnit[unit]) {
			unit = r.Cost.Unit
		}
	}
	if len(byUnit[unit]) < 2 {
		f.Words = "There are fewer than two results in one unit."
		return f, nil
	}
	byModel := map[string][]dot{}
	for _, r := range byUnit[unit] {
		byModel[r.Model] = append(byModel[r.Model], dot{r.Cost.Median, float64(r.Flash), printable(r.Board)})
		f.Table.add(printable(r.Key()), r.Cost.String(), strconv.FormatInt(r.Flash, 10))
	}
	f.Words = "Each dot is a result. A line joins those of a model than which no other one is both cheaper and smaller. "
	var all []cloud
	for i, model := range slices.Sorted(maps.Keys(byModel)) {
		f.Legend = append(f.Legend, legend{Tone: i % len(tones), Name: short(model, 40)})
		all = append(all, cloud{i, byModel[model]})
		f.Words += fmt.Sprintf("%s: %s. ", short(model, 40), namesOf(front(byModel[model])))
	}
	var err error
	f.SVG, err = drawFronts("cost, "+unit, "flash, bytes", all)
	return f, err
}
