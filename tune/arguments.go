// This file holds the arguments of candidates on a device, and compares them with what is expected.
//
// All arguments lie in one block of memory: inputs, then outputs, with a guard of random numbers before and after each.
// Once outputs that are not compared are filled again, the whole content is known after a call, and one CRC-32 compares
// it. Between calls, outputs alone are filled again: what a candidate does to guards and inputs adds up, so that what
// one call undoes of another is seen if the block is compared after two successive calls.

package tune

import (
	"bytes"
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

var bytesType = ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}

// arguments are tensors on a device, one for each Arg. They are valid until the session closes or the device resets.
type arguments struct {
	specs   []Arg
	plan    plan
	block   *rpc.Tensor
	tensors []*rpc.Tensor
	content []byte // of the block after a call, with the wanted outputs
	seed    uint64 // of the outputs

	second  *secondInput // nil: no input has different elements
	damaged bool         // a call may have overwritten inputs or guards
}

// newArguments allocates the block and writes the inputs.
func newArguments(ctx context.Context, s *rpc.Session, args []Arg) (h *arguments, err error) {
	h = &arguments{specs: args, plan: planOf(args), tensors: make([]*rpc.Tensor, len(args)), seed: 1}
	if h.block, err = s.Alloc(ctx, h.plan.bytes, guardBytes); err != nil {
		return nil, err
	}

	h.content = make([]byte, h.plan.bytes)
	if err = h.fill(ctx, 0, h.plan.bytes); err != nil {
		return nil, err
	}
	for i, a := range args {
		if a.Flash {
			h.tensors[i], err = flashArgument(ctx, s, a)
		} else {
			h.tensors[i], err = h.block.View(h.plan.offsets[i], a.DType, a.Shape)
		}
		// An input in flash is in the firmware already.
		if err == nil && !a.Flash && a.isInput() {
			err = h.writeInput(ctx, i)
		}
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
	}

	h.second = h.newSecondInput()
	return h, nil
}

// fill fills a part of the block with the numbers of the current seed.
func (h *arguments) fill(ctx context.Context, offset, size int) error {
	t, err := h.view(offset, size)
	if err != nil {
		return err
	}
	array, err := ndarray.Fill(bytesType, t.Shape(), h.seed)
	if err != nil {
		return err
	}
	return h.write(ctx, t, offset, h.seed, array.Data)
}

// write writes a part of the block. If its data has a seed other than 0, the device computes it where it can.
func (h *arguments) write(ctx context.Context, t *rpc.Tensor, offset int, seed uint64, data []byte) error {
	copy(h.content[offset:], data)
	if seed != 0 {
		// Firmware may lack the function: then the bytes are sent.
		if err := t.Fill(ctx, seed); !errors.Is(err, rpc.ErrNotFound) {
			return err
		}
	}
	return t.Write(ctx, data)
}

// writeInput writes the content of argument i.
func (h *arguments) writeInput(ctx context.Context, i int) error {
	a := h.specs[i]
	data, err := a.content()
	if err != nil {
		return err
	}
	// Seed counts only without Data.
	if a.Data != nil {
		a.Seed = 0
	}
	return h.write(ctx, h.tensors[i], h.plan.offsets[i], a.Seed, data)
}

// A secondInput is the difference of a second set of inputs: two neighbouring elements of one input change places,
// which leaves most inputs valid, and is few bytes for a slow link.
type secondInput struct {
	at, size int  // offset of the elements in the block, and the size of one
	used     bool // they have changed places

	outputs uint32 // outputDifference after the candidate's first call with them
}

// newSecondInput returns the second inputs of the largest input that has different elements; nil if there is none. One
// of floating-point numbers is preferred: integers may be offsets that must ascend.
func (h *arguments) newSecondInput() (best *secondInput) {
	heaviest := 0
	for i, a := range h.specs {
		weight := h.tensors[i].Bytes()
		if a.DType.Code == ndarray.Float {
			weight += ndarray.MaxBytes
		}
		if a.Flash || a.isOutput() || weight <= heaviest {
			continue
		}

		at, size := h.plan.offsets[i], a.DType.Size()
		if first := differing(h.content[at:][:h.tensors[i].Bytes()], size); first >= 0 {
			heaviest, best = weight, &secondInput{at: at + first, size: size}
		}
	}
	return best
}

// view returns a part of the block.
func (h *arguments) view(offset, size int) (*rpc.Tensor, error) {
	return h.block.View(offset, bytesType, []int64{int64(size)})
}

// differing returns the offset of two neighbouring elements of data that differ, from the middle on; -1 if all are
// equal.
func differing(data []byte, size int) int {
	pairs := len(data)/size - 1
	for i := range pairs {
		at := (pairs/2 + i) % pairs * size
		if !bytes.Equal(data[at:at+size], data[at+size:at+2*size]) {
			return at
		}
	}
	return -1
}

// use prepares a call with the first or the second inputs: it writes them, unless they are there, and refills outputs.
func (h *arguments) use(ctx context.Context, second bool) error {
	if s := h.second; s != nil && s.used != second {
		s.used = second
		both := h.content[s.at:][:2*s.size]
		t, err := h.view(s.at, len(both))
		if err == nil {
			err = h.write(ctx, t, s.at, 0, slices.Concat(both[s.size:], both[:s.size]))
		}
		if err != nil {
			return err
		}
	}
	return h.refill(ctx)
}

