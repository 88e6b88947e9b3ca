// This file writes results as tables.

package measure

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/format"
)

// A Table is what is shown of results, for people and for programs.
type Table struct {
	Results  []*Result
	Baseline *Baseline // with which the results are compared; nil: none
	Limits   Limits    // of the comparison
}

// Rows returns the table for people: a header and one row for each result. If there is a baseline, a cell also has the
// earlier value where it differs. A quantity that may be larger has "≥" before it. The columns of the cost, the energy
// and the outputs are left out if they would be empty.
func (t Table) Rows() [][]string {
	rows := [][]string{
		{"board", "model", "firmware", "per inference", "flash", "RAM", "stack", "energy", "outputs"},
	}
	for _, r := range t.Results {
		if r.Failure != nil {
			rows = append(rows, []string{r.Board, r.Model, r.App, r.Failure.Class, "", "", "", "", ""})
			continue
		}

		old, energy := cmp.Or(t.Baseline.Find(r), r), ""
		if r.Energy != nil {
			energy = format.Quantity(r.Energy.Mean, "J")
		}
		rows = append(rows, []string{
			r.Board, r.Model, r.App, costCell(old, r), bytesCell(old.Flash, r.Flash, nil),
			bytesCell(old.RAM, r.RAM, r.RAMUnsure), bytesCell(old.Stack, r.Stack, r.StackUnsure), energy, r.outputs(),
		})
	}

	// from the right: deleting a column moves those behind it
	for _, i := range []int{8, 7, 3} {
		if slices.ContainsFunc(rows[1:], func(row []string) bool { return row[i] != "" }) {
			continue
		}
		for j := range rows {
			rows[j] = slices.Delete(rows[j], i, i+1)
		}
	}
	return rows
}

// costCell returns the cost, and the earlier one if it differs.
func costCell(old, current *Result) string {
	text := current.Cost.String()
	if old.Computer != current.Computer || old.Cost.Unit != current.Cost.Unit {
		return text
	}
	if c, differs := compareCost(old.Cost, current.Cost, 0); differs {
		text = strings.TrimSuffix(old.Cost.String(), " "+inInstructions) + " → " + text + growth(c.Old, c.New)
	}
	return text
}

// WriteMarkdown writes Rows as a table of Markdown, and below it the reasons of failures and of doubts, the limits that
// are exceeded, and what differs of what determines the results.
func (t Table) WriteMarkdown(w io.Writer) error {
	var text strings.Builder
	rows := t.Rows()
	numbers := format.NumberColumns(rows)

	for i, row := range rows {
		under := "|"
		for j, cell := range row {
			row[j] = markdownCell(cell)
			under += map[bool]string{false: "---|", true: "--:|"}[numbers[j]]
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			text.WriteString(under + "\n")
		}
	}

	text.WriteString("\n")
	item := func(r *Result, format string, args ...any) {
		fmt.Fprintf(&text, "* %s: %s\n", markdownCell(r.Key()), markdownCell(fmt.Sprintf(format, args...)))
	}
	for _, r := range t.Results {
		if r.Failure != nil {
			item(r, "%s", r.Failure.Error)
			continue
		}
		for _, d := range r.Doubts() {
			item(r, "%s", d)
		}

		old := t.Baseline.Find(r)
		if old == nil {
			continue
		}
		c := r.Compare(old, t.Limits)
		for _, x := range c.Changes {
			if x.Exceeds {
				item(r, "**%v** %s", x, causeList(x))
			}
		}
		if c.Incomparable != "" {
			item(r, "**the cost cannot be compared: %s**", c.Incomparable)
		}
		for _, note := range c.Notes {
			item(r, "%s", note)
		}
	}

	_, err := io.WriteString(w, strings.TrimRight(text.String(), "\n")+"\n")
	return err
}

// markdownCell returns a text that stays in its cell.
func markdownCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(text), " "))
}

func causeList(c Change) string {
	var list []string
	for _, x := range c.Causes {
		list = append(list, x.String())
	}
	return strings.Join(list, ", ")
}

// String returns, for example, "operators +600".
func (c Cause) String() string { return fmt.Sprintf("%s %+.6g", c.Name, c.New-c.Old) }

// csvColumns are the columns of WriteCSV, in order.
var csvColumns = []string{
	"board", "model", "app", "unit", "median", "low95", "high95", "samples", "flash", "ram", "stack", "compared", "equal",
	"joules", "doubts", "failure",
}

// WriteCSV writes results as CSV, with numbers in the units of their fields in JSON. What is unknown is empty.
func (t Table) WriteCSV(w io.Writer) error {
	rows := [][]string{csvColumns}
	for _, r := range t.Results {
		rows = append(rows, r.csvRow())
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func (r *Result) csvRow() []string {
	var compared, equal, joules, failed string
	if o := r.Outputs; o != nil && o.Compared() {
		compared, equal = strconv.Itoa(o.Samples), strconv.Itoa(o.Equal)
	}
	if r.Energy != nil {
		joules = number(r.Energy.Mean)
	}
	if r.Failure != nil {
		failed = r.Failure.Class
	}

	c := r.Cost
	return []string{
		format.NoFormula(r.Board), format.NoFormula(r.Model), r.App, c.Unit, number(c.Median), number(c.Low),
		number(c.High), number(float64(c.Samples)), number(float64(r.Flash)), number(float64(r.RAM)),
		number(float64(r.Stack)), compared, equal, joules, format.NoFormula(strings.Join(r.Doubts(), "; ")), failed,
	}
}

// number writes a number; 0 is unknown.
func number(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// outputs returns how the outputs compare with the expected ones.
func (r *Result) outputs() string {
	switch o := r.Outputs; {
	case o == nil:
		return ""
	case o.Compared():
		return fmt.Sprintf("%d of %d (%s)", o.Equal, o.Samples, o.Rule)
	case o.Labelled():
		return fmt.Sprintf("%.4g %% right", 100*o.Accuracy())
	}
	return "not compared"
}

// bytesCell returns a number of bytes, and the earlier one if it differs. 0 is unknown.
func bytesCell(old, current int64, unsure []string) string {
	text := "unknown"
	switch {
	case old == 0 && current == 0:
		return ""
	case current > 0:
		text = thousands(current)
	}

	if len(unsure) > 0 {
		text = "≥ " + text
	}

	switch {
	case old == current:
		return text
	case old == 0:
		return "unknown → " + text
	case current == 0:
		return thousands(old) + " → " + text
	}
	return thousands(old) + " → " + text + growth(float64(old), float64(current))
}

func thousands(n int64) string { return format.Thousands(float64(n)) }

func growth(old, current float64) string {
	if old <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%+.2f %%)", 100*(current/old-1))
}

// String returns the median with its unit, such as "225,330 instructions" or "3.59 ms"; "" without a unit.
func (c Cost) String() string {
	switch c.Unit {
	case "":
		return ""
	case inInstructions:
		return c.Text(c.Median) + " instructions"
	case inDeviceSeconds:
		return c.Text(c.Median) + " by its own clock"
	}
	return c.Text(c.Median)
}

// Text returns a value of the cost: a time with its unit, or a number of instructions.
func (c Cost) Text(v float64) string {
	if c.Counts() {
		return format.Thousands(math.Round(v))
	}
	return format.Seconds(v)
}
