package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/valuetext"
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
	writeColumns(b, fastest(k, u, n))
	if more := len(k.Results) - n; more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
	b.WriteString("\n")
}

func writeReasons(b *strings.Builder, results []tune.Result) {
	t := &table{Head: []string{"kind", "class", "blame", "number", "first"}}
	failed := 0
	for _, r := range reasonsOf(results) {
		t.add(printable(r.kind), printable(string(r.class)), printable(string(r.blame)), strconv.Itoa(r.n), r.first)
		failed += r.n
	}
	if failed == 0 {
		return
	}
	fmt.Fprintf(b, "%d of %d have no time\n", failed, len(results))
	writeColumns(b, t)
}

func writeColumns(b *strings.Builder, t *table) {
	rows := append([][]string{t.Head}, t.Rows...)
	for _, line := range valuetext.Columns(rows, slices.Collect(maps.Keys(t.Numbers()))) {
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
}
