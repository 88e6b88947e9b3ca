// Package executor runs a model on a device over an rpc session.
//
// Depending on the archive it walks a graph operator by operator, starts the device's executor of ahead-of-time
// models, or calls a single operator. It sets inputs, fetches outputs and measures time. It does not build or
// flash: the device must already run the model's firmware.
package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// An Executor runs one model. Only one goroutine at a time may use it. Executors of one session that walk graphs or
// call an operator may be used concurrently. The device has one executor of ahead-of-time models: Open returns an
// error until the session's earlier one is closed. A new session starts without one.
type Executor interface {
	// Inputs and Outputs return the model's tensors, in its order, with types and shapes.
	Inputs() []mlf.Tensor
	Outputs() []mlf.Tensor

	// SetInput sends an input by its name, the model's own or the one in C. It stays set for all runs. An error for
	// a wrong name, type or shape names the right ones.
	SetInput(ctx context.Context, name string, a *ndarray.Array) error

	// Run runs the model once. All inputs must have been set.
	Run(ctx context.Context) error

	// Output fetches output i of the last run. The caller owns the array.
	Output(ctx context.Context, i int) (*ndarray.Array, error)

	// Time measures the model on the device. It returns seconds per run, one sample per repeat. All inputs must
	// have been set. Outputs are undefined until the next Run.
	Time(ctx context.Context, o rpc.TimeOptions) ([]float64, error)

	// Clock returns what the rate of the device's timer was compared with. Unless that is a clock, times in seconds
	// may be wrong by a constant factor.
	Clock() rpc.Clock

	// Close frees the model's memory on the device. The session stays open.
	Close(ctx context.Context) error
}

// SetInputs sets all inputs: arrays with their names, such as ndarray.ReadNPZ returns. Errors: those of SetInput.
func SetInputs(ctx context.Context, e Executor, arrays []ndarray.Named) error {
	for _, a := range arrays {
		if err := e.SetInput(ctx, a.Name, a.Array); err != nil {
			return err
		}
	}
	return nil
}

// openers has one line per way to run a model.
var openers = map[mlf.Executor]func(context.Context, *rpc.Session, rpc.Module, *mlf.Model) (Executor, error){
	mlf.Graph: openGraph,
	mlf.AOT:   openAOT,
	mlf.None:  openOperator,
}

// callableABIs lists the operator ABIs that firmware can call: packed, or through a generated adapter.
var callableABIs = []mlf.ABI{mlf.ABIPacked, mlf.ABIUnpacked}

// Open prepares a model whose firmware runs on the session's device. Errors: class config if this session already
// has an executor of an ahead-of-time model open (see Executor) or the device runs another model; those of the
// session.
func Open(ctx context.Context, s *rpc.Session, m *mlf.Model) (Executor, error) {
	lib, err := s.SystemLib(ctx)
	if err != nil {
		return nil, err
	}
	return OpenLoaded(ctx, s, lib, m)
}

// OpenLoaded is Open for a model whose functions are in a module that was loaded (rpc.Session.Upload), not in the
// firmware. The module must stay until the executor is closed.
func OpenLoaded(ctx context.Context, s *rpc.Session, lib rpc.Module, m *mlf.Model) (Executor, error) {
	open := openers[m.Executor]
	if open == nil || !slices.Contains(callableABIs, m.ABI) {
		return nil, failure.Errorf(failure.Config, "model %s: unsupported executor %q with ABI %q", m.Name, m.Executor,
			m.ABI)
	}

	e, err := open(ctx, s, lib, m)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	return e, nil
}

// A model is the state that all executors share: the tensors, the inputs that have been set, and the data sent.
type model struct {
	inputs, outputs []mlf.Tensor
	set             []bool // by input
	hasOutputs      bool   // of the last run
	contents        contents
}

func newModel(ctx context.Context, s *rpc.Session, m *mlf.Model) (model, error) {
	c, err := newContents(ctx, s)
	return model{slices.Clone(m.Inputs), slices.Clone(m.Outputs), make([]bool, len(m.Inputs)), false, c}, err
}

func (m *model) Inputs() []mlf.Tensor  { return m.inputs }
func (m *model) Outputs() []mlf.Tensor { return m.outputs }
func (m *model) Clock() rpc.Clock      { return m.contents.session.Clock() }

// checkInput returns the index of the input for an array, or an error if its type or shape differs.
func (m *model) checkInput(name string, a *ndarray.Array) (int, error) {
	i, err := tensorlist.Lookup("input", m.inputs, name)
	if err != nil {
		return 0, err
	}
	return i, tensorlist.CheckInput(m.inputs[i], a)
}

// begin prepares a run: it checks that all inputs have been set, and sends those that the device lacks.
func (m *model) begin(ctx context.Context) error {
	if err := m.checkReady(); err != nil {
		return err
	}

	m.hasOutputs = false
	return m.contents.refresh(ctx)
}

// checkReady returns an error unless all inputs have been set.
func (m *model) checkReady() error {
	var missing []string
	for i, ok := range m.set {
		if !ok {
			missing = append(missing, m.inputs[i].String())
		}
	}

	if missing != nil {
		return failure.New(failure.Config, "set every input", "inputs have not been set: %s", strings.Join(missing, "; "))
	}
	return nil
}

// checkOutput returns an error unless output i can be fetched.
func (m *model) checkOutput(i int) error {
	switch {
	case i < 0 || i >= len(m.outputs):
		return fmt.Errorf("no output %d: the model has %d", i, len(m.outputs))
	case !m.hasOutputs:
		return errors.New("no output: the model has not run")
	}
	return nil
}

// fetch reads an output from the device's tensor.
func fetch(ctx context.Context, t *rpc.Tensor, want mlf.Tensor) (*ndarray.Array, error) {
	a, err := ndarray.New(want.DType, want.Shape...)
	if err != nil {
		return nil, fmt.Errorf("output %q: %w", want.Name, err)
	}

	if err := t.Read(ctx, a.Data); err != nil {
		return nil, fmt.Errorf("output %q: %w", want.Name, err)
	}
	return a, nil
}

// setInput sends input i.
func (m *model) setInput(ctx context.Context, i int, t *rpc.Tensor, a *ndarray.Array, overwritten bool) error {
	// a copy, which is sent again after damage: the caller may change its array
	sent := &ndarray.Array{DType: a.DType, Shape: slices.Clone(a.Shape), Data: slices.Clone(a.Data)}
	if err := m.contents.write(ctx, t, sent, overwritten); err != nil {
		return fmt.Errorf("input %q: %w", m.inputs[i].Name, err)
	}

	m.set[i] = true
	return nil
}

// free frees all tensors and returns the first error.
func free(ctx context.Context, tensors []*rpc.Tensor) error {
	var first error
	for _, t := range tensors {
		if err := t.Free(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}
