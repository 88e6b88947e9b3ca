// This file writes reports of tuning runs.

package targets

import (
	"bytes"
	"cmp"
	"context"
	"path/filepath"
	"strings"

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
