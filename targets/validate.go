// This file runs a set of inputs on a board and prints how the outputs compare with the expected ones.

package targets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/validate"
)

func (v *invocation) validate(ctx context.Context) (err error) {
	options, err := v.validateOptions()
	if err != nil {
		return err
	}
	in, err := v.withoutHost(ctx)
	if err != nil {
		return err
	}
	options.Timeout = in.Timeout
	if v.Env.On("DRYRUN") {
		return v.Would("validate %s on board %s", in.Project, in.Board.Value)
	}
	set, from, err := v.validationSet(ctx, in) // checked before firmware is made
	if err != nil {
		return err
	}
	if err := cmp.Or(v.canWriteOutput(), v.keepsInputs()); err != nil {
		return err
	}
	load, err := v.prepared(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	if err := v.takesInputs(); err != nil {
		return err
	}
	var report *validate.Report
	failed := v.withLoad(ctx, load, func(c *connection) (err error) {
		bar := v.Start("validate", set.Len())
		defer bar.End()
		options.Progress = func(int, int) { bar.Add(1) }
		report, err = validate.Run(ctx, c.model, set, options)
		return err
	})
	if report == nil || report.Samples == 0 {
		return failed
	}
	if load.resident == nil && !v.picked { // else the project has another image
		if err := report.AddMemory(v.project, load.image); err != nil {
			return errors.Join(failed, err)
		}
	}
	return v.tellValidation(report, from, load, failed)
}

// validateOptions reads what belongs to this target alone.
func (v *invocation) validateOptions() (o validate.Options, err error) {
	if o.Rule, err = validate.ParseRule(v.Env("COMPARE")); err != nil {
		return o, fmt.Errorf("COMPARE: %w", err)
	}
	if text := v.Env("ACCURACY"); text != "" {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || !(percent > 0 && percent <= 100) {
			return o, failure.Errorf(failure.Config, "ACCURACY=%s is not a number of per cent, above 0 to 100", text)
		}
		o.Accuracy = percent / 100
	}
	return o, nil
}

// withoutHost returns the inputs, with standalone firmware unless the user or an existing PROJECT chose an app.
func (v *invocation) withoutHost(ctx context.Context) (*inputs.Inputs, error) {
	in, err := v.inputs(ctx)
	if err != nil {
		return nil, err
	}
	asked := v.Env("APP") != "" || in.Usual.App != "" || in.OptionsAsked && in.Options.App != ""
	if asked || v.project != nil && !in.Derived {
		return in, nil
	}
	if err := v.forget(); err != nil {
		return nil, err
	}
	outer := v.Env
	v.Env = func(name string) string {
		if name == "APP" {
			return boards.Standalone
		}
		return outer(name)
	}
	defer func() { v.Env = outer }()
	return v.inputs(ctx)
}

// validationModel returns the model and its archive's digest. The project need not be generated yet.
func (v *invocation) validationModel(in *inputs.Inputs) (*mlf.Model, string, error) {
	switch {
	case in.Library:
		return nil, "", noFirmware()
	case in.Samples != "":
		return nil, "", fixedInputs()
	case v.project == nil && v.unfinished != nil && !in.Derived:
		return nil, "", v.unfinished // it is not generated again
	}
	name := in.ModelName.Value
	if v.project != nil && !in.Model.Asked {
		name = v.project.ModelName()
	}
	a, err := v.archive(in)
	if err != nil {
		return nil, "", err
	}
	m, err := a.Model(name)
	return m, a.Digest, err
}

// takesInputs returns an error if the project's firmware has inputs of its own.
func (v *invocation) takesInputs() error {
	fixed, err := v.project.Samples()
	if err == nil && fixed != nil {
		err = fixedInputs()
	}
	return err
}

func fixedInputs() error {
	return failure.New(failure.Config, "generate the project without FIXED_INPUT",
		"the inputs are constants of the firmware")
}

// validationSet returns the set to run, and a description of its source.
func (v *invocation) validationSet(ctx context.Context, in *inputs.Inputs) (*validate.Set, string, error) {
	m, digest, err := v.validationModel(in)
	if err != nil {
		return nil, "", err
	}
	files := validate.Files{Inputs: in.Input, Expected: v.Env("EXPECT"), Labels: v.Env("LABELS")}
	if files.Inputs == "" {
		if digest != samples.Digest() || files != (validate.Files{}) {
			return nil, "", failure.New(failure.Config, "INPUT=PATH names a file .npz, or a folder of such files",
				"no set of inputs is given")
		}
		s, err := bundledSet(m)
		return s, "the bundled test set", err
	}
	s, err := validate.Read(ctx, files, m)
	if err != nil {
		return nil, "", err
	}
	if rule := v.Env("COMPARE"); rule != "" && !s.HasExpected() && !s.HasLabels() {
		return nil, "", failure.New(failure.Config,
			"add output0 to the set, or name its file with EXPECT=PATH; without COMPARE, the set runs uncompared",
			"COMPARE=%s: the set has neither expected outputs nor labels", rule)
	}
	return s, files.Inputs, nil
}

// keepsInputs returns an error if OUTPUT, whatever its path, is a file that is read: the result would replace it.
func (v *invocation) keepsInputs() error {
	output, err := os.Stat(v.in.Output)
	if err != nil {
		return nil // it does not exist
	}
	for _, x := range []struct{ variable, path string }{
		{"INPUT", v.in.Input},
		{"EXPECT", v.Env("EXPECT")},
		{"LABELS", v.Env("LABELS")},
	} {
		files := []string{x.path}
		entries, _ := os.ReadDir(x.path) // none of a file
		for _, e := range entries {
			files = append(files, filepath.Join(x.path, e.Name()))
		}
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && os.SameFile(info, output) {
				return failure.New(failure.Config, "choose another OUTPUT", "OUTPUT=%s is a file of %s=%s, which it would replace",
					v.in.Output, x.variable, x.path)
			}
		}
	}
	return nil
}

