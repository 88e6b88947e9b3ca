// Package validate runs a model on a device with a set of inputs and compares what it returns: with expected outputs,
// and with labels.
//
// It neither builds nor flashes, and prints nothing: an executor.Executor is the model on the device. Read reads a set,
// Run runs it, and Report.AddMemory adds what the project's firmware takes of its memory.
package validate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/deadline"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// timedOverRPC is the number of samples that are timed with an RPC server, where a time needs runs of its own, after
// those that are compared: the model may have a state, and may write to its inputs.
const timedOverRPC = 10

// Options are the choices for a validation. The zero value compares bytes and requires no accuracy.
type Options struct {
	Rule     Rule
	Accuracy float64       // least share of labels that must be right, 0 to 1; 0: any
	Timeout  time.Duration // of each call on the device; 0: only the context's
	// Progress is called after each sample, by the goroutine that called Run; nil: none
	Progress func(done, total int)
}

// Run runs the model once with each sample of the set. The report is valid also beside an error, for the samples before
// it. A wrong answer of the model is not an error: see Report.Err. Errors: class config for options that do not fit the
// set; those of the device, with the sample's name; class interrupted if ctx ends.
func Run(ctx context.Context, e executor.Executor, s *Set, o Options) (*Report, error) {
	o.Rule = cmp.Or(o.Rule, s.rule)
	if err := o.check(s); err != nil {
		return nil, err
	}

	v := &validation{Options: o, set: s, model: e, report: newReport(s, o)}
	v.meter, _ = e.(executor.Meter)
	if err := v.fits(); err != nil {
		return nil, err
	}

	defer func() {
		v.report.Time, v.report.Confusion = timesOf(v.seconds, v.counts, v.hz), v.report.table()
		v.report.Time.Clock = e.Clock().String()
	}()

	for i := range s.samples {
		if err := v.sample(ctx, i); err != nil {
			return v.report, fmt.Errorf("%s: %w", s.samples[i].name, err)
		}
		if o.Progress != nil {
			o.Progress(i+1, s.Len())
		}
	}

	if v.meter == nil {
		return v.report, v.timeRuns(ctx)
	}
	// asked last: the device returns the highest use since its start
	return v.report, v.call(ctx, "asking for the stack", func(ctx context.Context) error {
		used, err := v.meter.Stack(ctx)
		if used.Size > 0 {
			v.report.Memory.Stack = &StackUse{Used: used.Used, Size: used.Size}
		}
		return err
	})
}

func (o Options) check(s *Set) error {
	if err := o.Rule.check(); err != nil {
		return err
	}
	if !(o.Accuracy >= 0 && o.Accuracy <= 1) {
		return failure.Errorf(failure.Config, "an accuracy of %v is not from 0 to 1", o.Accuracy)
	}
	if o.Accuracy > 0 && !s.HasLabels() {
		return failure.New(failure.Config, "add labels to the set", "an accuracy is required, and the set has no labels")
	}
	return s.checkRule(o.Rule)
}

// A validation is a run of a set.
type validation struct {
	Options
	set     *Set
	model   executor.Executor
	meter   executor.Meter // nil: the device does not measure runs
	report  *Report
	seconds []float64
	counts  []uint64
	hz      uint32
}

// fits returns an error for a set of another model.
func (v *validation) fits() error {
	for _, x := range []struct {
		kind      string
		have, set []tensor
	}{
		{"input", tensors(v.model.Inputs()), v.set.inputs},
		{"output", tensors(v.model.Outputs()), v.set.outputs},
	} {
		if !slices.EqualFunc(x.have, x.set, tensor.equal) {
			return failure.New(failure.Config, "read the set with this model", "the set is for a model with other %ss", x.kind)
		}
	}
	return nil
}

// sample runs the model with one sample and compares its outputs.
func (v *validation) sample(ctx context.Context, i int) error {
	s := &v.set.samples[i]
	if err := v.setInputs(ctx, i); err != nil {
		return err
	}
	if err := v.run(ctx); err != nil {
		return err
	}

	var outputs []*ndarray.Array
	for j := range v.set.outputs {
		err := v.call(ctx, "fetching an output", func(ctx context.Context) error {
			a, err := v.model.Output(ctx, j)
			outputs = append(outputs, a)
			return err
		})
		if err != nil {
			return err
		}
	}

	v.report.add(v.set, s, outputs, v.Rule)
	return nil
}

func (v *validation) setInputs(ctx context.Context, i int) error {
	return v.call(ctx, "setting the inputs", func(ctx context.Context) error { return v.set.SetInputs(ctx, v.model, i) })
}

// run runs the model once, and times it if the device does.
func (v *validation) run(ctx context.Context) error {
	if v.meter == nil {
		return v.call(ctx, "running the model", v.model.Run)
	}

	return v.call(ctx, "running the model", func(ctx context.Context) error {
		t, err := v.meter.RunTimed(ctx)
		if err == nil {
			v.counts, v.seconds = append(v.counts, t.Count), append(v.seconds, t.Seconds())
			v.hz = t.Hz
		}
		return err
	})
}

// timeRuns times the model with the first samples.
func (v *validation) timeRuns(ctx context.Context) error {
	for i := range min(len(v.set.samples), timedOverRPC) {
		err := v.setInputs(ctx, i)
		if err == nil {
			err = v.call(ctx, "timing the model", func(ctx context.Context) error {
				times, err := v.model.Time(ctx, rpc.TimeOptions{Number: 1})
				v.seconds = append(v.seconds, times...)
				return err
			})
		}

		if err != nil {
			return fmt.Errorf("%s: %w", v.set.samples[i].name, err)
		}
	}
	return nil
}

// call runs f with the deadline of one call. Its error names the step.
func (v *validation) call(ctx context.Context, step string, f func(context.Context) error) error {
	return deadline.Call(ctx, v.Timeout, step, f)
}
