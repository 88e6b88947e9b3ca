// This file runs a model with samples on a device, and times it.

package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

const (
	defaultSamples  = 10
	emulatedSamples = 3
	sampleTime      = time.Millisecond // at least, so that a coarse clock suffices

	// timedOverRPC is the number of a set's samples that Result.Run times with an RPC server, where a time needs runs of
	// its own, after those that are compared: the model may have a state, and may write to its inputs.
	timedOverRPC = 10
)

// Run runs the model once with each sample of the set, and adds to the result how the outputs compare, the cost of the
// runs and, of standalone firmware, the stack that they used. With an RPC server, the cost is that of running the first
// 10 samples once more. Beside an error, the result has the samples before it. A wrong answer of the model is not an
// error: see Err. The zero Result is of an unknown board; if that is emulated, the cost is in seconds of the emulator.
//
// Errors: class config for options that do not fit the set; those of the device, with the sample's name; class
// interrupted if ctx ends.
func (r *Result) Run(ctx context.Context, e executor.Executor, set *Set, o Options) error {
	x := &session{Options: o, model: e, set: set, result: r}
	defer func() { r.Cost = x.cost() }()
	if err := x.runSet(ctx); err != nil {
		return err
	}
	if len(x.seconds) > 0 {
		return nil // standalone firmware times each run
	}

	for i := range min(set.Len(), timedOverRPC) {
		if err := x.timeSample(ctx, i, rpc.TimeOptions{Number: 1}); err != nil {
			return fmt.Errorf("%s: %w", set.name(i), err)
		}
	}
	return nil
}

// A session is a model on a device, and the set with which it runs.
type session struct {
	Options
	model   executor.Executor
	set     *Set
	result  *Result
	hz      uint32    // of the device's timer; 0: unknown
	seconds []float64 // of the runs that were timed

	platform func(context.Context) (rpc.Platform, error) // asks the device; nil: it has no RPC server
}

// runSet runs the model with each sample, and compares the outputs.
func (x *session) runSet(ctx context.Context) error {
	x.Rule = cmp.Or(x.Rule, x.set.rule)
	if err := cmp.Or(x.check(), x.fits()); err != nil {
		return err
	}

	x.result.Outputs = newOutputs(x.set, x.Options)
	for i := range x.set.Len() {
		if err := x.sample(ctx, i); err != nil {
			return fmt.Errorf("%s: %w", x.set.name(i), err)
		}
		if x.Progress != nil {
			x.Progress(i+1, x.set.Len())
		}
	}

	model, ok := x.model.(meter)
	if !ok {
		return nil
	}
	// asked last: the device returns the highest use since its start
	return x.call(ctx, "asking for the stack", func(ctx context.Context) error {
		used, err := model.Stack(ctx)
		x.result.StackUsed, x.result.StackSize = int64(used.Used), cmp.Or(x.result.StackSize, int64(used.Size))
		return err
	})
}

// A meter is an executor whose device measures each run, and its stack: the one of executor.OpenStandalone.
type meter interface {
	// RunTimed is Run, and returns the duration of the run.
	RunTimed(ctx context.Context) (standalone.Ticks, error)

	// Stack returns the highest use of the device's stack since its start.
	Stack(ctx context.Context) (standalone.Stack, error)
}

// check returns an error for options that are invalid or do not fit the set.
func (x *session) check() error {
	if err := x.Rule.check(); err != nil {
		return err
	}
	if !(x.Accuracy >= 0 && x.Accuracy <= 1) {
		return failure.Errorf(failure.Config, "an accuracy of %v is not from 0 to 1", x.Accuracy)
	}
	if x.Accuracy > 0 && !x.set.HasLabels() {
		return failure.New(failure.Config, "add labels to the set", "an accuracy is required, and the set has no labels")
	}
	return x.set.checkRule(x.Rule)
}

// fits returns an error for a set of another model.
func (x *session) fits() error {
	same := func(t mlf.Tensor, c *column) bool {
		return t.Name == c.Name && t.DType == c.DType && slices.Equal(t.Shape, c.Shape)
	}
	for kind, of := range [][]mlf.Tensor{x.model.Inputs(), x.model.Outputs()} {
		if !slices.EqualFunc(tensors(of), x.set.columns[kind], same) {
			return failure.New(failure.Config, "read the set with this model", "the set is for a model with other %ss",
				[]string{"input", "output"}[kind])
		}
	}
	return nil
}