// bundledSet returns the test set of the bundled model.
func bundledSet(m *mlf.Model) (*validate.Set, error) {
	t, err := samples.LoadTestSet()
	if err != nil {
		return nil, err
	}
	return validate.New([]ndarray.Named{
		{Name: m.Inputs[0].Name, Array: t.Images}, {Name: "output0", Array: t.Logits}, {Name: "labels", Array: t.Labels},
	}, m)
}

// tellValidation prints a report and writes OUTPUT. failed is why the device did not run the whole set.
func (v *invocation) tellValidation(r *validate.Report, from string, load modelLoad, failed error) error {
	v.Printf("validate: %s on board %s, %d of %d samples from %s", inputs.ArchiveName(v.project.ArchiveName()),
		v.project.Board().Name, r.Samples, r.Of, from)
	if r.Compared() {
		v.Printf("outputs as expected (%s): %d of %d", r.Rule, r.Equal, r.Samples)
		for _, m := range r.Mismatches {
			v.Printf("  %v", m)
		}
		if r.Farthest != nil && *r.Farthest > 0 {
			v.Printf("largest distance of an element: %g", *r.Farthest)
		}
	}
	if r.Labelled() {
		v.Printf("labels predicted: %d of %d, %.4g %%", r.Right, r.Samples, 100*r.Accuracy())
		for _, line := range r.Table() {
			v.Printf("%s", line)
		}
	}
	if !r.Compared() && !r.Labelled() {
		v.Printf("nothing was compared: the set has neither expected outputs nor labels")
	}
	v.tellUse(r)
	line := jsonlines.Validate{Image: v.imageLine(load.image), Input: from, Report: r}
	if r.Labelled() {
		percent := 100 * r.Accuracy()
		line.Accuracy = &percent
	}
	if failed == nil {
		failed = r.Err()
	}
	if failed != nil {
		line.Status = jsonlines.StatusWrong
	}
	if v.in.Output != "" && (failed == nil || failure.Of(failed) == failure.WrongAnswer) {
		if err := writeReport(v.in.Output, r); err != nil {
			return errors.Join(failed, err)
		}
		v.Printf("wrote %s", v.in.Output)
		line.Output = v.in.Output
	}
	v.JSONLine(line)
	return failed
}

// tellUse prints times and memory.
func (v *invocation) tellUse(r *validate.Report) {
	t := r.Time
	v.Printf("time per inference, %d runs: median %s, min %s, max %s", t.Runs, valuetext.Seconds(t.Median),
		valuetext.Seconds(t.Min), valuetext.Seconds(t.Max))
	if c := t.Counts; c != nil {
		v.Printf("  in counts of the timer, %d per second: median %d, min %d, max %d", c.Hz, c.Median, c.Min, c.Max)
	}
	if s := r.Memory.Stack; s != nil {
		v.Printf("stack: %s of %d bytes used, computed at worst %s", known(s.Used), s.Size, known(s.Computed))
	}
	if n := r.Memory.Workspace; n != nil {
		v.Printf("workspace: %d bytes", *n)
	}
	if a := r.Memory.Arena; a != nil {
		v.Printf("arena: %d of %d bytes", a.Used, a.Size)
		for _, why := range a.Unsure {
			v.Printf("arena: it may be more: %s", why)
		}
	}
}

// known formats a number of bytes of which 0 means unknown.
func known(bytes int64) string {
	if bytes == 0 {
		return "unknown"
	}
	return strconv.FormatInt(bytes, 10)
}

func writeReport(path string, r *validate.Report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicwriter.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return failure.New(failure.Config, "choose an OUTPUT that can be written", "OUTPUT: %w", err)
	}
	return nil
}
