package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/valuetext"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

// columns are the columns of WriteCSV, in order.
var columns = []struct {
	name string
	text func(r *tune.Result) string
}{
	{"id", func(r *tune.Result) string { return r.ID }},
	{"kind", func(r *tune.Result) string { return r.Kind }},
	{"board", func(r *tune.Result) string { return r.Board }},
	{"image", func(r *tune.Result) string { return r.Image }},
	{"tier", func(r *tune.Result) string { return string(r.Tier) }},
	{"same", func(r *tune.Result) string { return r.SameAs }},
	{"median_s", timeColumn(func(t *rpc.Stats) float64 { return t.Median })},
	{"mean_s", timeColumn(func(t *rpc.Stats) float64 { return t.Mean })},
	{"min_s", timeColumn(func(t *rpc.Stats) float64 { return t.Min })},
	{"max_s", timeColumn(func(t *rpc.Stats) float64 { return t.Max })},
	{"stddev_s", timeColumn(func(t *rpc.Stats) float64 { return t.StdDev })},
	{"low95_s", intervalColumn(func(t *rpc.Stats) float64 { return t.Low })},
	{"high95_s", intervalColumn(func(t *rpc.Stats) float64 { return t.High })},
	{"samples_s", func(r *tune.Result) string {
		var all []string
		for _, s := range r.Samples {
			all = append(all, number(s))
		}
		return strings.Join(all, " ")
	}},
	{"cut", func(r *tune.Result) string { return strconv.FormatBool(r.Cut) }},
	{"class", failureColumn(func(f *tune.Failure) string { return string(f.Class) })},
	{"blame", failureColumn(func(f *tune.Failure) string { return string(f.Blame) })},
	{"retry", failureColumn(func(f *tune.Failure) string { return strconv.FormatBool(f.Retry) })},
	{"message", failureColumn(func(f *tune.Failure) string { return valuetext.NoFormula(f.Message) })},
	{"base", func(r *tune.Result) string { return strconv.FormatUint(r.Base, 10) }},
	{"bytes", func(r *tune.Result) string { return strconv.Itoa(r.Bytes) }},
	{"build_s", func(r *tune.Result) string { return number(r.Build.Seconds()) }},
	{"wait_s", func(r *tune.Result) string { return number(r.Wait.Seconds()) }},
	{"load_s", func(r *tune.Result) string { return number(r.Load.Seconds()) }},
	{"run_s", func(r *tune.Result) string { return number(r.Run.Seconds()) }},
	{"finished", func(r *tune.Result) string { return r.Finished.UTC().Format(time.RFC3339Nano) }},
	{"platform", func(r *tune.Result) string { return r.Platform.String() }},
	{"made", func(r *tune.Result) string { return r.Toolchain }},
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func timeColumn(value func(*rpc.Stats) float64) func(*tune.Result) string {
	return func(r *tune.Result) string {
		if r.Time == nil {
			return ""
		}
		return number(value(r.Time))
	}
}

// intervalColumn is timeColumn for what one sample has not.
func intervalColumn(value func(*rpc.Stats) float64) func(*tune.Result) string {
	of := timeColumn(value)
	return func(r *tune.Result) string {
		if r.Time != nil && r.Time.N < 2 {
			return ""
		}
		return of(r)
	}
}

func failureColumn(text func(*tune.Failure) string) func(*tune.Result) string {
	return func(r *tune.Result) string {
		if r.Failure == nil {
			return ""
		}
		return text(r.Failure)
	}
}

// WriteCSV writes a header, and a line for each result in the order given (RFC 4180, lines end with a newline alone).
// Times are in seconds; samples are separated by spaces; missing fields are empty. Texts are exact, but a message that
// begins like a formula of a spreadsheet has an apostrophe before it. Results of several kinds and platforms may be in
// one file: only times with equal kind, tier, platform and made may be compared.
func WriteCSV(w io.Writer, results []tune.Result) error {
	rows := make([][]string, 1+len(results))
	for _, c := range columns {
		rows[0] = append(rows[0], c.name)
		for i := range results {
			rows[1+i] = append(rows[1+i], c.text(&results[i]))
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}
