// This file measures models on boards, and compares the results with a baseline.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/targets/internal/tuning"
	"github.com/boardsmith/boardsmith/tune/report"
)

// Measure prints what models cost on boards: time, flash, RAM, stack. It runs each model of MODEL on each board of
// BOARD, as standalone firmware by default, and compares the outputs with EXPECT: docs/measure.md. BASELINE is a file
// with earlier results, of which LIMITS says how much they may grow; UPDATE=1 writes it. OUTPUT is a page, CSV a table.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [standalone]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	INPUT        a set, one for all models, or one for each … [the examples of the model's description]
//	OUTPUT       a page, .html or .md [not written]
//	TRACE        file for a recording of the link: devices.md [not written]
//	REPEAT       number of time samples [10]
//	SEED         seed of random inputs: floats from -1 to 1, and integers [0]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints what would be done, without doing it
//	EXPECT       .npz with the outputs that are expected, for all models, or one for each [not compared]
//	LABELS       .npz or .npy with the class of each sample: release.md [those in INPUT, if there are any]
//	COMPARE      exact, top1, abs=0.001, rel=0.01, or both, separated by a comma [exact]
//	ACCURACY     how many per cent of the labels must be right [any]
//	BASELINE     a file with earlier results, with which the new ones are compared: measure.md [not compared]
//	LIMITS       how many per cent each quantity may grow [time=2%,flash=1%,ram=1%,stack=1%]
//	UPDATE=1     writes the results into BASELINE
//	STRICT=1     a result without an earlier one in BASELINE is an error, as that of a renamed model
//	CURRENT      a CSV of a current probe: measure.md [no energy]
//	PIN          the column of CURRENT that recorded the board's measure_pin
//	VOLTS        the supply voltage during CURRENT [its column voltage]
//	CSV          file for a table of all results [not written]
func Measure(ctx context.Context) error { return doMeasure(ctx) }

var doMeasure = sharedTarget("measure", measureAll)

// measureInputs are the variables of measure.
type measureInputs struct {
	inputs.OfProject
	inputs.OfCall
	inputs.OfInput
	inputs.OfSet
	inputs.Dry
	Repeat   int     `var:"REPEAT" range:"1 1000000" else:" is not a number of runs from 1 to 1000000"`
	Trace    string  `var:"TRACE" write:"recording"`
	Expect   string  `var:"EXPECT"`
	Output   string  `var:"OUTPUT" write:".html .md"`
	CSV      string  `var:"CSV" write:".csv"`
	Baseline string  `var:"BASELINE"`
	Limits   string  `var:"LIMITS"`
	Renew    bool    `var:"UPDATE"`
	Strict   bool    `var:"STRICT"`
	Current  string  `var:"CURRENT"`
	Pin      string  `var:"PIN"`
	Volts    float64 `var:"VOLTS" range:"1e-9 1e9" else:" is not a voltage"`
}

// A survey is a run of measure.
type survey struct {
	*job
	measureInputs
	shared           inputs.Variables // those of each job
	boards, models   []string         // "": that of boardsmith.json or the default
	inputs, expected []string         // by model; nil: none
	fallback         string           // the board without BOARD
	options          measure.Options
	energy           *measure.Energy // from CURRENT; nil: not recorded
	table            measure.Table
}

func measureAll(ctx context.Context, j *job, v measureInputs) error {
	c := j.Console
	s, err := readSurvey(ctx, j, v)
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.Would("measure %s on %s", format.Count(len(s.models), "model"),
			format.Count(len(s.boards), "board"))
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
	s.printTable(failed)
	exceeded := s.compare()
	if err := s.write(ctx); err != nil {
		return err
	}
	if err := cmp.Or(failed, exceeded); err != nil {
		return err
	}

	c.JSONLine(jsonlines.MeasureDone{Measured: len(s.table.Results), Output: v.Output, CSV: v.CSV, Baseline: v.Baseline})
	return nil
}

// readSurvey reads the inputs, before the work.
func readSurvey(ctx context.Context, j *job, v measureInputs) (s *survey, err error) {
	c := j.Console
	s = &survey{job: j, measureInputs: v}
	if err := c.Read(&s.shared); err != nil {
		return nil, err
	}
	if s.boards, err = boardNames(ctx, c, v.Board); err != nil {
		return nil, err
	}
	if err := s.readLists(); err != nil {
		return nil, err
	}
	if err := s.checkVariables(); err != nil {
		return nil, err
	}
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	if s.options, err = setOptions(v.OfSet); err != nil {
		return nil, err
	}
	if s.table.Limits, err = measure.ParseLimits(v.Limits); err != nil {
		return nil, fmt.Errorf("LIMITS: %w", err)
	}
	if v.Current != "" {
		if s.energy, err = readEnergy(c, v); err != nil {
			return nil, err
		}
	}
	return s, s.readBaseline()
}

