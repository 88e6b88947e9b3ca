// This file shows the results of earlier runs, in a report or beside a new measurement.

package tuning

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
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/report"
)

// defaultPage is OUTPUT's default.
const defaultPage = "report.html"

// Report writes the runs in RUN as one HTML page, and with CSV as a table.
func Report(c *console.Console) error {
	if c.Env("RUN") == "" && c.Env("BASELINE") != "" {
		return reportBaseline(c)
	}
	if c.Env("RUN") == "" {
		return failure.New(failure.Config, "RUN=FOLDER names it, RUN=FOLDER,FOLDER compares two; BASELINE=FILE names "+
			"measurements", "no tuning run is named")
	}
	var runs []report.Run
	var all []tune.Result
	for dir := range strings.SplitSeq(c.Env("RUN"), ",") {
		results, err := tune.ReadResults(dir)
		if err != nil {
			return err
		}
		runs = append(runs, report.Run{Name: filepath.ToSlash(filepath.Clean(dir)), Results: results})
		all = append(all, results...)
	}
	page, table := cmp.Or(c.Env("OUTPUT"), defaultPage), c.Env("CSV")
	if c.Env.On("DRYRUN") {
		return c.Would("write %s of %d results in %d runs", page, len(all), len(runs))
	}
	var html, csv bytes.Buffer
	if err := report.WriteHTML(&html, runs...); err != nil {
		return err
	}
	if err := writeReport(c, "OUTPUT", page, &html); err != nil {
		return err
	}
	if table != "" {
		if err := report.WriteCSV(&csv, all); err != nil {
			return err
		}
		if err := writeReport(c, "CSV", table, &csv); err != nil {
			return err
		}
	}
	c.JSONLine(jsonlines.Report{Output: page, CSV: table, Runs: len(runs), Candidates: len(all)})
	return nil
}

// reportBaseline writes the measurements in BASELINE as one HTML page, and with CSV as a table.
func reportBaseline(c *console.Console) error {
	b, err := measure.ReadBaseline(c.Env("BASELINE"))
	if err != nil {
		return fmt.Errorf("BASELINE: %w", err)
	}
	page, table := cmp.Or(c.Env("OUTPUT"), defaultPage), c.Env("CSV")
	if c.Env.On("DRYRUN") {
		return c.Would("write %s of %d measurements", page, len(b.Results))
	}
	var html, csv bytes.Buffer
	if err := report.WriteMeasurements(&html, b.Results, nil, measure.Limits{}); err != nil {
		return err
	}
	if err := writeReport(c, "OUTPUT", page, &html); err != nil {
		return err
	}
	if table != "" {
		if err := measure.WriteCSV(&csv, b.Results); err != nil {
			return err
		}
		if err := writeReport(c, "CSV", table, &csv); err != nil {
			return err
		}
	}
	c.JSONLine(jsonlines.Report{Output: page, CSV: table, Candidates: len(b.Results)})
	return nil
}

func writeReport(c *console.Console, variable, path string, content *bytes.Buffer) error {
	if err := atomicwriter.WriteFile(path, content.Bytes(), 0o644); err != nil {
		return failure.New(failure.Config, "choose a file that can be written", "%s: %w", variable, err)
	}
	c.Printf("wrote %s", path)
	return nil
}

// Reproduce measures the candidate ID of the run RUN once more, and prints the old and the new result.
func (t *Job) Reproduce(ctx context.Context) (err error) {
	dir, id := t.Env("RUN"), t.Env("ID")
	if dir == "" || id == "" {
		return failure.New(failure.Config, "RUN=FOLDER ID=CANDIDATE names both", "no candidate of a tuning run is named")
	}
	if t.Env.On("DRYRUN") {
		return t.Would("measure %s of %s again", id, dir)
	}
	if err := checkOperators(dir, id); err != nil {
		return err
	}
	bar := t.Start("reproduce", 0)
	defer bar.End()
	before, after, err := tune.Reproduce(ctx, dir, id, t.Desk, t.In.NamedBoard, tune.Options{
		Builder: t.Builder, CallTimeout: t.In.Timeout,
	})
	if err != nil {
		return err
	}
	bar.End()
	t.Printf("then: %s", outcome(before))
	t.Printf("now:  %s", outcome(after))
	t.JSONLine(jsonlines.Reproduced{ID: id, Recorded: before, Measured: after})
	return nil
}

// outcome returns a result's time or failure as text.
func outcome(r tune.Result) string {
	if r.Failure != nil {
		return string(r.Failure.Class) + ": " + r.Failure.Message
	}
	return fmt.Sprintf("%v, median of %d samples, %s", time.Duration(r.Time.Median*float64(time.Second)), r.Time.N, r.Tier)
}
