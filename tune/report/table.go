package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/tune"
)

// WriteTable writes the n fastest results of each ranking of tune.Rank, all if n is 0 or less, and then the
// failures. A time is the median; the interval is that of the mean, with a confidence of 95 %; the speed-up is over the
// ranking's baseline. It is plain text in UTF-8 for people: names and messages are shortened, and characters that
// are not printable are dots. The layout may change: programs should read the output of WriteCSV.
func WriteTable(w io.Writer, results []tune.Result, n int) error {
	var b strings.Builder
	if len(results) == 0 {
		b.WriteString("no results\n")
	}
	for _, k := range tune.Rank(results) {
		writeRanking(&b, k, n)
	}
	writeReasons(&b, results)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeRanking(b *strings.Builder, k tune.Ranking, n int) {
	u := unitOf(k)
	if n <= 0 {
		n = len(k.Results)
	}
	fmt.Fprintf(b, "%s; speed-up over %s\n", printable(k.Conditions), short(k.Baseline.ID, 48))
	lines := [][]string{{"", "id", "time " + u.name, "mean 95 %", "speed-up", "board", "bytes", "notes"}}
	for _, r := range rowsOf(k, u, n) {
		lines = append(lines, []string{strconv.Itoa(r.Rank), r.ID, r.Time, r.Interval, r.SpeedUp, r.Board, r.Bytes, r.Notes})
	}
	align(b, lines, []int{0, 2, 3, 4, 6})
	if more := len(k.Results) - n; more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
	b.WriteString("\n")
}

func writeReasons(b *strings.Builder, results []tune.Result) {
	lines := [][]string{{"kind", "class", "blame", "number", "first"}}
	failed := 0
	for _, r := range reasonsOf(results) {
		lines = append(lines, []string{
			printable(r.kind), printable(string(r.class)), printable(string(r.blame)), strconv.Itoa(r.n), r.first,
		})
		failed += r.n
	}
	if failed == 0 {
		return
	}
	fmt.Fprintf(b, "%d of %d have no time\n", failed, len(results))
	align(b, lines, []int{3})
}

// align writes lines in columns. Columns whose number is in right are aligned to the right.
func align(b *strings.Builder, lines [][]string, right []int) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(right, i) {
				text.WriteString("  " + pad + cell)
			} else {
				text.WriteString("  " + cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}
