// This file holds the arguments of candidates on a device, and compares them with what is expected.

package tune

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// arguments are tensors on a device, one for each Arg. They are valid until the session closes or the device resets.
type arguments struct {
	specs   []Arg
	tensors []*rpc.Tensor
}

// newArguments allocates the tensors and writes the inputs.
func newArguments(ctx context.Context, s *rpc.Session, args []Arg) (*arguments, error) {
	h := &arguments{specs: args}
	for i, a := range args {
		t, err := newArgument(ctx, s, a)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		h.tensors = append(h.tensors, t)
	}
	return h, nil
}

func newArgument(ctx context.Context, s *rpc.Session, a Arg) (*rpc.Tensor, error) {
	if a.Flash {
		return flashArgument(ctx, s, a)
	}
	t, err := s.Empty(ctx, a.DType, a.Shape)
	if err == nil && a.isInput() {
		err = writeArgument(ctx, t, a)
	}
	return t, err
}

// flashArgument returns an argument that lies in the firmware's flash.
func flashArgument(ctx context.Context, s *rpc.Session, a Arg) (*rpc.Tensor, error) {
	m, err := s.SystemLib(ctx)
	if err != nil {
		return nil, err
	}
	f, err := m.Function(ctx, constantName(a))
	if err != nil {
		return nil, err
	}
	result, err := f.Call(ctx)
	if err != nil {
		return nil, err
	}
	address, ok := result.(int64)
	if !ok {
		return nil, failure.Errorf(failure.Transport, "%s returned %T, not an address", f.Name(), result)
	}
	return s.TensorAt(ctx, rpc.Handle(address), a.DType, a.Shape)
}

// writeArgument writes an argument's content to a tensor. If the content has a seed, the device computes it where it
// can.
func writeArgument(ctx context.Context, t *rpc.Tensor, a Arg) error {
	if a.Data == nil {
		err := t.Fill(ctx, a.Seed)
		var missing *rpc.NotFoundError
		if !errors.As(err, &missing) {
			return err
		}
	}
	data, err := a.content()
	if err != nil {
		return err
	}
	return t.Write(ctx, data)
}

// free frees the tensors that do not lie in flash.
func (h *arguments) free(ctx context.Context) error {
	for i, t := range h.tensors {
		if h.specs[i].Flash {
			continue
		}
		if err := t.Free(ctx); err != nil {
			return err
		}
	}
	return nil
}

// values returns the tensors as arguments of a call.
func (h *arguments) values() (all []any) {
	for _, t := range h.tensors {
		all = append(all, t)
	}
	return all
}

// hasInOut reports whether an argument is both an input and an output.
func (h *arguments) hasInOut() bool {
	return slices.ContainsFunc(h.specs, func(a Arg) bool { return a.Want != nil && a.isInput() })
}

const poisonSeed = 0x9e3779b97f4a7c15 // arbitrary

// poisonOutputs overwrites the outputs, so that stale results are not accepted. It writes the input of an argument that
// is both.
func (h *arguments) poisonOutputs(ctx context.Context) error {
	for i, a := range h.specs {
		if a.Want == nil {
			continue
		}
		if !a.isInput() {
			a = Arg{DType: a.DType, Shape: a.Shape, Seed: poisonSeed}
		}
		if err := writeArgument(ctx, h.tensors[i], a); err != nil {
			return err
		}
	}
	return nil
}

// checkOutputs returns an error of class wrong-answer for an output that differs from the expected one by more than its
// tolerance. It reads a tensor only if its CRC differs.
func (h *arguments) checkOutputs(ctx context.Context) error {
	for i, a := range h.specs {
		if a.Want == nil {
			continue
		}
		equal, err := h.hasContent(ctx, i, a.Want)
		if err != nil {
			return err
		}
		if equal {
			continue
		}
		data := make([]byte, h.tensors[i].Bytes())
		if err := h.tensors[i].Read(ctx, data); err != nil {
			return err
		}
		if err := compareOutput(i, a, data); err != nil {
			return err
		}
	}
	return nil
}

// checkInputs returns an error of class wrong-answer for an input that the candidate has changed, and restores the
// input for the next candidate.
func (h *arguments) checkInputs(ctx context.Context) error {
	for i, a := range h.specs {
		if !a.isInput() || a.Want != nil {
			continue
		}
		data, err := a.content()
		if err != nil {
			return err
		}
		equal, err := h.hasContent(ctx, i, data)
		if err != nil {
			return err
		}
		if equal {
			continue
		}
		if err := writeArgument(ctx, h.tensors[i], a); err != nil {
			return err
		}
		return failure.Errorf(failure.WrongAnswer, "argument %d: the candidate changes its input", i)
	}
	return nil
}

// hasContent reports whether the CRC-32 of argument i is that of data.
func (h *arguments) hasContent(ctx context.Context, i int, data []byte) (bool, error) {
	sum, err := h.tensors[i].CRC32(ctx)
	return sum == crc32.ChecksumIEEE(data), err
}

// compareOutput compares the content of argument n with the expected one, element by element. It is called for content
// whose bytes differ.
func compareOutput(n int, a Arg, content []byte) error {
	want := ndarray.Array{DType: a.DType, Shape: a.Shape, Data: a.Want}
	got := ndarray.Array{DType: a.DType, Shape: a.Shape, Data: content}
	if err := want.Check(); err != nil {
		return failure.Errorf(failure.Config, "what is wanted of argument %d: %w", n, err)
	}
	wrong, first, largest := 0, -1, 0.0
	for i := range want.Len() {
		difference, ok := tolerance.Compare(&got, &want, i, a.AbsTol, a.RelTol)
		if ok {
			continue
		}
		if wrong++; first < 0 {
			first = i
		}
		largest = max(largest, difference) // NaN, if one has no distance
	}
	switch {
	case wrong == 0 && (a.AbsTol > 0 || a.RelTol > 0):
		return nil
	case wrong == 0:
		return failure.Errorf(failure.WrongAnswer, "argument %d: other bytes, of equal value", n)
	}
	return failure.Errorf(failure.WrongAnswer,
		"argument %d: %d of %d elements differ, the first is %d: %v, wanted %v; the largest difference is %v",
		n, wrong, want.Len(), first, got.Float(first), want.Float(first), largest)
}
