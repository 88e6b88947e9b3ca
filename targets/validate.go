// This file runs a set of inputs on a board and prints how the outputs compare with the expected ones.

package targets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Validate runs the test set INPUT on the board, and compares outputs with EXPECT. LABELS are the right classes; the
// firmware is standalone by default: docs/release.md. COMPARE says how equal they must be, ACCURACY how many labels
// must be right; OUTPUT is a report as JSON.
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
//	IMAGE        an earlier firmware, by the beginning of its build id or SHA-256 [the project's build]
//	LOAD         ram loads the model into RAM, beside firmware that stays [flash: with the firmware]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	INPUT        a set of samples, .npz, .npy or a folder [the examples of the model's description]
//	OUTPUT       the report as JSON [not written]
//	TRACE        file for a recording of the link: devices.md [not written]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints what would be done, without doing it
//	EXPECT       .npz with the outputs that are expected [not compared]
//	LABELS       .npz or .npy with the class of each sample: release.md [those in INPUT, if there are any]
//	COMPARE      exact, top1, abs=0.001, rel=0.01, or both, separated by a comma [exact]
//	ACCURACY     how many per cent of the labels must be right [any]
func Validate(ctx context.Context) error { return doValidate(ctx) }

var doValidate = jobTarget("validate", boards.Standalone, validateModel)

// validateInputs are the variables of validate.
type validateInputs struct {
	inputs.OfProject
	inputs.OfCall
	inputs.OfSet
	inputs.Dry
	Image  string `var:"IMAGE"`
	Load   string `var:"LOAD"`
	Input  string `var:"INPUT"`
	Expect string `var:"EXPECT"`
	Output string `var:"OUTPUT" write:".json"`
	Trace  string `var:"TRACE" write:"recording"`
}

