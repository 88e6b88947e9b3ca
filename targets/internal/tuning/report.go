// This file shows the results of earlier runs, in a report or beside a new measurement.

package tuning

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/report"
)

// ReportInputs are the variables of report for all pages.
type ReportInputs struct {
	Run    string `var:"RUN"`
	Output string `var:"OUTPUT" write:".html .htm" default:"report.html"`
	CSV    string `var:"CSV" write:".csv"`
}

// Report writes the runs in RUN as one HTML page, and with CSV as a table. The page shows the wear of those devices
// that are of a kind of board in the runs.
func Report(c *console.Console, v ReportInputs, wear []device.DeviceWear) error {
	var runs []report.Run
	var all []tune.Result
	var folders []fs.FileInfo
	for dir := range strings.SplitSeq(v.Run, ",") {
		results, err := tune.ReadResults(dir)
		if err != nil {
			return err
		}
		info, err := os.Stat(dir)
		if err != nil {
			return failure.New(failure.Config, "choose the folder of a run", "RUN: %w", err)
		}
		// Two names may lead to one folder, whose results would count twice.
		if slices.ContainsFunc(folders, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			return failure.New(failure.Config, "name each run once", "RUN=%s names %s twice", v.Run, dir)
		}

		folders = append(folders, info)
		runs = append(runs, report.Run{Name: filepath.ToSlash(filepath.Clean(dir)), Results: results})
		all = append(all, results...)
	}

	wear = slices.DeleteFunc(wear, func(d device.DeviceWear) bool {
		return !slices.ContainsFunc(all, func(r tune.Result) bool { return r.Kind == d.Board })
	})
	runs[0].Wear = wear

	p := Pages{Console: c, ReportInputs: v}
	p.Describe = "of " + format.Count(len(all), "result") + " in " + format.Count(len(runs), "run")
	p.Line = jsonlines.Report{Runs: len(runs), Candidates: len(all)}

	return p.Write(func(w io.Writer) error { return report.WriteHTML(w, runs...) },
		report.Run{Results: all}.WriteCSV)
}

// Pages are the files of report: OUTPUT, and with CSV a table.
type Pages struct {
	*console.Console
	ReportInputs
	Describe string           // the content, behind the name of the page
	Line     jsonlines.Report // without the names of the files
}

// Write writes the files.
func (p Pages) Write(page, table func(io.Writer) error) error {
	p.Line.Output, p.Line.CSV = p.Output, p.CSV

	if p.DryRun {
		return p.Would("write %s %s", p.Line.Output, p.Describe)
	}

	for _, x := range []struct {
		variable, path string
		to             func(io.Writer) error
	}{{"OUTPUT", p.Line.Output, page}, {"CSV", p.Line.CSV, table}} {
		if x.path == "" {
			continue
		}
		if err := WriteFile(p.Console, x.variable, x.path, x.to); err != nil {
			return err
		}
	}

	p.JSONLine(p.Line)
	return nil
}

// WriteFile writes a file that the user named by a variable.
func WriteFile(c *console.Console, variable, path string, to func(io.Writer) error) error {
	// Into memory first: a page that cannot be made does not replace an earlier one.
	var content bytes.Buffer
	if err := to(&content); err != nil {
		return err
	}

	if err := regularfile.Write(path, content.Bytes(), 0o644); err != nil {
		return failure.New(failure.Config, "choose a file that can be written", "%s: %w", variable, err)
	}

	c.Printf("wrote %s", path)
	return nil
}

// ReproduceInputs are the variables of reproduce.
type ReproduceInputs struct {
	inputs.OnBoard
	inputs.OfCall
	inputs.Dry
	Run string `var:"RUN"`
	ID  string `var:"ID"`
}

// Reproduce measures the candidate ID of the run RUN once more, and prints the old and the new result.
func (t *Job) Reproduce(ctx context.Context, v ReproduceInputs) (err error) {
	dir, id := v.Run, v.ID
	if dir == "" || id == "" {
		return failure.New(failure.Config, "RUN=FOLDER ID=CANDIDATE names both", "no candidate of a tuning run is named")
	}

	if t.DryRun {
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

	// The bar must be gone before the lines are printed.
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
	return fmt.Sprintf("%s, median of %s, %s", cost(r), format.Count(r.Time.N, "sample"), r.Tier)
}
