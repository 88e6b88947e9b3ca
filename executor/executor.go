// Package executor runs a model on a device, over a session that calls the device's functions.
//
// It walks a graph operator by operator, starts the device's own executor of ahead-of-time models, or calls one
// operator, whichever the archive holds; it gives inputs, takes outputs and measures time. It builds and flashes
// nothing: the firmware on the device must be the model's.
package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// An Executor runs one model. One goroutine at a time may use it. Several executors of one session may be used at once, as
// the session may, if they walk graphs or call an operator. Of an ahead-of-time model there is one at a time, the device's
// own: Open refuses a second until the first is closed. A new session with the device begins without one.
type Executor interface {
	// Inputs and Outputs are the model's, in its order, with every type and shape.
	Inputs() []mlf.Tensor
	Outputs() []mlf.Tensor

	// SetInput sends an input by its name, the model's own or the one it has in C. It stays set for all runs. A
	// name, type or shape that the model does not have is an error that says which it wants.
	SetInput(ctx context.Context, name string, a *ndarray.Array) error

	// Run runs the model once. All inputs must have been set.
	Run(ctx context.Context) error

	// Output fetches output i of the last run.
	Output(ctx context.Context, i int) (*ndarray.Array, error)

	// Time measures the model on the device and returns seconds per run, one sample per repeat. All inputs must
	// have been set. Outputs are undefined afterwards, until the next Run.
	Time(ctx context.Context, o rpc.TimeOptions) ([]float64, error)

	// Close frees the model's memory on the device. The session stays open.
	Close(ctx context.Context) error
}

// openers has one line per way to run a model.
var openers = map[mlf.Executor]func(context.Context, *rpc.Session, *mlf.Model) (Executor, error){
	mlf.Graph: func(ctx context.Context, s *rpc.Session, m *mlf.Model) (Executor, error) {
		return OpenGraph(ctx, s, m)
	},
	mlf.AOT:  openAOT,
	mlf.None: openOperator,
}

// enterable lists the ABIs of operators that firmware gives packed entries for, by nature or by an adapter.
var enterable = []mlf.ABI{mlf.ABIPacked, mlf.ABIUnpacked}

// Open prepares a model whose firmware runs at the other end of the session. Errors: of class config where this session
// has an executor of an ahead-of-time model open, see Executor, and where the device runs another model; those of the
// session.
func Open(ctx context.Context, s *rpc.Session, m *mlf.Model) (Executor, error) {
	open := openers[m.Executor]
	if open == nil || !slices.Contains(enterable, m.ABI) {
		return nil, failure.New(failure.Config, "", "model %s: nothing here runs executor %q with ABI %q", m.Name, m.Executor, m.ABI)
	}
	e, err := open(ctx, s, m)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	return e, nil
}

// A model is what all executors have in common: what is wanted, and how far the caller has come.
type model struct {
	inputs, outputs []mlf.Tensor
	set             []bool // by input
	ran             bool
	contents        contents
}

func newModel(ctx context.Context, s *rpc.Session, m *mlf.Model) (model, error) {
	c, err := newContents(ctx, s)
	return model{slices.Clone(m.Inputs), slices.Clone(m.Outputs), make([]bool, len(m.Inputs)), false, c}, err
}

func (m *model) Inputs() []mlf.Tensor  { return m.inputs }
func (m *model) Outputs() []mlf.Tensor { return m.outputs }

// check returns which input an array is for.
func (m *model) check(name string, a *ndarray.Array) (int, error) {
	i, err := mlf.Lookup("input", m.inputs, name)
	if err != nil {
		return 0, err
	}
	if err := a.Check(); err != nil {
		return 0, fmt.Errorf("input %q: %w", name, err)
	}
	want := m.inputs[i]
	if a.DType == want.DType && slices.Equal(a.Shape, want.Shape) {
		return i, nil
	}
	return 0, failure.New(failure.Config, fmt.Sprintf("convert it first, in Python: x.astype(%q).reshape(%s)", want.DType, ndarray.ShapeString(want.Shape)),
		"input %q wants %v %s, not %v %s", want.Name, want.DType, ndarray.ShapeString(want.Shape), a.DType, ndarray.ShapeString(a.Shape))
}

// begin prepares a run: all inputs must have been set, and be on the device.
func (m *model) begin(ctx context.Context) error {
	if err := m.ready(); err != nil {
		return err
	}
	m.ran = false
	return m.contents.settle(ctx)
}

// ready says whether all inputs have been set.
func (m *model) ready() error {
	var missing []string
	for i, ok := range m.set {
		if !ok {
			missing = append(missing, m.inputs[i].String())
		}
	}
	if missing != nil {
		return failure.New(failure.Config, "give an array for each input", "inputs have not been set: %s", strings.Join(missing, "; "))
	}
	return nil
}

// output says whether there is an output i to fetch.
func (m *model) output(i int) error {
	switch {
	case i < 0 || i >= len(m.outputs):
		return fmt.Errorf("there is no output %d; the model has %d", i, len(m.outputs))
	case !m.ran:
		return errors.New("the model has not run, so that there is no output")
	}
	return nil
}

// fetch reads a device's tensor as the array that an output is.
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
	if err := m.contents.write(ctx, t, copyOf(a), overwritten); err != nil {
		return fmt.Errorf("input %q: %w", m.inputs[i].Name, err)
	}
	m.set[i] = true
	return nil
}

// free frees tensors and returns the first error; all are tried.
func free(ctx context.Context, tensors []*rpc.Tensor) error {
	var first error
	for _, t := range tensors {
		if err := t.Free(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}
