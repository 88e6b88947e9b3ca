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

// A Meter is an Executor whose device measures each run, and its stack: the one of OpenStandalone.
type Meter interface {
	Executor

	// RunTimed is Run, and returns how long the run took.
	RunTimed(ctx context.Context) (standalone.Ticks, error)

	// Stack returns how much of the device's stack was used since its start.
	Stack(ctx context.Context) (standalone.Stack, error)
}

type alone struct {
	model
	session *standalone.Session
	samples bool
}

// OpenStandalone prepares the model of standalone firmware, which was built from m. If the firmware has samples, its
// inputs are set, and SetInput returns an error. Closing the executor leaves the session open.
func OpenStandalone(ctx context.Context, s *standalone.Session, m *mlf.Model) (Executor, error) {
	is, err := s.Model(ctx)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if is.Inputs != len(m.Inputs) || is.Outputs != len(m.Outputs) {
		return nil, otherModel("it has %d inputs and %d outputs, the archive has %d and %d", is.Inputs, is.Outputs,
			len(m.Inputs), len(m.Outputs))
	}
	set := make([]bool, len(m.Inputs))
	for i := range set {
		set[i] = is.Samples
	}
	base := model{inputs: withShapes(m.Inputs), outputs: withShapes(m.Outputs), set: set}
	return &alone{model: base, session: s, samples: is.Samples}, nil
}

// withShapes returns the tensors with the shapes of Dims.
func withShapes(tensors []mlf.Tensor) []mlf.Tensor {
	list := slices.Clone(tensors)
	for i, t := range list {
		list[i].Shape = t.Dims()
	}
	return list
}

func (e *alone) SetInput(ctx context.Context, name string, a *ndarray.Array) error {
	i, err := e.check(name, a)
	if err != nil {
		return err
	}
	if e.samples {
		return failure.New(failure.Config, "leave the input out, or build the firmware without samples",
			"input %q is a constant of the firmware", name)
	}
	if err := e.session.SetInput(ctx, i, a.Data); err != nil {
		e.lost(err)
		return err
	}
	e.set[i] = true
	return nil
}

// lost notes that inputs and outputs are lost if the device restarted.
func (e *alone) lost(err error) {
	if errors.As(err, new(*fault.Error)) || errors.Is(err, standalone.ErrRestarted) {
		for i := range e.set {
			e.set[i] = e.samples
		}
		e.ran = false
	}
}

func (e *alone) Run(ctx context.Context) error {
	_, err := e.RunTimed(ctx)
	return err
}

// RunTimed implements Meter.
func (e *alone) RunTimed(ctx context.Context) (standalone.Ticks, error) {
	took, err := e.runs(ctx, 1)
	e.ran = err == nil
	return took, err
}

// Stack implements Meter.
func (e *alone) Stack(ctx context.Context) (standalone.Stack, error) {
	used, err := e.session.Stack(ctx)
	e.lost(err)
	return used, err
}

// runs runs the model a number of times.
func (e *alone) runs(ctx context.Context, times int) (standalone.Ticks, error) {
	if err := e.ready(); err != nil {
		return standalone.Ticks{}, err
	}
	e.ran = false
	took, err := e.session.RunTicks(ctx, times)
	if err != nil {
		e.lost(err)
		return standalone.Ticks{}, fmt.Errorf("run: %w", err)
	}
	return took, nil
}

func (e *alone) Output(ctx context.Context, i int) (*ndarray.Array, error) {
	if err := e.output(i); err != nil {
		return nil, err
	}
	want := e.outputs[i]
	a, err := ndarray.New(want.DType, want.Shape...)
	if err == nil {
		a.Data, err = e.session.Output(ctx, i, len(a.Data))
	}
	if err != nil {
		e.lost(err)
		return nil, fmt.Errorf("output %q: %w", want.Name, err)
	}
	return a, nil
}

// Time heeds Number, Repeat and MinRepeat.
func (e *alone) Time(ctx context.Context, o rpc.TimeOptions) ([]float64, error) {
	const most = 1 << 20 // runs in one request
	number, repeat := max(o.Number, 1), max(o.Repeat, 1)
	var samples []float64
	for len(samples) < repeat {
		took, err := e.runs(ctx, number)
		if err != nil {
			return nil, err
		}
		if took.Seconds() < o.MinRepeat.Seconds() && number < most {
			number = min(most, 2*number)
			continue
		}
		samples = append(samples, took.Seconds()/float64(number))
	}
	return samples, nil
}

func (e *alone) Close(context.Context) error { return nil }
