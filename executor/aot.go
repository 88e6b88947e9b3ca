// This file runs ahead-of-time models with the device's own executor (rpc.md §5).

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

type aot struct {
	model
	module  rpc.Module
	run     rpc.Function
	in, out []*rpc.Tensor // the device's own arrays
}

func openAOT(ctx context.Context, s *rpc.Session, lib rpc.Module, m *mlf.Model) (Executor, error) {
	base, err := newModel(ctx, s, m)
	if err != nil {
		return nil, err
	}

	a := &aot{model: base}
	if err := a.create(ctx, s, lib, m.Name); err != nil {
		return nil, err
	}
	if err := a.connect(ctx); err != nil {
		_ = a.Close(ctx) // report the first error only
		return nil, err
	}
	return a, nil
}

func (a *aot) create(ctx context.Context, s *rpc.Session, lib rpc.Module, name string) error {
	create, err := s.Function(ctx, "tvm.aot_executor.create")
	if err != nil {
		return fmt.Errorf("the firmware has no executor for ahead-of-time models: %w", err)
	}

	result, err := create.Call(ctx, lib, tvmrpc.CPU, name)
	if err != nil {
		return fmt.Errorf("create the device's executor: %w", err)
	}

	module, ok := result.(rpc.Module)
	if !ok {
		return fmt.Errorf("tvm.aot_executor.create returned %T, not a module", result)
	}

	a.module = module
	a.run, err = module.Function(ctx, "run")
	return err
}

// connect fetches the device's arrays and compares them with the archive's tensors.
func (a *aot) connect(ctx context.Context) (err error) {
	names, err := a.deviceNames(ctx)
	if err != nil {
		return err
	}

	a.in, err = a.arrays(ctx, "input", a.inputs, func(i int) int {
		j := slices.Index(names, spelling.Sanitize(a.inputs[i].Name)) // as deviceNames returns them
		if j < 0 || slices.Contains(names[j+1:], names[j]) {
			return i // two names that are equal in C: match by position
		}
		return j
	})
	if err != nil {
		return err
	}

	a.out, err = a.arrays(ctx, "output", a.outputs, func(i int) int { return i })
	// A run writes the outputs: after damage there is nothing to send again.
	a.contents.written = a.out
	return err
}

// deviceNames returns the device's input names as they are in C, in its order. The description in the model's code may
// have the model's own names.
func (a *aot) deviceNames(ctx context.Context) ([]string, error) {
	name, err := a.module.Function(ctx, "get_input_name")
	if err != nil {
		return nil, err
	}

	var names, raw []string
	for i := range a.inputs {
		result, err := name.Call(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("name of input %d: %w", i, err)
		}

		text, ok := result.(string)
		if !ok {
			return nil, fmt.Errorf("name of input %d has type %T, not string", i, result)
		}
		names, raw = append(names, spelling.Sanitize(text)), append(raw, text)
	}

	// Another model may have as many inputs.
	for _, t := range a.inputs {
		if !slices.Contains(names, spelling.Sanitize(t.Name)) {
			return nil, otherModel("its inputs are %q, the archive has %q", raw, t.Name)
		}
	}

	return names, nil
}

// otherModel returns the error for firmware that was built from another archive.
func otherModel(format string, args ...any) error {
	return failure.New(failure.Config, "build and flash this archive, then open it again",
		"the device runs another model: "+format, args...)
}

// arrays fetches the device's arrays of one kind. index maps each tensor to the device's index. Shapes that the
// archive lacks are filled in from the device.
func (a *aot) arrays(ctx context.Context, kind string, ts []mlf.Tensor, index func(int) int) ([]*rpc.Tensor, error) {
	count, err := a.count(ctx, "get_num_"+kind+"s")
	if err != nil {
		return nil, err
	}
	if count != len(ts) {
		return nil, otherModel("it has %d %ss, the archive has %d", count, kind, len(ts))
	}

	get, err := a.module.Function(ctx, "get_"+kind)
	if err != nil {
		return nil, err
	}

	// The arrays before an error are returned too: Close frees them.
	var arrays []*rpc.Tensor
	for i := range ts {
		result, err := get.Call(ctx, index(i))
		if err != nil {
			return arrays, fmt.Errorf("%s %d: %w", kind, i, err)
		}

		array, ok := result.(*rpc.Tensor)
		if !ok {
			return arrays, fmt.Errorf("%s %d has type %T, not array", kind, i, result)
		}
		arrays = append(arrays, array)
		if err := compare(&ts[i], array); err != nil {
			return arrays, err
		}
	}

	return arrays, nil
}

func (a *aot) count(ctx context.Context, name string) (int, error) {
	f, err := a.module.Function(ctx, name)
	if err != nil {
		return 0, err
	}

	result, err := f.Call(ctx)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	n, ok := result.(int64)
	if !ok {
		return 0, fmt.Errorf("%s returned %T", name, result)
	}
	return int(n), nil
}

// compare returns an error if a device's array differs from the archive's tensor. An unknown shape is set to the
// device's.
func compare(t *mlf.Tensor, array *rpc.Tensor) error {
	if t.Shape == nil {
		t.Shape = slices.Clone(array.Shape())
	}

	return compareTensor(*t, array.DType(), array.Shape())
}

// compareTensor returns an error if the archive's tensor differs from the device's.
func compareTensor(t mlf.Tensor, d ndarray.DType, shape []int64) error {
	if t.DType != d || !slices.Equal(t.Shape, shape) {
		return otherModel("its %s is %v %s, the archive has %v %s", t.Name, d, ndarray.ShapeString(shape), t.DType,
			ndarray.ShapeString(t.Shape))
	}
	return nil
}

func (a *aot) SetInput(ctx context.Context, name string, v *ndarray.Array) error {
	i, err := a.checkInput(name, v)
	if err != nil {
		return err
	}
	return a.setInput(ctx, i, a.in[i], v, false)
}

func (a *aot) Run(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}

	if _, err := a.run.Call(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	a.hasOutputs = true
	return nil
}

func (a *aot) Output(ctx context.Context, i int) (*ndarray.Array, error) {
	if err := a.checkOutput(i); err != nil {
		return nil, err
	}
	return fetch(ctx, a.out[i], a.outputs[i])
}

func (a *aot) Time(ctx context.Context, o rpc.TimeOptions) ([]float64, error) {
	if err := a.begin(ctx); err != nil {
		return nil, err
	}

	samples, err := a.module.Time(ctx, "run", o)
	if err != nil {
		return nil, fmt.Errorf("time: %w", err)
	}
	return samples, nil
}

func (a *aot) Close(ctx context.Context) error {
	err := free(ctx, append(a.in, a.out...))
	return errors.Join(err, a.module.Free(ctx))
}
