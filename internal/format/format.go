// Package format formats tensors, times, sizes, names and tables for display.
package format

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/ndarray"
)

// shownValues is the number of elements of an output that are printed.
const shownValues = 10

// First returns the array's first elements in one line.
func First(a *ndarray.Array) string {
	n := min(a.Len(), shownValues)
	words := make([]string, n)
	for i := range n {
		words[i] = a.Text(i)
	}
	if n < a.Len() {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// maxClasses limits the classes of a classifier; ImageNet has 1,000 or 1,001.
const maxClasses = 1024

// ArgMax returns the position of the first largest element if the array looks like one value per class: one axis of
// 2 to maxClasses elements, all others of length 1; false, too, if one is not a number.
func ArgMax(a *ndarray.Array) (int, bool) {
	long := 0
	for _, d := range a.Shape {
		if d > 1 {
			long++
		}
	}
	if n := a.Len(); long != 1 || n < 2 || n > maxClasses {
		return 0, false
	}
	best, ok := tolerance.ArgMax(a)
	return max(int(best), 0), ok
}

// Seconds formats a time.
func Seconds(s float64) string { return Quantity(s, "s") }

// Quantity formats a number of a unit, with the prefix from nano to none that gives it one to three digits before the
// point.
func Quantity(v float64, unit string) string {
	for _, u := range []struct {
		prefix string
		size   float64
	}{{"", 1}, {"m", 1e-3}, {"µ", 1e-6}} {
		if math.Abs(v) >= u.size {
			return fmt.Sprintf("%.4g %s%s", v/u.size, u.prefix, unit)
		}
	}
	return fmt.Sprintf("%.4g n%s", v*1e9, unit)
}

// ArchiveName returns the file name of a path without the endings of archives and of descriptions of models.
func ArchiveName(path string) string {
	name := filepath.Base(path)
	if abs, err := filepath.Abs(path); err == nil && strings.Trim(name, ".") == "" {
		name = filepath.Base(abs) // of . and ..
	}
	for _, end := range []string{".gz", ".tgz", ".tar", ".json"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// NoFormula puts an apostrophe before a text that a spreadsheet would evaluate. A message may come from a device.
func NoFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// Columns returns lines whose cells begin below each other, two spaces apart. Cells of the columns in right are aligned
// to the right.
func Columns(rows [][]string, right []int) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(right, i) {
				cell, pad = pad+cell, ""
			}
			line.WriteString(cell + pad + "  ")
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// Thousands writes a number with a comma between groups of three digits, and six digits of one that is not whole.
func Thousands(v float64) string {
	if v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// numeric matches the cells of a column of numbers, with their units, and words in place of a number.
var numeric = regexp.MustCompile(
	`^((≥ )?[+-]?[0-9][0-9.,…hmµns]*( (instructions|[nmµ]?[sJ]|%)( by its own clock)?)?( → .+)?|(≥ )?unknown.*|[a-z-]*)$`)

// NumberColumns returns the columns of a table with a header that hold numbers, and at least one.
func NumberColumns(rows [][]string) map[int]bool {
	columns := map[int]bool{}
	for i := range rows[0] {
		for _, row := range rows[1:] {
			if !numeric.MatchString(row[i]) {
				delete(columns, i)
				break
			}
			if strings.ContainsAny(row[i], "0123456789") {
				columns[i] = true
			}
		}
	}
	return columns
}

// Count returns a number of things, of which noun names one.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Bytes formats a size in bytes, and for large ones also in KiB or MiB.
func Bytes(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d B (%.1f KiB)", n, float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B (%.1f MiB)", n, float64(n)/(1<<20))
}

// Picture draws an 8×8 image of int8 as eight lines, darker for higher values.
func Picture(a *ndarray.Array) []string {
	const shades = " .:-=+*#%@"
	low, high := a.Int(0), a.Int(0)
	for i := range a.Len() {
		low, high = min(low, a.Int(i)), max(high, a.Int(i))
	}
	span := max(high-low, 1)
	lines := make([]string, 0, 8)
	for y := 0; y < a.Len(); y += 8 {
		var b strings.Builder
		for x := range 8 {
			c := shades[(a.Int(y+x)-low)*int64(len(shades)-1)/span]
			b.WriteByte(c)
			b.WriteByte(c) // a character is half as wide as it is high
		}
		lines = append(lines, b.String())
	}
	return lines
}

// Elements returns the first elements for JSON: numbers and booleans as such; NaN, infinities and vectors, which
// JSON lacks, as strings.
func Elements(a *ndarray.Array) []any {
	// The texts of other elements are their bytes in hexadecimal, of which some look like numbers.
	isNumber := a.DType.Lanes == 1 && a.DType.Size() <= 8 && a.DType.Code != ndarray.Handle

	var all []any
	for i := range min(a.Len(), shownValues) {
		if text := a.Text(i); isNumber && json.Valid([]byte(text)) {
			all = append(all, json.RawMessage(text))
		} else {
			all = append(all, text)
		}
	}
	return all
}