func validateModel(ctx context.Context, j *job, v validateInputs) (err error) {
	options, err := setOptions(v.OfSet)
	if err != nil {
		return err
	}
	options.Timeout = j.in.CallTimeout()
	set, from, err := validationSet(ctx, j) // an error must come before the build
	if err != nil {
		return err
	}
	if j.DryRun {
		return j.would(ctx, "validate %s on board %s", j.in.Project, j.in.Board)
	}
	load, err := prepare(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	if err := takesInputs(j); err != nil {
		return err
	}

	// Of another image than the project's, the sizes are unknown.
	i := load.image
	if load.resident != nil || j.chosen {
		i = nil
	}
	r, err := measure.Build(ctx, j.project, i)
	if err != nil {
		return err
	}

	failed := withLoad(ctx, j, load, func(c *connection) error {
		bar := j.Start("validate", set.Len())
		defer bar.End()
		options.Progress = func(int, int) { bar.Add(1) }
		return r.Run(ctx, c.model, set, options)
	})
	if r.Outputs == nil || r.Outputs.Samples == 0 {
		return failed
	}
	return printValidation(j, r, from, load, failed)
}

// setOptions reads how the outputs of a set are compared.
func setOptions(v inputs.OfSet) (o measure.Options, err error) {
	o.Accuracy = v.Accuracy / 100
	if o.Rule, err = measure.ParseRule(v.Compare); err != nil {
		return o, fmt.Errorf("COMPARE: %w", err)
	}
	return o, nil
}

// modelToRun returns the model and its archive's digest. The project need not be generated yet.
func modelToRun(j *job) (*mlf.Model, string, error) {
	in := j.in
	switch {
	case j.project == nil && j.unfinished != nil && !in.Derived:
		return nil, "", j.unfinished // it is not generated again
	}
	name := in.ModelName
	if j.project != nil && !in.Set["MODEL"] {
		name = j.project.ModelName()
	}
	a, err := j.archive()
	if err != nil {
		return nil, "", err
	}
	m, err := a.Model(name)
	return m, a.Digest, err
}

// otherInputs is the advice for other inputs than those of the firmware, which generate does not take from a project.
func otherInputs() string {
	return "choose another PROJECT, or remove this one first: " + nextstep.Target("clean")
}

// takesInputs returns an error if the project's firmware has inputs of its own.
func takesInputs(j *job) error {
	fixed, err := j.project.Samples()
	if err == nil && fixed != nil {
		err = failure.New(failure.Config, otherInputs(),
			"the inputs are constants of the firmware")
	}
	return err
}

// validationSet returns the set to run, and a description of its source.
func validationSet(ctx context.Context, j *job) (*measure.Set, string, error) {
	if j.in.Library {
		return nil, "", noFirmware()
	}
	m, digest, err := modelToRun(j)
	if err != nil {
		return nil, "", err
	}
	set, from, err := chosenSet(ctx, j, m, digest)
	if err == nil && set == nil {
		err = noSet()
	}
	if err != nil {
		return nil, "", err
	}
	return set, from, checkCompared(j, set)
}

func noSet() error {
	return failure.New(failure.Config, "INPUT=PATH names a file .npz, or a folder of such files",
		"no set of inputs is given")
}

// chosenSet returns the set of INPUT, EXPECT and LABELS, and a description of its source. Without INPUT, the model's
// examples are the set, or the test set of the bundled model; nil without these.
func chosenSet(ctx context.Context, j *job, m *mlf.Model, digest string) (set *measure.Set, from string, err error) {
	files := measure.Files{Inputs: j.in.Input, Expected: j.in.Expect, Labels: j.in.Labels, Names: j.in.Names}
	from = files.Inputs
	switch {
	case from != "":
	case m.Examples != nil:
		from = "the model's examples"
	case len(m.Inputs) == 0 && files.Expected != "":
		from = files.Expected
	case files.Expected != "" || files.Labels != "":
		return nil, "", noSet()
	case digest == samples.Digest():
		set, err = bundledSet(ctx, m)
		return set, "the bundled test set", err
	default:
		return nil, "", nil
	}
	set, err = measure.ReadSet(ctx, files, m)
	return set, from, err
}

// checkCompared returns an error for COMPARE with a set of which nothing is compared. nil is a set of random inputs.
func checkCompared(j *job, s *measure.Set) error {
	rule := j.in.Compare
	if rule == "" || s != nil && (s.HasExpected() || s.HasLabels()) {
		return nil
	}
	return failure.New(failure.Config,
		"add output0 to the set, or name its file with EXPECT=PATH; without COMPARE, the set runs uncompared",
		"COMPARE=%s: the set has neither expected outputs nor labels", rule)
}

// bundledSet returns the test set of the bundled model.
func bundledSet(ctx context.Context, m *mlf.Model) (*measure.Set, error) {
	t, err := samples.LoadTestSet()
	if err != nil {
		return nil, err
	}
	arrays := []ndarray.Named{
		{Name: m.Inputs[0].Name, Array: t.Images}, {Name: "output0", Array: t.Logits}, {Name: "labels", Array: t.Labels},
	}
	return measure.ReadSet(ctx, measure.Files{Arrays: arrays}, m)
}

// printValidation prints a result and writes OUTPUT. failed is why the device did not run the whole set.
func printValidation(j *job, r *measure.Result, from string, load modelLoad, failed error) error {
	o := r.Outputs
	j.Printf("validate: %s on board %s, %d of %d samples from %s", inputs.ArchiveName(j.project.ArchiveName()),
		j.project.Board().Name, o.Samples, o.Of, from)
	if o.Compared() {
		j.Printf("outputs as expected (%s): %d of %d", o.Rule, o.Equal, o.Samples)
		for _, m := range o.Mismatches {
			j.Printf("  %v", m)
		}
		if o.MaxDistance != nil && *o.MaxDistance > 0 {
			j.Printf("largest distance of an element: %g", *o.MaxDistance)
		}
	}
	if o.Labelled() {
		j.Printf("labels predicted: %d of %d, %.4g %%", o.Correct, o.Samples, 100*o.Accuracy())
		for _, line := range o.Table() {
			j.Printf("%s", line)
		}
	}
	if !o.Compared() && !o.Labelled() {
		j.Printf("nothing was compared: the set has neither expected outputs nor labels")
	}
	printUse(j.Console, r)

	line := jsonlines.Validate{Firmware: j.imageLine(load.image), Input: from, Report: r}
	if o.Labelled() {
		percent := 100 * o.Accuracy()
		line.Accuracy = &percent
	}
	if failed == nil {
		failed = r.Err()
	}
	if failed != nil {
		line.Status = jsonlines.StatusWrong
	}
	if j.in.Output != "" && (failed == nil || failure.Of(failed) == failure.WrongAnswer) {
		if err := writeReport(j.in.Output, r); err != nil {
			return errors.Join(failed, err)
		}
		j.Printf("wrote %s", j.in.Output)
		line.Output = j.in.Output
	}
	j.JSONLine(line)
	return failed
}

// printUse prints cost and memory.
func printUse(c *console.Console, r *measure.Result) {
	cost := r.Cost
	c.Printf("cost per inference, %s: median %v, min %s, max %s", format.Count(cost.Samples, "run"), cost,
		cost.Text(cost.Min), cost.Text(cost.Max))
	if !cost.Counts() && cost.Resolution > 0 {
		c.Printf("  in counts of the timer, %.0f per second: median %.0f, min %.0f, max %.0f", 1/cost.Resolution,
			cost.Median/cost.Resolution, cost.Min/cost.Resolution, cost.Max/cost.Resolution)
	}
	if r.StackUsed > 0 || r.Stack > 0 {
		c.Printf("stack: %s of %d bytes used, computed at worst %s", orUnknown(r.StackUsed), r.StackSize, orUnknown(r.Stack))
	}
	for _, p := range r.Parts {
		switch {
		case p.Name == "arena" && r.ArenaUsed > 0:
			c.Printf("arena: %d of %d bytes used, computed %s", r.ArenaUsed, r.ArenaSize, orUnknown(r.Arena))
		case p.Name == "workspace" || p.Name == "arena":
			c.Printf("%s: %d bytes", p.Name, p.RAM)
		}
	}
	for _, d := range r.Doubts() {
		c.Notef("note: %s: %s", r.Key(), d)
	}
}

// orUnknown formats a number of bytes of which 0 means unknown.
func orUnknown(bytes int64) string {
	if bytes == 0 {
		return "unknown"
	}
	return strconv.FormatInt(bytes, 10)
}

func writeReport(path string, r *measure.Result) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := regularfile.Write(path, append(data, '\n'), 0o644); err != nil {
		return failure.New(failure.Config, "choose an OUTPUT that can be written", "OUTPUT: %w", err)
	}
	return nil
}