// readLists reads the models, and the files of each. One file is for all models.
func (s *survey) readLists() error {
	config, err := boardsmithjson.Find(s.Dir)
	if err != nil {
		return err
	}
	chosen := config.Choice
	if s.Target != "" {
		target, err := config.Target(s.Target)
		if err != nil {
			return err
		}
		chosen.Model, chosen.Input = cmp.Or(target.Model, chosen.Model), cmp.Or(target.Input, chosen.Input)
		chosen.Board = cmp.Or(target.Board, chosen.Board)
	}
	s.fallback = cmp.Or(chosen.Board, inputs.DefaultBoard)
	// list returns the items of a variable, or of a list in boardsmith.json; one file there is the job's to read
	list := func(text, fallback string) []string {
		if text == "" && strings.Contains(fallback, ",") {
			text = fallback
		}
		return strings.Split(text, ",")
	}
	s.models = list(s.Model, chosen.Model)
	if err := cmp.Or(checkList("BOARD", s.boards, strings.Clone),
		checkList("MODEL", s.models, inputs.ArchiveName)); err != nil {
		return err
	}
	for _, x := range []struct {
		name, text, fallback string
		to                   *[]string
	}{{"INPUT", s.Input, chosen.Input, &s.inputs}, {"EXPECT", s.Expect, "", &s.expected}} {
		*x.to = list(x.text, x.fallback)
		if len(*x.to) > 1 && slices.Contains(*x.to, "") {
			return failure.New(failure.Config, "separate them by single commas", "%s has an empty name", x.name)
		}
		if len(*x.to) == 1 {
			*x.to = slices.Repeat(*x.to, len(s.models))
		}
		if len(*x.to) != len(s.models) {
			return failure.New(failure.Config, "name one for all, or one for each model, in the order of MODEL",
				"%s=%s has %s for %s", x.name, cmp.Or(x.text, x.fallback), format.Count(len(*x.to), "file"),
				format.Count(len(s.models), "model"))
		}
	}
	return nil
}

// checkVariables returns an error for variables that have no effect, or are for one of several.
func (s *survey) checkVariables() error {
	if len(s.boards)*len(s.models) > 1 {
		for _, name := range []string{"PROJECT", "DEVICE", "CURRENT", "LABELS", "TRACE"} {
			if text := s.Env(name); text != "" {
				return failure.New(failure.Config, "leave it out, or measure one model on one board",
					"%s=%s is for one of several", name, text)
			}
		}
	}
	for _, name := range []string{"PIN", "VOLTS"} {
		if text := s.Env(name); text != "" && s.Current == "" {
			return failure.New(failure.Config, "CURRENT=FILE names the recording", "%s=%s has no effect without CURRENT", name,
				text)
		}
	}
	return nil
}