// refill fills the outputs with other numbers than before, so that stale results are not right. It writes the input of
// an argument that is both.
func (h *arguments) refill(ctx context.Context) (err error) {
	h.damaged = true // until the block was compared
	h.seed++

	for i, a := range h.specs {
		switch {
		case err != nil || !a.isOutput():
		case a.isInput():
			err = h.writeInput(ctx, i)
		default:
			err = h.fill(ctx, h.plan.offsets[i], h.tensors[i].Bytes())
		}
		// Want is nil for inputs, and for outputs that are not compared.
		copy(h.content[h.plan.offsets[i]:], a.Want)
	}
	return err
}

// outputDifference returns the difference of the compared outputs.
func (h *arguments) outputDifference(ctx context.Context) (sum uint32, err error) {
	for i, a := range h.specs {
		if err == nil && a.Want != nil {
			var one uint32
			one, err = h.difference(ctx, h.plan.offsets[i], len(a.Want))
			sum ^= one
		}
	}
	return sum, err
}

// difference compares a part of the block with what is expected after a call: 0 if it is equal. Else it is that of the
// whole block if nothing else differs, and depends on the bytes that differ only: CRC-32 is linear, so that content
// cancels out.
func (h *arguments) difference(ctx context.Context, offset, size int) (uint32, error) {
	t, err := h.view(offset, size)
	if err != nil {
		return 0, err
	}
	sum, err := t.CRC32(ctx)

	// The device has accepted the block before the call.
	if errors.As(err, new(*rpc.DeviceError)) {
		err = failure.Errorf(failure.WrongAnswer,
			"the candidate writes beside its arguments, into the device's list of allocated memory: %w", err)
	}

	// Equal bytes behind the part shift its difference, as the same number of zeros do.
	behind := make([]byte, h.plan.bytes-offset-size)
	sum ^= crc32.ChecksumIEEE(h.content[offset:][:size])
	return crc32.Update(sum, crc32.IEEETable, behind) ^ crc32.ChecksumIEEE(behind), err
}

// check returns an error of class wrong-answer for an output that differs from the expected one by more than its
// tolerance, and if anything else in the block was overwritten. It reads outputs only if the block's CRC differs.
func (h *arguments) check(ctx context.Context) error {
	difference, err := h.checkRest(ctx, 0)
	if err != nil || difference == 0 {
		return err
	}

	for i, a := range h.specs {
		if a.Want == nil {
			continue
		}
		data := make([]byte, h.tensors[i].Bytes())
		if err := h.tensors[i].Read(ctx, data); err != nil {
			return err
		}
		if !bytes.Equal(data, a.Want) {
			if err := compareOutput(i, a, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepOther keeps the outputs for the second inputs for checkOther.
func (h *arguments) keepOther(ctx context.Context) (err error) {
	h.second.outputs, err = h.outputDifference(ctx)
	return err
}

// checkOther returns an error of class wrong-answer for other outputs than those of keepOther, and if anything else in
// the block was overwritten.
func (h *arguments) checkOther(ctx context.Context) error {
	difference, err := h.checkRest(ctx, h.second.outputs)
	if err == nil && difference != h.second.outputs {
		err = failure.Errorf(failure.WrongAnswer, "its outputs for equal inputs differ from call to call: it remembers "+
			"earlier calls, or reads memory that is not an argument and that it has not written")
	}
	return err
}

// checkRest returns the difference of the block, and an error of class wrong-answer if anything but outputs differs. It
// compares outputs by themselves unless the difference is 0 or a known one of outputs. It overwrites those that are not
// compared.
func (h *arguments) checkRest(ctx context.Context, known uint32) (difference uint32, err error) {
	for i, a := range h.specs {
		if err == nil && !a.isInput() && a.Want == nil {
			err = h.fill(ctx, h.plan.offsets[i], h.tensors[i].Bytes())
		}
	}

	if err == nil {
		difference, err = h.difference(ctx, 0, h.plan.bytes)
	}

	// Only outputs differ in the block if their own difference is the same.
	if err == nil && difference != 0 && difference != known {
		known, err = h.outputDifference(ctx)
		if err == nil && difference != known {
			err = h.findDamage(ctx)
		}
	}

	h.damaged = err != nil
	return difference, err
}

// findDamage returns the error of inputs or guards that were overwritten.
func (h *arguments) findDamage(ctx context.Context) error {
	for i, a := range h.specs {
		if a.Flash || a.isOutput() {
			continue
		}
		difference, err := h.difference(ctx, h.plan.offsets[i], h.tensors[i].Bytes())
		if err != nil {
			return err
		}
		if difference != 0 {
			return failure.Errorf(failure.WrongAnswer, "argument %d: the candidate changes its input", i)
		}
	}
	return failure.Errorf(failure.WrongAnswer, "the candidate writes beside its arguments")
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

// values returns the tensors as arguments of a call.
func (h *arguments) values() (all []any) {
	for _, t := range h.tensors {
		all = append(all, t)
	}
	return all
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
	// such as another sign of a zero
	case wrong == 0:
		return failure.Errorf(failure.WrongAnswer, "argument %d: other bytes, of equal value", n)
	}
	return failure.Errorf(failure.WrongAnswer,
		"argument %d: %d of %d elements differ, the first is %d: %v, wanted %v; the largest difference is %v",
		n, wrong, want.Len(), first, got.Float(first), want.Float(first), largest)
}
