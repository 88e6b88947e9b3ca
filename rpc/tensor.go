// This file allocates, writes and reads tensors on the device.

package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync/atomic"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
)

// A Tensor is compact, row-major memory on the device. It belongs to its session and must be freed.
type Tensor struct {
	memory  *memory
	ref     tvmrpc.DLTensor
	bytes   int
	damages atomic.Int64 // the session's, when the content was last certain
}

// A memory is one allocation on the device, which several tensors may view.
type memory struct {
	session *Session
	epoch   int // the session's when it was allocated
	handle  uint64
	kind    memoryKind
	freed   bool
}

type memoryKind uint8

const (
	allocated memoryKind = iota // by the host
	array                       // an array of the device, to be released
	lasting                     // the device's own memory, never freed
)

func (m *memory) free(ctx context.Context) error {
	m.freed = true
	switch m.kind {
	case array:
		return m.session.freeHandle(ctx, m.handle, tvmrpc.TypeNDArray)
	case lasting:
		return nil
	}
	return m.session.freeData(ctx, m.handle)
}

// newTensor checks a description, which may come from the device.
func (s *Session) newTensor(ref tvmrpc.DLTensor) (*Tensor, error) {
	n, err := ndarray.Bytes(ref.DType, ref.Shape)
	if err != nil {
		return nil, err
	}

	t := &Tensor{memory: &memory{session: s, epoch: s.epoch}, ref: ref, bytes: n}
	t.damages.Store(int64(s.damages))
	return t, nil
}

// DType returns the type of its elements.
func (t *Tensor) DType() ndarray.DType { return t.ref.DType }

// Shape returns a copy of its shape.
func (t *Tensor) Shape() []int64 { return slices.Clone(t.ref.Shape) }

// Bytes returns the size of its content.
func (t *Tensor) Bytes() int { return t.bytes }

func (t *Tensor) String() string {
	return fmt.Sprintf("tensor %v%s at %#x", t.ref.DType, ndarray.ShapeString(t.ref.Shape), t.ref.Data+t.ref.ByteOffset)
}

// valid returns an error unless the tensor belongs to s and is neither freed nor lost in a reset.
func (t *Tensor) valid(s *Session) error {
	switch {
	case t == nil:
		return failure.Errorf(failure.Internal, "nil tensor")
	case t.memory.session != s:
		return errOtherSession
	case t.memory.freed:
		return failure.Errorf(failure.Internal, "%v was freed", t)
	case t.memory.epoch != s.epoch:
		return fmt.Errorf("%v %w", t, ErrStale)
	}
	return nil
}

// usable returns an error unless the tensor can be read or passed to a function.
func (t *Tensor) usable(s *Session) error {
	if err := t.valid(s); err != nil {
		return err
	}
	if t.damages.Load() != int64(s.damages) {
		return fmt.Errorf("%w: the content of %v is unknown since", ErrDamagedCopy, t)
	}
	return nil
}

// Empty allocates a tensor. Its content is undefined.
func (s *Session) Empty(ctx context.Context, dtype ndarray.DType, shape []int64) (*Tensor, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()

	t, err := s.newTensor(tvmrpc.DLTensor{Device: tvmrpc.CPU, DType: dtype, Shape: slices.Clone(shape)})
	if err != nil {
		return nil, failure.Errorf(failure.Config, "tensor %v%s: %w", dtype, ndarray.ShapeString(shape), err)
	}

	p := s.begin(tvmrpc.CodeAllocDataWithScope)
	// Null: of no memory scope.
	p.Args = append(p.Args, tvmrpc.TensorOf(&t.ref), tvmrpc.Null())
	return t, s.allocate(ctx, t)
}

// Alloc allocates memory, aligned to a power of two, as a tensor of bytes. View gives it another type and shape.
func (s *Session) Alloc(ctx context.Context, bytes, alignment int) (*Tensor, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()

	kind := ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}
	t, err := s.newTensor(tvmrpc.DLTensor{Device: tvmrpc.CPU, DType: kind, Shape: []int64{int64(bytes)}})
	if err != nil {
		return nil, failure.Errorf(failure.Config, "memory of %d bytes: %w", bytes, err)
	}

	p := s.begin(tvmrpc.CodeAllocData)
	p.Args = append(p.Args, tvmrpc.OnDevice(tvmrpc.CPU), tvmrpc.Int(int64(bytes)), tvmrpc.Int(int64(alignment)),
		tvmrpc.DType(kind))
	return t, s.allocate(ctx, t)
}

// allocate exchanges the allocation in s.request.
func (s *Session) allocate(ctx context.Context, t *Tensor) error {
	h, err := s.exchangeHandle(ctx)
	if err != nil {
		return fmt.Errorf("allocating %d bytes: %w", t.bytes, err)
	}
	if h == 0 {
		return fmt.Errorf("allocating %d bytes: %w", t.bytes, &DeviceError{Message: outOfMemory})
	}

	t.ref.Data, t.memory.handle = h, h
	s.track(t.memory)
	return nil
}

// NewArray allocates a tensor and fills it with a's content.
func (s *Session) NewArray(ctx context.Context, a *ndarray.Array) (*Tensor, error) {
	t, err := s.Empty(ctx, a.DType, a.Shape)
	if err != nil {
		return nil, err
	}

	if err := t.Write(ctx, a.Data); err != nil {
		return nil, errors.Join(err, t.Free(ctx))
	}
	return t, nil
}

