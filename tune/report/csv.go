package report

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/valuetext"
	"github.com/boardsmith/boardsmith/tune"
)

// columns are the columns of WriteCSV, in order.
var columns = []string{
	"id", "kind", "board", "image", "tier", "same", "median_s", "mean_s", "min_s", "max_s", "stddev_s", "low95_s",
	"high95_s", "samples_s", "cut", "class", "blame", "retry", "message", "base", "bytes", "build_s", "wait_s", "load_s",
	"run_s", "finished", "platform", "made",
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// WriteCSV writes a header, and a line for each result in the order given (RFC 4180, lines end with a newline alone).
// Times are in seconds; samples are separated by spaces; missing fields are empty. Texts are exact, but a message that
// begins like a formula of a spreadsheet has an apostrophe before it. Results of several kinds and platforms may be in
// one file: only times with equal kind, tier, platform and made may be compared.
func WriteCSV(w io.Writer, results []tune.Result) error {
	rows := [][]string{columns}
	for _, r := range results {
		rows = append(rows, csvRow(r))
	}
	return csv.NewWriter(w).WriteAll(rows)
}

func csvRow(r tune.Result) []string {
	times, failed := make([]string, 7), make([]string, 4)
	if t := r.Time; t != nil {
		for i, v := range []float64{t.Median, t.Mean, t.Min, t.Max, t.StdDev, t.Low, t.High} {
			if i < 5 || t.N > 1 { // one sample has no interval
				times[i] = number(v)
			}
		}
	}
	if f := r.Failure; f != nil {
		failed = []string{
			string(f.Class), string(f.Blame), strconv.FormatBool(f.Retry), valuetext.NoFormula(f.Message),
		}
	}
	var samples []string
	for _, s := range r.Samples {
		samples = append(samples, number(s))
	}
	return slices.Concat(
		[]string{r.ID, r.Kind, r.Board, r.Image, string(r.Tier), r.SameAs}, times,
		[]string{strings.Join(samples, " "), strconv.FormatBool(r.Cut)}, failed,
		[]string{
			strconv.FormatUint(r.Base, 10), strconv.Itoa(r.Bytes), number(r.Build.Seconds()), number(r.Wait.Seconds()),
			number(r.Load.Seconds()), number(r.Run.Seconds()), r.Finished.UTC().Format(time.RFC3339Nano),
			r.Platform.String(), r.Toolchain,
		},
	)
}