// sample runs the model with one sample and compares its outputs.
func (x *session) sample(ctx context.Context, i int) error {
	if err := x.setInputs(ctx, i); err != nil {
		return err
	}
	if err := x.call(ctx, "running the model", x.run); err != nil {
		return err
	}

	var outputs []*ndarray.Array
	for j := range x.set.columns[outputKind] {
		err := x.call(ctx, "fetching an output", func(ctx context.Context) error {
			a, err := x.model.Output(ctx, j)
			outputs = append(outputs, a)
			return err
		})
		if err != nil {
			return err
		}
	}

	x.result.Outputs.add(x.set, i, outputs, x.Rule)
	return nil
}

// setInputs sets the inputs of sample i.
func (x *session) setInputs(ctx context.Context, i int) error {
	return x.call(ctx, "setting the inputs", func(ctx context.Context) error {
		for _, c := range x.set.columns[inputKind] {
			if err := x.model.SetInput(ctx, c.Name, c.of(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// run runs the model once, and times it if the device does.
func (x *session) run(ctx context.Context) error {
	model, ok := x.model.(meter)
	if !ok {
		return x.model.Run(ctx)
	}

	t, err := model.RunTimed(ctx)
	if err == nil {
		// Standalone firmware returns its timer's rate with each run only.
		x.seconds, x.hz = append(x.seconds, t.Seconds()), t.Hz
	}
	return err
}

// timeSample times the model with sample i.
func (x *session) timeSample(ctx context.Context, i int, o rpc.TimeOptions) error {
	if err := x.setInputs(ctx, i); err != nil {
		return err
	}
	return x.time(ctx, o)
}

// time times the model with the inputs that are set.
func (x *session) time(ctx context.Context, o rpc.TimeOptions) error {
	return x.call(ctx, "timing the model", func(ctx context.Context) error {
		times, err := x.model.Time(ctx, o)
		x.seconds = append(x.seconds, times...)
		return err
	})
}

// repeat returns the cost with the set's last sample, whose inputs are set. Each time is a call of its own: Timeout is
// for one.
func (x *session) repeat(ctx context.Context) (Cost, error) {
	n := cmp.Or(x.Samples, defaultSamples)
	if x.result.instruction > 0 {
		n = cmp.Or(x.Samples, emulatedSamples)
	}

	x.seconds = nil
	for range n {
		if err := x.time(ctx, x.timing()); err != nil {
			return Cost{}, err
		}
	}
	return x.cost(), nil
}

// timing returns how each sample of the cost is taken.
func (x *session) timing() rpc.TimeOptions {
	if x.result.instruction > 0 {
		return rpc.TimeOptions{Number: 1}
	}
	return rpc.TimeOptions{Number: 1, MinRepeat: sampleTime}
}

// operators times the nodes of a graph.
func (x *session) operators(ctx context.Context) error {
	graph, ok := x.model.(*executor.Graph)
	if !ok {
		return nil
	}
	return x.call(ctx, "timing the operators", func(ctx context.Context) error {
		times, err := graph.Debug(ctx, x.timing())
		for _, t := range times {
			x.seconds = t.Samples
			x.result.Operators = append(x.result.Operators, Operator{Node: t.Node, Function: t.Name, Median: x.cost().Median})
		}
		return err
	})
}

// askArena asks how much of the arena was in use at most. More than computed is a doubt.
func (x *session) askArena(ctx context.Context) error {
	if x.platform == nil {
		return nil
	}
	return x.call(ctx, "asking for the arena", func(ctx context.Context) error {
		p, err := x.platform(ctx)
		if errors.Is(err, rpc.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}

		r := x.result
		use := fit.ArenaUse{Peak: r.Arena}.Measured(p.ArenaUsed)
		r.ArenaUsed, r.RAMUnsure = use.Used, append(r.RAMUnsure, use.Unsure...)
		return nil
	})
}

// cost returns the cost of the runs that were timed, by the device's clock, which was compared with another one.
func (x *session) cost() Cost {
	each := x.result.instruction
	switch clock := x.model.Clock(); {
	case len(x.seconds) == 0:
		return Cost{}
	case clock == rpc.InstructionClock && each > 0:
		return costOf(inInstructions, 1/each.Seconds(), x.seconds, x.hz)
	case clock == rpc.Clock(""):
		return costOf(inDeviceSeconds, 1, x.seconds, x.hz)
	}
	return costOf(inSeconds, 1, x.seconds, x.hz)
}

// call runs f, which ends with its context, for at most Timeout. An error names the step.
func (o Options) call(ctx context.Context, step string, f func(context.Context) error) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if o.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, o.Timeout)
	}
	defer cancel()

	err := f(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "%s: %w", step, err)
	case limited.Err() != nil:
		return failure.New(failure.Timeout, nextstep.Option("Options.Timeout", "2m")+" waits longer",
			"%s did not end within %v: %w", step, o.Timeout, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}
