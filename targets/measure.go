// This file measures models on boards, and compares the results with a baseline.

package targets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/tune/report"
	"github.com/boardsmith/boardsmith/validate"
)

// Measure runs each model of MODEL on each board of BOARD, as standalone firmware by default, and prints time or
// instructions, flash, RAM, stack, and how many outputs are as EXPECT has them: docs/measure.md. BASELINE is a file
// with earlier results, of which LIMITS says how much they may grow; UPDATE=1 writes it. OUTPUT is a page, CSV a table.
//
// Variables:
//
//	BOARD        a board's name (mage boards lists them), FAMILY/NAME for any board of a family, or the … [host]
//	MODEL        a Model Library Format archive, .tar or .tar.gz … [the bundled sample, digits_i8.aot_packed]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md
//	OPTIONS      name=value, separated by spaces [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory region of a part of the … [the board's own]
//	LIBRARIES    names, folders or places in git repositories of libraries, separated by … [those of the project]
//	TEMPLATE     a template's name or path, or a place in a git repository … [the board's own]
//	PROJECT      the project's folder [build/<board>/<archive name>, with …]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json, its probe's serial … [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	INPUT        a set, also a folder; one for each model, separated … [for the bundled sample its own input …]
//	OUTPUT       a page, .html or .md [not written]
//	REPEAT       number of time samples [10]
//	SEED         seed of random inputs, and of tune's proposer with SPACE [0]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	DRYRUN=1     generate, build, flash, erase, run, call, validate, measure, release, tune, report, reproduce …
//	EXPECT       .npz with the outputs that are expected, also of tune with CANDIDATES or MODEL … [not compared]
//	LABELS       .npz or .npy with the class of each sample: release.md [those in INPUT, if there are any]
//	COMPARE      exact, top1, abs=0.001, rel=0.01, or both, separated by a comma [exact]
//	ACCURACY     how many per cent of the labels must be right [any]
//	BASELINE     a file with earlier results, with which the new ones are compared: measure.md [not compared]
//	LIMITS       how many per cent each quantity may grow: time=2%,flash=1%,ram=1%,stack=1% [as shown]
//	UPDATE=1     writes the results into BASELINE
//	CURRENT      a CSV of a current probe: measure.md [no energy]
//	PIN          the column of CURRENT that recorded the board's measure_pin
//	VOLTS        the supply voltage during CURRENT [its column voltage]
//	CSV          file for a table of all results [not written]
func Measure(ctx context.Context) error { return do(ctx, "measure", measureAll) }

// A survey is a run of measure.
type survey struct {
	*console.Console
	boards, models            []string // "": that of boardsmith.json or the default
	inputs, expected          []string // by model; nil: none
	options                   validate.Options
	baseline                  *measure.Baseline // nil: none
	limits                    measure.Limits
	results                   []*measure.Result
	baselineFile, output, csv string
}

func measureAll(ctx context.Context, c *console.Console) error {
	s, err := readSurvey(c)
	if err != nil {
		return err
	}
	if c.Env.On("DRYRUN") {
		return c.Would("measure %d models on %d boards", len(s.models), len(s.boards))
	}
	var failed error // the first one
	for _, board := range s.boards {
		for i := range s.models {
			err := s.measure(ctx, board, i)
			if ctx.Err() != nil {
				return failure.Stopped(ctx, "measure: %w", err)
			}
			if failed == nil {
				failed = err
			}
		}
	}
	s.printTable()
	exceeded := s.compare()
	if err := s.write(); err != nil {
		return err
	}
	if failed == nil {
		failed = exceeded
	}
	c.JSONLine(jsonlines.MeasureDone{Measured: len(s.results), Output: s.output, CSV: s.csv, Baseline: s.baselineFile})
	return failed
}

// readSurvey reads the inputs, before the work.
func readSurvey(c *console.Console) (s *survey, err error) {
	list := func(name string) []string { return strings.Split(c.Env(name), ",") }
	s = &survey{
		Console: c, boards: list("BOARD"), models: list("MODEL"), inputs: list("INPUT"), expected: list("EXPECT"),
		baselineFile: c.Env("BASELINE"), output: c.Env("OUTPUT"), csv: c.Env("CSV"),
	}
	for _, list := range []struct {
		name  string
		items []string
		key   func(string) string
	}{{"BOARD", s.boards, strings.TrimSpace}, {"MODEL", s.models, inputs.ArchiveName}} {
		if err := checkList(list.name, list.items, list.key); err != nil {
			return nil, err
		}
	}
	if len(s.boards)*len(s.models) > 1 {
		for _, name := range []string{"PROJECT", "DEVICE", "CURRENT", "LABELS"} {
			if text := c.Env(name); text != "" {
				return nil, failure.New(failure.Config, "leave it out, or measure one model on one board",
					"%s=%s is for one of several", name, text)
			}
		}
	}
	for _, name := range []string{"IMAGE", "FIXED_INPUT"} {
		if text := c.Env(name); text != "" {
			return nil, failure.New(failure.Config, "leave it out", "%s=%s has no effect on a measurement", name, text)
		}
	}
	for _, x := range []struct {
		name string
		list *[]string
	}{{"INPUT", &s.inputs}, {"EXPECT", &s.expected}} {
		switch text := c.Env(x.name); {
		case text == "":
			*x.list = make([]string, len(s.models))
		case len(*x.list) != len(s.models):
			return nil, failure.New(failure.Config, "name one for each model, in the order of MODEL", "%s=%s has %d files for "+
				"%d models", x.name, text, len(*x.list), len(s.models))
		}
	}
	if s.options, err = validateOptions(c); err != nil {
		return nil, err
	}
	if s.limits, err = measure.ParseLimits(c.Env("LIMITS")); err != nil {
		return nil, fmt.Errorf("LIMITS: %w", err)
	}
	if s.output != "" && !slices.Contains([]string{".html", ".md"}, filepath.Ext(s.output)) {
		return nil, failure.Errorf(failure.Config, "OUTPUT=%s: a page of a measurement ends in .html or .md", s.output)
	}
	return s, s.readBaseline()
}

