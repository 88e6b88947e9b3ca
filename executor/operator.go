// This file calls the one operator of an archive that holds no model.

package executor

import (
	"context"
	"fmt"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

type operator struct {
	model
	lib     rpc.Module
	name    string
	f       rpc.Function
	tensors []*rpc.Tensor // by argument
	args    []any         // the same, as arguments of a call
	in, out []int         // arguments of inputs and outputs
}

func openOperator(ctx context.Context, s *rpc.Session, lib rpc.Module, m *mlf.Model) (_ Executor, err error) {
	base, err := newModel(ctx, s, m)
	if err != nil {
		return nil, err
	}

	o := &operator{model: base, name: m.Entry, lib: lib}
	if o.f, err = o.lib.Function(ctx, m.Entry); err != nil {
		return nil, err
	}

	for i, a := range m.Arguments {
		t, err := s.Empty(ctx, a.DType, a.Shape)
		if err != nil {
			_ = free(ctx, o.tensors) // report the first error only
			return nil, fmt.Errorf("argument %s: %w", a, err)
		}

		o.tensors, o.args = append(o.tensors, t), append(o.args, t)
		// The operator writes an output, so its content before the call does not matter.
		if a.Output {
			o.out = append(o.out, i)
			o.contents.written = append(o.contents.written, t)
		} else {
			o.in = append(o.in, i)
		}
	}

	return o, nil
}

func (o *operator) SetInput(ctx context.Context, name string, a *ndarray.Array) error {
	i, err := o.checkInput(name, a)
	if err != nil {
		return err
	}
	return o.setInput(ctx, i, o.tensors[o.in[i]], a, false)
}

func (o *operator) Run(ctx context.Context) error {
	if err := o.begin(ctx); err != nil {
		return err
	}

	if _, err := o.f.Call(ctx, o.args...); err != nil {
		return fmt.Errorf("operator %s: %w", o.name, err)
	}
	o.hasOutputs = true
	return nil
}

func (o *operator) Output(ctx context.Context, i int) (*ndarray.Array, error) {
	if err := o.checkOutput(i); err != nil {
		return nil, err
	}
	return fetch(ctx, o.tensors[o.out[i]], o.outputs[i])
}

func (o *operator) Time(ctx context.Context, opts rpc.TimeOptions) ([]float64, error) {
	if err := o.begin(ctx); err != nil {
		return nil, err
	}

	samples, err := o.lib.Time(ctx, o.name, opts, o.args...)
	if err != nil {
		return nil, fmt.Errorf("time operator %s: %w", o.name, err)
	}
	return samples, nil
}

func (o *operator) Close(ctx context.Context) error { return free(ctx, o.tensors) }
