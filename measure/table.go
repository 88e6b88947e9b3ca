// This file writes results as tables.

package measure

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// header names the columns of a table.
var header = []string{"board", "model", "firmware", "per inference", "flash", "RAM", "stack", "outputs"}

// Rows returns a table of results for people: a header and one row for each. If a baseline is given, a cell also has
// the earlier value where it differs.
func Rows(results []*Result, b *Baseline) [][]string {
	rows := [][]string{slices.Clone(header)}
	for _, r := range results {
		row := []string{r.Board, r.Model, r.App}
		if r.Failure != nil {
			rows = append(rows, append(row, r.Failure.Class, "", "", "", ""))
			continue
		}
		old := &Result{Flash: r.Flash, RAM: r.RAM, Stack: r.Stack, Cost: r.Cost}
		if b != nil && b.Find(r) != nil {
			old = b.Find(r)
		}
		cost := r.Cost.String()
		if c, differs := compareCost(old.Cost, r.Cost, 0); differs && old.Cost.Unit == r.Cost.Unit {
			cost = strings.TrimSuffix(old.Cost.String(), " "+Instructions) + " → " + cost + growth(c.Old, c.New)
		}
		rows = append(rows, append(row, cost, bytesCell(old.Flash, r.Flash), bytesCell(old.RAM, r.RAM),
			bytesCell(old.Stack, r.Stack), r.outputs()))
	}
	return rows
}

// WriteMarkdown writes Rows as a table of Markdown, and below it the reasons of failures and the limits that are
// exceeded.
func WriteMarkdown(w io.Writer, results []*Result, b *Baseline, l Limits) error {
	var text strings.Builder
	for i, row := range Rows(results, b) {
		for j, cell := range row {
			row[j] = markdownCell(cell)
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			text.WriteString("|---|---|---|--:|--:|--:|--:|---|\n")
		}
	}
	text.WriteString("\n")
	for _, r := range results {
		if r.Failure != nil {
			fmt.Fprintf(&text, "* %s: %s\n", markdownCell(r.Key()), markdownCell(r.Failure.Error))
			continue
		}
		if b == nil || b.Find(r) == nil {
			continue
		}
		changes, err := Compare(b.Find(r), r, l)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.Exceeds {
				fmt.Fprintf(&text, "* **%s: %v** %s\n", markdownCell(r.Key()), c, markdownCell(causeList(c)))
			}
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

// WriteCSV writes results as CSV, with numbers in the units of their fields in JSON.
func WriteCSV(w io.Writer, results []*Result) error {
	c := csv.NewWriter(w)
	rows := [][]string{{
		"board", "model", "app", "unit", "median", "low95", "high95", "samples", "flash", "ram", "stack", "compared", "equal",
		"joules", "failure",
	}}
	for _, r := range results {
		board, model := noFormula(r.Board), noFormula(r.Model)
		if r.Failure != nil {
			rows = append(rows, []string{board, model, r.App, "", "", "", "", "", "", "", "", "", "", "", r.Failure.Class})
			continue
		}
		compared, equal, joules, stack := "", "", "", ""
		if r.Stack > 0 {
			stack = strconv.FormatInt(r.Stack, 10)
		}
		if o := r.Outputs; o != nil && o.Compared() {
			compared, equal = strconv.Itoa(o.Samples), strconv.Itoa(o.Equal)
		}
		if r.Energy != nil {
			joules = number(r.Energy.Mean)
		}
		k := r.Cost
		rows = append(rows, []string{
			board, model, r.App, k.Unit, number(k.Median), number(k.Low), number(k.High), strconv.Itoa(k.Samples),
			strconv.FormatInt(r.Flash, 10), strconv.FormatInt(r.RAM, 10), stack, compared, equal,
			joules, "",
		})
	}
	return c.WriteAll(rows)
}

// noFormula returns a text that no spreadsheet takes for a formula.
func noFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

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
func bytesCell(old, current int64) string {
	if current == 0 {
		return ""
	}
	text := thousands(float64(current))
	if old != current && old != 0 {
		return thousands(float64(old)) + " → " + text + growth(float64(old), float64(current))
	}
	return text
}

func growth(old, current float64) string {
	if old <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%+.2f %%)", 100*(current/old-1))
}

// String returns the median with its unit, such as "225,330 instructions" or "3.59 ms".
func (c Cost) String() string {
	switch c.Unit {
	case Instructions:
		return thousands(c.Median) + " instructions"
	case DeviceSeconds:
		return engineering(c.Median) + "s by its own clock"
	}
	return engineering(c.Median) + "s"
}

// engineering returns seconds with four digits and the prefix of the unit.
func engineering(s float64) string {
	for _, u := range []struct {
		scale  float64
		prefix string
	}{{1, ""}, {1e-3, "m"}, {1e-6, "µ"}} {
		if math.Abs(s) >= u.scale {
			return fmt.Sprintf("%.4g %s", s/u.scale, u.prefix)
		}
	}
	return fmt.Sprintf("%.4g n", s*1e9)
}

// thousands writes a whole number with a comma between groups of three digits.
func thousands(v float64) string {
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