// checkList returns an error for an empty item of several, and for two with one key, which results would share.
func checkList(name string, items []string, key func(string) string) error {
	seen := map[string]string{}
	for _, item := range items {
		if len(items) > 1 && strings.TrimSpace(item) == "" {
			return failure.New(failure.Config, "separate them by single commas", "%s has an empty name", name)
		}
		k := key(item)
		if other, ok := seen[k]; ok {
			return failure.New(failure.Config, "leave one out, or rename it: results are told apart by this name",
				"%s: %s and %s are both %s", name, other, item, k)
		}
		seen[k] = item
	}
	return nil
}

// readBaseline reads BASELINE, which UPDATE=1 need not find.
func (s *survey) readBaseline() (err error) {
	if s.baselineFile == "" {
		if s.Env.On("UPDATE") {
			return failure.New(failure.Config, "BASELINE=FILE names it", "UPDATE=1 without a baseline")
		}
		return nil
	}
	s.baseline, err = measure.ReadBaseline(s.baselineFile)
	if errors.Is(err, fs.ErrNotExist) {
		if s.Env.On("UPDATE") {
			s.baseline = &measure.Baseline{}
			return nil
		}
		return failure.New(failure.Config, "UPDATE=1 writes it", "BASELINE: %w", err)
	}
	if err != nil {
		return fmt.Errorf("BASELINE: %w", err)
	}
	return nil
}

// measure measures a model on a board. A failure is a result, too; the error is that of the failure, or of wrong
// outputs.
func (s *survey) measure(ctx context.Context, board string, model int) error {
	c := s.Console
	outer := c.Env
	chosen := map[string]string{
		"BOARD": board, "MODEL": s.models[model], "INPUT": s.inputs[model], "EXPECT": s.expected[model], "OUTPUT": "",
	}
	c.Env = func(name string) string {
		if value, ok := chosen[name]; ok {
			return value
		}
		return outer(name)
	}
	defer func() { c.Env = outer }()
	j, err := openJob(ctx, c, boards.Standalone)
	var r *measure.Result
	if err == nil {
		bar := c.Start("measure: "+inputs.ArchiveName(j.in.Model.Value)+" on "+j.in.BoardName(), 0)
		r, err = s.measureJob(ctx, j)
		bar.End()
		err = errors.Join(err, j.close())
	}
	line := jsonlines.Measure{}
	if err != nil {
		r = &measure.Result{Board: board, Model: inputs.ArchiveName(s.models[model])}
		r.Failure = measure.FailureOf(err, c.NextStep(err))
		if j != nil && j.in != nil {
			r.Board, r.Model, r.App = j.in.BoardName(), inputs.ArchiveName(j.in.Model.Value), j.in.Options.App
		}
		err = fmt.Errorf("%s on %s: %w", r.Model, r.Board, err)
		line.Status = jsonlines.StatusFailed
	} else if err = r.Err(); err != nil {
		err = fmt.Errorf("%s on %s: %w", r.Model, r.Board, err)
		line.Status = jsonlines.StatusWrong
	}
	line.Result = r
	c.JSONLine(line)
	s.results = append(s.results, r)
	return err
}

// measureJob measures the model of the inputs on their board.
func (s *survey) measureJob(ctx context.Context, j *job) (*measure.Result, error) {
	if j.in.Library {
		return nil, noFirmware()
	}
	if err := j.ready(ctx); err != nil {
		return nil, err
	}
	if j.Env("PROGRAMMER") != boards.NoProgrammer {
		if err := needKeeper(ctx, j.Console, j.project.Board()); err != nil {
			return nil, err
		}
	}
	seed, err := inputs.Seed(j.Env)
	if err != nil {
		return nil, err
	}
	o := measure.Options{
		Options: s.options, Seed: seed, Device: j.in.Device, Desk: j.desk(),
		Files: validate.Files{Inputs: j.in.Input, Expected: j.Env("EXPECT"), Labels: j.Env("LABELS"), Names: j.in.Names},
	}
	o.Timeout = j.in.Timeout
	if j.Env("REPEAT") != "" {
		o.Samples = j.in.Repeat
	}
	noFiles := o.Files.Inputs == "" && o.Files.Expected == "" && o.Files.Labels == ""
	if noFiles && j.project.ArchiveDigest() == samples.Digest() {
		_, m, err := j.project.Model()
		if err != nil {
			return nil, err
		}
		if o.Set, err = bundledSet(m); err != nil {
			return nil, err
		}
	}
	r, err := measure.Project(ctx, j.project, o)
	if err == nil && j.Env("CURRENT") != "" {
		r.Energy, err = readEnergy(j)
	}
	return r, err
}

