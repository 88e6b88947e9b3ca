package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/tune"
)

// columns are the columns of Run.WriteCSV, in order.
var columns = []string{
	"id", "kind", "board", "image", "tier", "same_as", "median_s", "mean_s", "min_s", "max_s", "stddev_s", "low95_s",
	"high95_s", "samples_s", "cut", "class", "blame", "retry", "message", "base", "bytes", "build_s", "wait_s", "load_s",
	"run_s", "finished", "platform", "toolchain",
}

// WriteCSV writes a header, and a line for each result in their order (RFC 4180, lines end with a newline alone).
// Times are in seconds; samples are separated by spaces; missing fields are empty. Texts are exact, but a message that
// begins like a formula of a spreadsheet has an apostrophe before it. Results of several kinds and platforms may be in
// one file: only times with equal kind, tier, platform and made may be compared.
func (x Run) WriteCSV(w io.Writer) error {
	rows := [][]string{columns}
	for _, r := range x.Results {
		rows = append(rows, csvRow(r))
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func csvRow(r tune.Result) (row []string) {
	// As many empty cells as fields, so that the columns behind them keep their places.
	times, failed := slices.Repeat([]any{""}, 7), slices.Repeat([]any{""}, 4)
	if t := r.Time; t != nil {
		times = []any{t.Median, t.Mean, t.Min, t.Max, t.StdDev, t.Low, t.High}
		if t.N < 2 { // one sample has no interval
			times[5], times[6] = "", ""
		}
	}

	if f := r.Failure; f != nil {
		failed = []any{f.Class, f.Blame, f.Retry, format.NoFormula(f.Message)}
	}

	for _, cell := range slices.Concat(
		[]any{r.ID, r.Kind, r.Board, r.Image, r.Tier, r.SameAs}, times,
		[]any{strings.Trim(fmt.Sprint(r.Samples), "[]"), r.Cut}, failed,
		[]any{
			r.Base, r.Bytes, r.Build.Seconds(), r.Wait.Seconds(), r.Load.Seconds(), r.Run.Seconds(),
			r.Finished.UTC().Format(time.RFC3339Nano), r.Platform.String(), r.Toolchain,
		},
	) {
		row = append(row, fmt.Sprint(cell))
	}

	return row
}
