// This file shows the results of earlier tuning runs: in a report, or beside a new measurement.

package targets

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/report"
)

// defaultPage is OUTPUT's default.
const defaultPage = "report.html"

// report writes the runs in RUN as one HTML page, and with CSV as a table.
func (v *invocation) report(context.Context) error {
	if v.Env("RUN") == "" {
		return failure.New(failure.Config, "RUN=FOLDER names it, RUN=FOLDER,FOLDER compares two", "no tuning run is named")
	}
	var runs []report.Run
	var all []tune.Result
	for dir := range strings.SplitSeq(v.Env("RUN"), ",") {
		results, err := tune.ReadResults(dir)
		if err != nil {
			return err
		}
		runs = append(runs, report.Run{Name: filepath.ToSlash(filepath.Clean(dir)), Results: results})
		all = append(all, results...)
	}
	page, table := cmp.Or(v.Env("OUTPUT"), defaultPage), v.Env("CSV")
	if v.Env.On("DRYRUN") {
		return v.Would("write %s of %d results in %d runs", page, len(all), len(runs))
	}
	var html, csv bytes.Buffer
	if err := report.WriteHTML(&html, runs...); err != nil {
		return err
	}
	if err := v.writeReport("OUTPUT", page, &html); err != nil {
		return err
	}
	if table != "" {
		if err := report.WriteCSV(&csv, all); err != nil {
			return err
		}
		if err := v.writeReport("CSV", table, &csv); err != nil {
			return err
		}
	}
	v.JSONLine(fields{"status": "done", "output": page, "csv": table, "runs": len(runs), "candidates": len(all)})
	return nil
}

func (v *invocation) writeReport(variable, path string, content *bytes.Buffer) error {
	if err := atomicwriter.WriteFile(path, content.Bytes(), 0o644); err != nil {
		return failure.New(failure.Config, "choose a file that can be written", "%s: %w", variable, err)
	}
	v.Printf("wrote %s", path)
	return nil
}

// reproduce measures the candidate ID of the run RUN once more, and prints its result of then and of now.
func (v *invocation) reproduce(ctx context.Context) (err error) {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	dir, id := v.Env("RUN"), v.Env("ID")
	if dir == "" || id == "" {
		return failure.New(failure.Config, "RUN=FOLDER ID=CANDIDATE names both", "no candidate of a tuning run is named")
	}
	if v.Env.On("DRYRUN") {
		return v.Would("measure %s of %s again", id, dir)
	}
	if err := notOfNetwork(dir, id); err != nil {
		return err
	}
	desk := v.desk(in)
	defer func() { err = firstError(err, desk.Close()) }()
	bar := v.Start("reproduce", 0)
	defer bar.End()
	was, is, err := tune.Reproduce(ctx, dir, id, desk, in.Named, tune.Options{
		Builder: v.builder(in), CallTimeout: in.Timeout,
	})
	if err != nil {
		return err
	}
	bar.End()
	v.Printf("then: %s", outcome(was))
	v.Printf("now:  %s", outcome(is))
	v.JSONLine(fields{"status": "done", "id": id, "then": was, "now": is})
	return nil
}

// outcome is a result's time or failure as text.
func outcome(r tune.Result) string {
	if r.Failure != nil {
		return string(r.Failure.Class) + ": " + r.Failure.Message
	}
	return fmt.Sprintf("%v, median of %d samples, %s", time.Duration(r.Time.Median*float64(time.Second)), r.Time.N, r.Tier)
}