// checkFiles returns an error that names all files that are not there.
func (s *survey) checkFiles() error {
	var missing []string
	check := func(variable, path string) {
		if path == "" {
			return
		}
		if _, err := os.Stat(s.Abs(path)); err != nil {
			text := fmt.Sprintf("%s: %v", variable, err)
			if !slices.Contains(missing, text) {
				missing = append(missing, text)
			}
		}
	}
	for i, model := range s.models {
		if len(s.models) > 1 { // of one, opening it has better advice
			check("MODEL", model)
		}
		input, _, _ := inputs.SplitNames(s.inputs[i]) // an error is that of the run
		check("INPUT", input)
		check("EXPECT", s.expected[i])
	}
	for _, name := range []string{"LABELS", "CURRENT"} {
		check(name, s.Env(name))
	}
	if len(missing) == 0 {
		return nil
	}
	return failure.New(failure.Config, "name files that can be read", "%s", strings.Join(missing, "; "))
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
	if s.Baseline == "" {
		if s.Renew {
			return failure.New(failure.Config, "BASELINE=FILE names it", "UPDATE=1 without a baseline")
		}
		for _, name := range []string{"LIMITS", "STRICT"} {
			if text := s.Env(name); text != "" {
				s.Notef("note: %s=%s has no effect without BASELINE", name, text)
			}
		}
		return nil
	}
	if s.Renew {
		if err := console.CheckFile("BASELINE", s.Baseline); err != nil {
			return err
		}
	}
	s.table.Baseline, err = measure.ReadBaseline(s.Baseline)
	if errors.Is(err, fs.ErrNotExist) {
		if s.Renew {
			s.table.Baseline = &measure.Baseline{}
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
	j, v := s.job, s.shared
	v.Board, v.Model, v.Input, v.Expect = board, s.models[model], s.inputs[model], s.expected[model]
	err := j.open(ctx, boards.Standalone, v)
	var r *measure.Result
	if err == nil {
		bar := j.Start("measure: "+inputs.ArchiveName(j.in.Model)+" on "+j.in.BoardName(), 0)
		r, err = s.measureModel(ctx)
		bar.End()
		err = errors.Join(err, j.close())
	}
	line := jsonlines.Measure{}
	if err != nil {
		r = &measure.Result{Board: cmp.Or(board, s.fallback), Model: inputs.ArchiveName(s.models[model])}
		r.Failure = failureOf(j.Console, err)
		if j.in != nil {
			r.Board, r.Model, r.App = j.in.BoardName(), inputs.ArchiveName(j.in.Model), j.in.Options.App
		}
		err = fmt.Errorf("%s on %s: %w", r.Model, r.Board, err)
		line.Status = jsonlines.StatusFailed
	} else if err = r.Err(); err != nil {
		err = fmt.Errorf("%s on %s: %w", r.Model, r.Board, err)
		line.Status = jsonlines.StatusWrong
	}
	line.Result = r
	j.JSONLine(line)
	s.table.Results = append(s.table.Results, r)
	return err
}

// failureOf describes an error, and where the device stopped if it did.
func failureOf(c *console.Console, err error) *measure.Failure {
	f := &measure.Failure{Class: string(failure.Of(err)), Error: err.Error(), Next: c.NextStep(err)}
	if e := new(fault.Error); errors.As(err, &e) {
		f.Cause, f.Operator = e.Record.Cause(), e.Operator
		for _, frame := range e.Frames {
			f.Calls = append(f.Calls, frame.String())
		}
	}
	return f
}

// measureModel measures the model of the inputs on their board.
func (s *survey) measureModel(ctx context.Context) (*measure.Result, error) {
	j := s.job
	if j.in.Library {
		return nil, noFirmware()
	}
	if err := j.ready(ctx); err != nil {
		return nil, err
	}
	if s.energy != nil && j.project.Options().App != boards.Standalone {
		return nil, failure.New(failure.Config, "measure with APP=standalone",
			"CURRENT: with an RPC server, the board's pin is not high for each run alone")
	}
	if j.in.Programmer != boards.NoProgrammer {
		if err := needKeeper(ctx, j.Console, j.project.Board()); err != nil {
			return nil, err
		}
	}
	o := s.options
	o.Seed, o.Device, o.Desk = s.Seed, j.in.Device, j.desk()
	if o.ForBaseline = s.Renew; !o.ForBaseline {
		o.Baseline, o.Limits = s.table.Baseline, s.table.Limits
	}
	_, m, err := j.project.Model()
	if err != nil {
		return nil, err
	}
	if o.Set, _, err = chosenSet(ctx, j, m, j.project.ArchiveDigest()); err != nil { // nil: random inputs
		return nil, err
	}
	if err := checkCompared(j, o.Set); err != nil {
		return nil, err
	}
	o.Timeout, o.Samples = j.in.Timeout, s.Repeat
	r, err := measure.Project(ctx, j.project, o)
	if err == nil {
		r.Energy = s.energy
	}
	return r, err
}

// readEnergy reads CURRENT.
func readEnergy(c *console.Console, v measureInputs) (*measure.Energy, error) {
	f, err := regularfile.Open(c.Abs(v.Current))
	if err != nil {
		return nil, failure.New(failure.Config, "name a file that can be read", "CURRENT: %w", err)
	}
	defer f.Close()
	e, err := measure.ReadEnergy(f, v.Pin, v.Volts)
	if err != nil {
		return nil, fmt.Errorf("CURRENT=%s: %w", v.Current, err)
	}
	return e, nil
}

// printTable prints all results, the doubts, and the failures but for the one that the target ends with.
func (s *survey) printTable(failed error) {
	rows := s.table.Rows()
	s.Table(rows, slices.Collect(maps.Keys(format.NumberColumns(rows))))
	for _, r := range s.table.Results {
		if r.Failure != nil {
			if text := fmt.Sprintf("%s on %s: %s", r.Model, r.Board, r.Failure.Error); text != failed.Error() {
				s.Notef("%s", text)
			}
		}
		for _, d := range r.Doubts() {
			s.Notef("note: %s: %s", r.Key(), d)
		}
		if r.Energy != nil {
			s.Printf("energy of an inference, %s: mean %.4g J, min %.4g J, max %.4g J", format.Count(r.Energy.Runs, "run"),
				r.Energy.Mean, r.Energy.Min, r.Energy.Max)
		}
	}
}

// A grownError is the first limit that is exceeded.
type grownError struct {
	error
	quantities []string // that are above their limits, of all results
}

func (e *grownError) Unwrap() error { return e.error }

// Exceeds returns the quantities for the JSON line of the failure.
func (e *grownError) Exceeds() []string { return e.quantities }

// compare prints what differs from the baseline. Its error is that of the first limit that is exceeded or, with
// STRICT=1, of a result without an earlier one; with UPDATE=1, which writes the baseline, it is nil.
func (s *survey) compare() error {
	if s.table.Baseline == nil {
		return nil
	}
	var exceeded, missing error
	var quantities []string
	for _, r := range s.table.Results {
		if r.Failure != nil {
			continue
		}
		old := s.table.Baseline.Find(r)
		if old == nil {
			if !s.Renew {
				s.Notef("note: %s is not in %s", r.Key(), s.Baseline)
			}
			missing = cmp.Or(missing, failure.New(failure.Config, "UPDATE=1 writes it; without STRICT=1 it is noted only",
				"STRICT=1: %s is not in %s", r.Key(), s.Baseline))
			continue
		}

		c := r.Compare(old, s.table.Limits)
		exceeded = cmp.Or(exceeded, c.Err(r))
		for _, change := range c.Changes {
			if change.Exceeds && !slices.Contains(quantities, change.Quantity) {
				quantities = append(quantities, change.Quantity)
			}
			s.Printf("%s: %v", r.Key(), change)
			for _, x := range change.Causes {
				s.Printf("  %v", x)
			}
			s.JSONLine(jsonlines.Changed{Board: r.Board, Model: r.Model, Change: change})
		}
		for _, note := range c.Notes {
			s.Notef("note: %s: %s", r.Key(), note)
			s.JSONLine(jsonlines.Changed{Board: r.Board, Model: r.Model, Note: note})
		}
	}

	if s.Renew {
		return nil
	}
	s.noteUnmeasured()
	switch {
	case exceeded != nil:
		return &grownError{exceeded, quantities}
	case s.Strict:
		return missing
	}
	return nil
}

// noteUnmeasured names the results of the baseline that have none now.
func (s *survey) noteUnmeasured() {
	var keys []string
	for _, old := range s.table.Baseline.Results {
		if !slices.ContainsFunc(s.table.Results, func(r *measure.Result) bool { return r.Key() == old.Key() }) {
			keys = append(keys, old.Key())
		}
	}
	if len(keys) > 0 {
		s.Notef("note: %s has results that were not measured: %s", s.Baseline, strings.Join(keys, "; "))
	}
}

// write writes the files that the user named, the baseline last: the others compare with the earlier one.
func (s *survey) write(ctx context.Context) error {
	for _, x := range []struct {
		variable, path string
		to             func(io.Writer) error
	}{
		{"OUTPUT", s.Output, s.writePage},
		{"CSV", s.CSV, s.table.WriteCSV},
	} {
		if x.path == "" {
			continue
		}
		if err := tuning.WriteFile(s.Console, x.variable, x.path, x.to); err != nil {
			return err
		}
	}
	if s.Renew {
		return s.update(ctx)
	}
	return nil
}

// update writes the results without those that failed into the baseline, if there are any.
func (s *survey) update(ctx context.Context) error {
	var kept []*measure.Result
	for _, r := range s.table.Results {
		if r.Failure == nil && r.Err() == nil {
			kept = append(kept, r)
			continue
		}
		s.Notef("note: %s: not written to %s, because it failed", r.Key(), s.Baseline)
	}
	if len(kept) == 0 {
		return nil
	}
	if err := measure.UpdateBaseline(ctx, s.Baseline, kept); err != nil {
		return fmt.Errorf("BASELINE: %w", err)
	}
	s.Printf("wrote %s", s.Baseline)
	return nil
}

// writePage writes OUTPUT, in the form of its ending.
func (s *survey) writePage(w io.Writer) error {
	if filepath.Ext(s.Output) == ".md" {
		return s.table.WriteMarkdown(w)
	}
	return report.Measurements{Table: s.table}.WriteHTML(w)
}