// readEnergy reads CURRENT.
func readEnergy(j *job) (*measure.Energy, error) {
	if j.project.Options().App != boards.Standalone {
		return nil, failure.New(failure.Config, "measure with APP=standalone",
			"CURRENT: with an RPC server, the board's pin is not high for each run alone")
	}
	p := measure.Probe{Pin: j.Env("PIN")}
	if text := j.Env("VOLTS"); text != "" {
		var err error
		if p.Volts, err = strconv.ParseFloat(text, 64); err != nil || !(p.Volts > 0) {
			return nil, failure.Errorf(failure.Config, "VOLTS=%s is not a voltage", text)
		}
	}
	f, err := os.Open(j.Env("CURRENT"))
	if err != nil {
		return nil, failure.New(failure.Config, "name a file that can be read", "CURRENT: %w", err)
	}
	defer f.Close()
	e, err := measure.ReadEnergy(f, p)
	if err != nil {
		return nil, fmt.Errorf("CURRENT=%s: %w", j.Env("CURRENT"), err)
	}
	return e, nil
}

// printTable prints all results, and the failures.
func (s *survey) printTable() {
	rows := measure.Rows(s.results, s.baseline)
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if i >= 3 && i < 7 { // numbers
				cell, pad = pad+cell, ""
			}
			line.WriteString(cell + pad + "  ")
		}
		s.Printf("%s", strings.TrimRight(line.String(), " "))
	}
	for _, r := range s.results {
		if r.Failure != nil {
			s.Notef("%s on %s: %s", r.Model, r.Board, r.Failure.Error)
		}
		if r.Energy != nil {
			s.Printf("energy of an inference, %d runs: mean %.4g J, min %.4g J, max %.4g J", r.Energy.Runs, r.Energy.Mean,
				r.Energy.Min, r.Energy.Max)
		}
	}
}

// compare prints what differs from the baseline. Its error is that of the first limit that is exceeded; with UPDATE=1,
// which writes the baseline, it is nil.
func (s *survey) compare() (exceeded error) {
	if s.baseline == nil {
		return nil
	}
	for _, r := range s.results {
		if r.Failure != nil {
			continue
		}
		old := s.baseline.Find(r)
		if old == nil {
			if !s.Env.On("UPDATE") {
				s.Notef("note: %s is not in %s", r.Key(), s.baselineFile)
			}
			continue
		}
		changes, err := measure.Compare(old, r, s.limits)
		if err == nil {
			err = measure.Check(r, changes)
		}
		if exceeded == nil {
			exceeded = err
		}
		for _, c := range changes {
			s.Printf("%s: %v", r.Key(), c)
			for _, x := range c.Causes {
				s.Printf("  %v", x)
			}
			s.JSONLine(jsonlines.Changed{Board: r.Board, Model: r.Model, Change: c})
		}
		if old.Toolchain != r.Toolchain && len(changes) > 0 {
			s.Notef("note: %s: the compiler, its flags or libraries differ: %s, not %s", r.Key(), r.Toolchain, old.Toolchain)
		}
	}
	if s.Env.On("UPDATE") {
		return nil
	}
	return exceeded
}

// write writes the files that the user named, the baseline last: the others compare with the earlier one.
func (s *survey) write() error {
	for _, x := range []struct {
		variable, path string
		to             func(io.Writer) error
	}{
		{"OUTPUT", s.output, s.writePage},
		{"CSV", s.csv, func(w io.Writer) error { return measure.WriteCSV(w, s.results) }},
	} {
		if x.path == "" {
			continue
		}
		var content bytes.Buffer
		if err := x.to(&content); err != nil {
			return err
		}
		if err := atomicwriter.WriteFile(x.path, content.Bytes(), 0o644); err != nil {
			return failure.New(failure.Config, "choose a file that can be written", "%s: %w", x.variable, err)
		}
		s.Printf("wrote %s", x.path)
	}
	if s.Env.On("UPDATE") {
		s.baseline.Update(s.results)
		if err := s.baseline.Write(s.baselineFile); err != nil {
			return fmt.Errorf("BASELINE: %w", err)
		}
		s.Printf("wrote %s", s.baselineFile)
	}
	return nil
}

// writePage writes OUTPUT, in the form of its ending.
func (s *survey) writePage(w io.Writer) error {
	if filepath.Ext(s.output) == ".md" {
		return measure.WriteMarkdown(w, s.results, s.baseline, s.limits)
	}
	return report.WriteMeasurements(w, s.results, s.baseline, s.limits)
}
