// This file writes results as CSV.

package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

// columns are those of WriteCSV, in order.
var columns = []struct {
	name string
	of   func(r *tune.Result) string
}{
	{"id", func(r *tune.Result) string { return r.ID }},
	{"kind", func(r *tune.Result) string { return r.Kind }},
	{"board", func(r *tune.Result) string { return r.Board }},
	{"image", func(r *tune.Result) string { return r.Image }},
	{"tier", func(r *tune.Result) string { return string(r.Tier) }},
	{"same", func(r *tune.Result) string { return r.Same }},
	{"median_s", ofTime(func(t *rpc.Stats) float64 { return t.Median })},
	{"mean_s", ofTime(func(t *rpc.Stats) float64 { return t.Mean })},
	{"min_s", ofTime(func(t *rpc.Stats) float64 { return t.Min })},
	{"max_s", ofTime(func(t *rpc.Stats) float64 { return t.Max })},
	{"stddev_s", ofTime(func(t *rpc.Stats) float64 { return t.StdDev })},
	{"low95_s", ofTime(func(t *rpc.Stats) float64 { return t.Low })},
	{"high95_s", ofTime(func(t *rpc.Stats) float64 { return t.High })},
	{"samples_s", func(r *tune.Result) string {
		var all []string
		for _, s := range r.Samples {
			all = append(all, number(s))
		}
		return strings.Join(all, " ")
	}},
	{"cut", func(r *tune.Result) string { return strconv.FormatBool(r.Cut) }},
	{"class", ofFailure(func(f *tune.Failure) string { return string(f.Class) })},
	{"blame", ofFailure(func(f *tune.Failure) string { return string(f.Blame) })},
	{"retry", ofFailure(func(f *tune.Failure) string { return strconv.FormatBool(f.Retry) })},
	{"message", ofFailure(func(f *tune.Failure) string { return noFormula(f.Message) })},
	{"base", func(r *tune.Result) string { return strconv.FormatUint(r.Base, 10) }},
	{"bytes", func(r *tune.Result) string { return strconv.Itoa(r.Bytes) }},
	{"build_s", func(r *tune.Result) string { return number(r.Build.Seconds()) }},
	{"wait_s", func(r *tune.Result) string { return number(r.Wait.Seconds()) }},
	{"load_s", func(r *tune.Result) string { return number(r.Load.Seconds()) }},
	{"run_s", func(r *tune.Result) string { return number(r.Run.Seconds()) }},
	{"finished", func(r *tune.Result) string { return r.Finished.UTC().Format(time.RFC3339Nano) }},
	{"platform", func(r *tune.Result) string { return r.Platform.String() }},
	{"made", func(r *tune.Result) string { return r.Made }},
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func ofTime(of func(*rpc.Stats) float64) func(*tune.Result) string {
	return func(r *tune.Result) string {
		if r.Time == nil {
			return ""
		}
		return number(of(r.Time))
	}
}

func ofFailure(of func(*tune.Failure) string) func(*tune.Result) string {
	return func(r *tune.Result) string {
		if r.Failure == nil {
			return ""
		}
		return of(r.Failure)
	}
}

// noFormula puts an apostrophe before a text that a spreadsheet would compute. A message may be a device's own text.
func noFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// WriteCSV writes a line for each result, in the order given, after one with the names of the columns (RFC 4180, lines
// end with a newline alone). Times are in seconds; samples are divided by spaces; what a result does not have is empty.
// Texts are exact, but a message that begins like a spreadsheet's formula has an apostrophe before it. Results of
// several kinds and platforms may be in one file: their columns say which times may be compared.
func WriteCSV(w io.Writer, results []tune.Result) error {
	out := csv.NewWriter(w)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for _, r := range results {
		for i, c := range columns {
			line[i] = c.of(&r)
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
