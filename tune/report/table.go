package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/tune"
)

// WriteTable writes the n fastest results of each of the run's rankings (tune.Rank), all if n is 0 or less, and then
// the failures. A time is the median; the interval is that of the mean, with a confidence of 95 %; the speed-up is over
// the ranking's baseline. It is plain text in UTF-8 for people: names and messages are shortened, and characters that
// are not printable are dots. The layout may change: programs should read the output of WriteCSV.
func (x Run) WriteTable(w io.Writer, n int) error {
	var b strings.Builder
	if len(x.Results) == 0 {
		b.WriteString("no results\n")
	}

	for _, k := range tune.Rank(x.Results) {
		fmt.Fprintf(&b, "%s; speed-up over %s\n", printable(k.Conditions), short(k.Baseline.ID, 48))

		shown := len(k.Results)
		if n > 0 {
			shown = min(shown, n)
		}

		writeColumns(&b, fastest(k, unitOf([]member{{Ranking: k}}), shown))

		if more := len(k.Results) - shown; more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
		b.WriteString("\n")
	}

	t := &table{Head: reasonHead}
	t.addReasons(x.Results)
	if len(t.Rows) > 0 {
		failed := slices.DeleteFunc(slices.Clone(x.Results), func(r tune.Result) bool { return r.Failure == nil })
		fmt.Fprintf(&b, "%d of %d have no time\n", len(failed), len(x.Results))
		writeColumns(&b, t)
	}

	_, err := io.WriteString(w, b.String())
	return err
}

func writeColumns(b *strings.Builder, t *table) {
	rows := append([][]string{t.Head}, t.Rows...)
	for _, line := range format.Columns(rows, slices.Collect(maps.Keys(t.Numbers()))) {
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
}