// TensorAt returns a tensor of the device's own memory, such as a parameter in flash, at a handle that a function
// of the device returned. boardsmith's firmware accepts it only if the memory is a window (boardsmith_window_add).
// The tensor need not be freed.
func (s *Session) TensorAt(ctx context.Context, h Handle, dtype ndarray.DType, shape []int64) (*Tensor, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.leave()

	t, err := s.newTensor(tvmrpc.DLTensor{Data: uint64(h), Device: tvmrpc.CPU, DType: dtype, Shape: slices.Clone(shape)})
	if err != nil {
		return nil, failure.Errorf(failure.Config, "tensor %v%s: %w", dtype, ndarray.ShapeString(shape), err)
	}

	t.memory.kind = lasting
	return t, nil
}

// View returns a tensor of another type and shape at an offset, in bytes, of t's memory. Freeing either frees both.
func (t *Tensor) View(offset int, dtype ndarray.DType, shape []int64) (*Tensor, error) {
	n, err := ndarray.Bytes(dtype, shape)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "view %v%s: %w", dtype, ndarray.ShapeString(shape), err)
	}

	if offset < 0 || offset > t.bytes || n > t.bytes-offset {
		return nil, failure.Errorf(failure.Config, "view %v%s: %d bytes at %d of %d", dtype, ndarray.ShapeString(shape), n,
			offset, t.bytes)
	}

	view := &Tensor{memory: t.memory, ref: t.ref, bytes: n}
	view.ref.Data += uint64(offset)
	view.ref.DType, view.ref.Shape = dtype, slices.Clone(shape)
	view.damages.Store(t.damages.Load())
	return view, nil
}

// Discard marks the tensor's content as irrelevant because the next call overwrites it, so that it may be passed to
// a function after a damaged copy. Errors: those of ctx.
func (t *Tensor) Discard(ctx context.Context) error {
	s := t.memory.session
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.leave()
	t.damages.Store(int64(s.damages))
	return nil
}

// Free frees the tensor's memory on the device. A second call, or one after a reset of the device, does nothing.
func (t *Tensor) Free(ctx context.Context) error {
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()

	if t.memory.freed {
		return nil
	}
	delete(s.objects, t.memory)

	// A reset has freed it already.
	if t.memory.epoch != s.epoch {
		t.memory.freed = true
		return nil
	}
	return t.memory.free(ctx)
}

// Write fills the tensor with data, which must have its size. Over a lossy link it verifies the copy.
func (t *Tensor) Write(ctx context.Context, data []byte) error {
	return t.overwrite(ctx, "writing", func(s *Session) error {
		if err := t.fits(s, data); err != nil {
			return err
		}
		return s.write(ctx, t.ref, data)
	})
}

// Fill fills the tensor with ndarray.Fill's numbers, which the device computes: only the seed goes over the
// link. It is ErrNotFound if the firmware does not support that.
func (t *Tensor) Fill(ctx context.Context, seed uint64) error {
	return t.overwrite(ctx, "filling", func(s *Session) error { return s.fill(ctx, t, seed) })
}

// overwrite replaces the tensor's content by a request of f.
func (t *Tensor) overwrite(ctx context.Context, doing string, f func(*Session) error) error {
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()

	if err := f(s); err != nil {
		return fmt.Errorf("%s a tensor: %w", doing, err)
	}
	t.damages.Store(int64(s.damages))
	return nil
}

func (s *Session) fill(ctx context.Context, t *Tensor, seed uint64) error {
	if err := t.valid(s); err != nil {
		return err
	}

	handle, err := s.lookup(ctx, fillFunction)
	if err != nil {
		return err
	}
	if err := s.checkResolved(fillFunction); err != nil {
		return err
	}
	if err := s.grant(ctx); err != nil {
		return err
	}

	_, err = s.callScalar(ctx, handle, tvmrpc.TensorOf(&t.ref), tvmrpc.Int(int64(seed)))
	return err
}

const fillFunction = "boardsmith.fill"

func (t *Tensor) fits(s *Session, data []byte) error {
	if err := t.valid(s); err != nil {
		return err
	}
	if len(data) != t.bytes {
		return failure.Errorf(failure.Config, "%d bytes for %v%s, which takes %d", len(data), t.ref.DType,
			ndarray.ShapeString(t.ref.Shape), t.bytes)
	}
	return nil
}

// Read reads the tensor's content into data, which must have its size. Over a lossy link it verifies the copy.
func (t *Tensor) Read(ctx context.Context, data []byte) error {
	_, err := t.read(ctx, func(s *Session) error { return t.fits(s, data) }, data[:0])
	return err
}

// Array reads the tensor into a new array, which the caller owns. It allocates memory only for data that arrive.
func (t *Tensor) Array(ctx context.Context) (*ndarray.Array, error) {
	data, err := t.read(ctx, t.valid, []byte{})
	if err != nil {
		return nil, err
	}
	return &ndarray.Array{DType: t.ref.DType, Shape: t.Shape(), Data: data}, nil
}

// read appends the content to data, after a check.
func (t *Tensor) read(ctx context.Context, check func(*Session) error, data []byte) ([]byte, error) {
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()

	err := cmp.Or(check(s), t.usable(s))
	if err == nil {
		data, err = s.read(ctx, t.ref, t.bytes, data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a tensor: %w", err)
	}
	return data, nil
}

// CRC32 returns the CRC-32 of the tensor's content. The device computes it if it can; else the content is read.
func (t *Tensor) CRC32(ctx context.Context) (uint32, error) {
	f, err := t.memory.session.Function(ctx, crcFunction)
	if errors.Is(err, ErrNotFound) {
		data := make([]byte, t.bytes)
		err = t.Read(ctx, data)
		return crc32.ChecksumIEEE(data), err
	}
	if err != nil {
		return 0, err
	}

	result, err := f.Call(ctx, t)
	if err != nil {
		return 0, err
	}
	sum, ok := result.(int64)
	if !ok {
		return 0, failure.Errorf(failure.Transport, "%s answered %T", crcFunction, result)
	}
	return uint32(sum), nil
}
