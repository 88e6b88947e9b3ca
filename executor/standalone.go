// This file runs the model of standalone firmware.

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A standaloneModel is the Executor of standalone firmware.
type standaloneModel struct {
	model
	session *standalone.Session
	samples bool
}

// OpenStandalone prepares the model of standalone firmware, which was built from m. If the firmware has samples, its
// inputs are set, and SetInput returns an error. Closing the executor leaves the session open.
func OpenStandalone(ctx context.Context, s *standalone.Session, m *mlf.Model) (Executor, error) {
	info, err := s.Model(ctx)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if info.Inputs != len(m.Inputs) || info.Outputs != len(m.Outputs) {
		return nil, otherModel("it has %d inputs and %d outputs, the archive has %d and %d", info.Inputs, info.Outputs,
			len(m.Inputs), len(m.Outputs))
	}

	base := model{inputs: withShapes(m.Inputs), outputs: withShapes(m.Outputs)}
	tensors, err := s.Tensors(ctx, info)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	archived := slices.Concat(base.inputs, base.outputs)
	for i, t := range tensors {
		if err := compareTensor(archived[i], t.DType, t.Shape); err != nil {
			return nil, err
		}
	}

	// Samples in the firmware are inputs that are always set.
	base.set = make([]bool, len(m.Inputs))
	for i := range base.set {
		base.set[i] = info.Samples
	}

	return &standaloneModel{model: base, session: s, samples: info.Samples}, nil
}

// withShapes returns the tensors with the shapes of Dims.
func withShapes(tensors []mlf.Tensor) []mlf.Tensor {
	list := slices.Clone(tensors)
	for i, t := range list {
		list[i].Shape = t.Dims()
	}
	return list
}

func (e *standaloneModel) SetInput(ctx context.Context, name string, a *ndarray.Array) error {
	i, err := e.checkInput(name, a)
	if err != nil {
		return err
	}
	if e.samples {
		return failure.New(failure.Config, "leave the input out, or build the firmware without samples",
			"input %q is a constant of the firmware", name)
	}

	if err := e.session.SetInput(ctx, i, a.Data); err != nil {
		e.noteRestart(err)
		return err
	}

	e.set[i] = true
	return nil
}

// noteRestart marks inputs and outputs as lost if err reports a restart of the device.
func (e *standaloneModel) noteRestart(err error) {
	if errors.As(err, new(*fault.Error)) || errors.Is(err, standalone.ErrRestarted) {
		for i := range e.set {
			// samples are constants of the firmware
			e.set[i] = e.samples
		}
		e.hasOutputs = false
	}
}

func (e *standaloneModel) Run(ctx context.Context) error {
	_, err := e.RunTimed(ctx)
	return err
}

// RunTimed is Run, and returns the duration of the run.
func (e *standaloneModel) RunTimed(ctx context.Context) (standalone.Ticks, error) {
	elapsed, err := e.runTimes(ctx, 1)
	e.hasOutputs = err == nil
	return elapsed, err
}

// Clock implements Executor.
func (e *standaloneModel) Clock() rpc.Clock { return e.session.Clock() }

// Stack returns the highest use of the device's stack since its start.
func (e *standaloneModel) Stack(ctx context.Context) (standalone.Stack, error) {
	used, err := e.session.Stack(ctx)
	e.noteRestart(err)
	return used, err
}

// runTimes runs the model a number of times.
func (e *standaloneModel) runTimes(ctx context.Context, times int) (standalone.Ticks, error) {
	if err := e.checkReady(); err != nil {
		return standalone.Ticks{}, err
	}

	e.hasOutputs = false
	elapsed, err := e.session.RunTicks(ctx, times)
	if err != nil {
		e.noteRestart(err)
		return standalone.Ticks{}, fmt.Errorf("run: %w", err)
	}
	return elapsed, nil
}

func (e *standaloneModel) Output(ctx context.Context, i int) (*ndarray.Array, error) {
	if err := e.checkOutput(i); err != nil {
		return nil, err
	}

	want := e.outputs[i]
	a, err := ndarray.New(want.DType, want.Shape...)
	if err == nil {
		a.Data, err = e.session.Output(ctx, i, len(a.Data))
	}

	if err != nil {
		e.noteRestart(err)
		return nil, fmt.Errorf("output %q: %w", want.Name, err)
	}
	return a, nil
}

// Time implements Executor. It uses Number, Repeat and MinRepeat of the options.
func (e *standaloneModel) Time(ctx context.Context, o rpc.TimeOptions) ([]float64, error) {
	const maxRuns = 1 << 20 // in one request

	if err := o.Check(); err != nil {
		return nil, err
	}

	number, repeat := max(o.Number, 1), max(o.Repeat, 1)
	var samples []float64
	for len(samples) < repeat {
		elapsed, err := e.runTimes(ctx, number)
		if err != nil {
			return nil, err
		}

		// A sample that is too short is taken again with twice the runs, and so are all later ones.
		if elapsed.Seconds() < o.MinRepeat.Seconds() && number < maxRuns {
			number = min(maxRuns, 2*number)
			continue
		}
		samples = append(samples, elapsed.Seconds()/float64(number))
	}

	return samples, nil
}

func (e *standaloneModel) Close(context.Context) error { return nil }
