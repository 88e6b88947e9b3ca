// This file allocates, writes and reads tensors on the device.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync/atomic"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/transport"
)

// A Tensor is compact, row-major memory on the device. It belongs to its session and must be freed.
type Tensor struct {
	memory *memory
	ref    DLTensor
	bytes  int
	known  atomic.Int64 // the session's count of damages when its content was last known
}

// A memory is one allocation on the device, which several tensors may view.
type memory struct {
	session *Session
	life    int // the session's number of resets when it was allocated
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
		return m.session.freeHandle(ctx, m.handle, TypeNDArray)
	case lasting:
		return nil
	}
	return m.session.freeData(ctx, m.handle)
}

func (s *Session) freeData(ctx context.Context, handle uint64) error {
	p := s.begin(CodeFreeData)
	p.Args = append(p.Args, OnDevice(CPU), Opaque(handle))
	if err := s.exchangeVoid(ctx); err != nil {
		return fmt.Errorf("freeing a tensor: %w", err)
	}
	return nil
}

// newTensor checks a description, which may come from the device.
func (s *Session) newTensor(ref DLTensor) (*Tensor, error) {
	n, err := ndarray.Bytes(ref.DType, ref.Shape)
	if err != nil {
		return nil, err
	}
	t := &Tensor{memory: &memory{session: s, life: s.life}, ref: ref, bytes: n}
	t.known.Store(int64(s.damages))
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
	case t.memory.life != s.life:
		return &StaleError{t.String()}
	}
	return nil
}

// usable returns an error unless the tensor can be read or passed to a function.
func (t *Tensor) usable(s *Session) error {
	if err := t.valid(s); err != nil {
		return err
	}
	if t.known.Load() != int64(s.damages) {
		return &DamagedCopyError{What: fmt.Sprintf("the content of %v is unknown since", t)}
	}
	return nil
}

// Empty allocates a tensor. Its content is undefined.
func (s *Session) Empty(ctx context.Context, dtype ndarray.DType, shape []int64) (*Tensor, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	t, err := s.newTensor(DLTensor{Device: CPU, DType: dtype, Shape: slices.Clone(shape)})
	if err != nil {
		return nil, failure.Errorf(failure.Config, "tensor %v%s: %w", dtype, ndarray.ShapeString(shape), err)
	}
	p := s.begin(CodeAllocDataWithScope)
	p.Args = append(p.Args, TensorOf(&t.ref), Null())
	return t, s.allocate(ctx, t)
}

// Alloc allocates memory, aligned to a power of two, as a tensor of bytes. View gives it another type and shape.
func (s *Session) Alloc(ctx context.Context, bytes, alignment int) (*Tensor, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	kind := ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}
	t, err := s.newTensor(DLTensor{Device: CPU, DType: kind, Shape: []int64{int64(bytes)}})
	if err != nil {
		return nil, failure.Errorf(failure.Config, "memory of %d bytes: %w", bytes, err)
	}
	p := s.begin(CodeAllocData)
	p.Args = append(p.Args, OnDevice(CPU), Int(int64(bytes)), Int(int64(alignment)), DType(kind))
	return t, s.allocate(ctx, t)
}

// allocate exchanges the allocation in s.request.
func (s *Session) allocate(ctx context.Context, t *Tensor) error {
	h, err := s.exchangeHandle(ctx)
	if err != nil {
		return fmt.Errorf("allocating %d bytes: %w", t.bytes, err)
	}
	if h == 0 {
		return fmt.Errorf("allocating %d bytes: %w", t.bytes, &DeviceError{outOfMemory})
	}
	t.ref.Data, t.memory.handle = h, h
	s.own(t.memory)
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
	t, err := s.newTensor(DLTensor{Data: uint64(h), Device: CPU, DType: dtype, Shape: slices.Clone(shape)})
	if err != nil {
		return nil, failure.Errorf(failure.Config, "tensor %v%s: %w", dtype, ndarray.ShapeString(shape), err)
	}
	t.memory.kind = lasting
	return t, nil
}

// View returns a tensor of another type and shape at the beginning of t's memory. Freeing either frees both.
func (t *Tensor) View(dtype ndarray.DType, shape []int64) (*Tensor, error) {
	n, err := ndarray.Bytes(dtype, shape)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "view %v%s: %w", dtype, ndarray.ShapeString(shape), err)
	}
	if n > t.bytes {
		return nil, failure.Errorf(failure.Config, "view %v%s: %d bytes of %d", dtype, ndarray.ShapeString(shape), n,
			t.bytes)
	}
	view := &Tensor{memory: t.memory, ref: t.ref, bytes: n}
	view.ref.DType, view.ref.Shape = dtype, slices.Clone(shape)
	view.known.Store(t.known.Load())
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
	t.known.Store(int64(s.damages))
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
	delete(s.live, t.memory)
	if t.memory.life != s.life {
		t.memory.freed = true
		return nil
	}
	return t.memory.free(ctx)
}

// CopyTo copies the content of t to another tensor of the session, of the same size, on the device.
func (t *Tensor) CopyTo(ctx context.Context, to *Tensor) error {
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := t.usable(s)
	if err == nil {
		err = to.valid(s)
	}
	if err == nil && t.bytes != to.bytes {
		err = failure.Errorf(failure.Config, "%d bytes into %d", t.bytes, to.bytes)
	}
	if err == nil {
		p := s.begin(CodeCopyAmongRemote)
		p.Args = append(p.Args, TensorOf(&t.ref), TensorOf(&to.ref), Opaque(0))
		err = s.exchangeVoid(ctx)
	}
	if err != nil {
		return fmt.Errorf("copying on the device: %w", err)
	}
	to.known.Store(int64(s.damages))
	return nil
}

// Write fills the tensor with data, which must have its size. Over a lossy link it verifies the copy.
func (t *Tensor) Write(ctx context.Context, data []byte) error {
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := t.fits(s, data)
	if err == nil {
		err = s.write(ctx, t, data)
	}
	if err != nil {
		return fmt.Errorf("writing a tensor: %w", err)
	}
	t.known.Store(int64(s.damages))
	return nil
}

// Fill fills the tensor with ndarray.Fill's numbers, which the device computes: nothing but the seed goes over the
// link. It is a *NotFoundError if the firmware does not support that.
func (t *Tensor) Fill(ctx context.Context, seed uint64) error {
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := t.valid(s)
	if err == nil {
		err = s.globalOnce(ctx, &s.known.fill, "boardsmith.fill")
	}
	if err == nil {
		t.known.Store(int64(s.damages)) // its content so far does not matter
		_, err = s.callFunction(ctx, s.known.fill, []any{t, int64(seed)})
	}
	if err != nil {
		return fmt.Errorf("filling a tensor: %w", err)
	}
	return nil
}

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
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	err := t.fits(s, data)
	if err == nil {
		err = t.usable(s)
	}
	if err == nil {
		_, err = s.read(ctx, t, data[:0])
	}
	if err != nil {
		return fmt.Errorf("reading a tensor: %w", err)
	}
	return nil
}

// Array reads the tensor into a new array, which the caller owns. It allocates memory only for data that arrive.
func (t *Tensor) Array(ctx context.Context) (*ndarray.Array, error) {
	s := t.memory.session
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	data := []byte{}
	err := t.usable(s)
	if err == nil {
		data, err = s.read(ctx, t, data)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a tensor: %w", err)
	}
	return &ndarray.Array{DType: t.ref.DType, Shape: t.Shape(), Data: data}, nil
}

// abilities caches how a device handles long messages.
type abilities struct {
	known   bool
	streams bool     // boardsmith's firmware: one message holds a copy of any length
	crc32   Function // boardsmith's crc32 function

	asked  bool // packet is known
	packet int  // longest message, bytes, except streamed copies; 0 if unknown
}

// The lengths of copies, in bytes.
const (
	wholeBlock = 1 << 20  // one message of a copy
	lossyBlock = 32 << 10 // on a lossy link: damage costs little
	sureBlock  = 3 << 10  // up to this size, heads included, the frame's CRC-16 detects any three flipped bits
)

// copyHead is the size of a copy's message without data and shape: session header, packet, tensor, size.
const copyHead = 3 + 8 + 44

// learn asks the device, once, whether it supports streaming.
func (s *Session) learn(ctx context.Context) error {
	a := &s.known.abilities
	if a.known {
		return nil
	}
	defer s.aside()()
	crc, err := s.global(ctx, "boardsmith.crc32")
	var missing *NotFoundError
	if err != nil && !errors.As(err, &missing) {
		return err
	}
	a.known, a.streams, a.crc32 = true, err == nil, crc
	return nil
}

// packetSize asks the device, once, for its longest message (rpc.md §7). Without an argument boardsmith's firmware
// returns at most 2048, the limit of TVM's host; with an argument, which TVM's firmware ignores, it returns its
// real limit.
func (s *Session) packetSize(ctx context.Context) (int, error) {
	a := &s.known.abilities
	if a.asked {
		return a.packet, nil
	}
	defer s.aside()()
	f, err := s.global(ctx, "tvm.rpc.server.GetCRTMaxPacketSize")
	var missing *NotFoundError
	if errors.As(err, &missing) {
		a.asked = true
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	p := s.begin(CodeCallFunc)
	p.Handle = f.handle
	p.Args = append(p.Args, Int(1))
	result, err := s.call(ctx, f.name)
	if err != nil {
		return 0, fmt.Errorf("calling %s: %w", f.name, err)
	}
	n, ok := result.(int64)
	if !ok || n <= 0 || n > 1<<31 {
		return 0, s.breakUp(protocolErrorf("%s returned %v", f.name, result))
	}
	const notCounted = 11 // the packet's length and the session's header
	a.asked, a.packet = true, int(n)+notCounted
	return a.packet, nil
}

// aside saves s.request, so that another request can be made; the function that it returns restores it.
func (s *Session) aside() func() {
	saved := s.request
	saved.Args = slices.Clone(saved.Args)
	return func() { s.request = saved }
}

// checkLength returns an error for a call that is too long for the device. It asks the device for its limit only if
// the call exceeds the smallest one.
func (s *Session) checkLength(ctx context.Context, name string) error {
	const always = 512          // the smallest buffer in use
	const heads = 3 + 8 + 4 + 8 // session, length, code, function
	n := heads + argsSize(s.request.Args) + len(s.request.Version)
	if n <= always {
		return nil
	}
	limit, err := s.packetSize(ctx)
	if err != nil {
		return err
	}
	if limit > 0 && n > limit {
		return &LimitError{What: "call of " + name, Bytes: n, Limit: limit, Macro: packetMacro}
	}
	return nil
}

// block returns how many bytes of t one message copies.
func (s *Session) block(ctx context.Context, t *Tensor) (int, error) {
	if err := s.learn(ctx); err != nil {
		return 0, err
	}
	n := wholeBlock
	if s.transport.Lossy() {
		n = lossyBlock
	}
	if b, ok := s.transport.(transport.Bounded); s.known.abilities.streams && !(ok && b.Bounded()) {
		return n, nil
	}
	limit, err := s.packetSize(ctx)
	if err != nil {
		return 0, err
	}
	if limit > 0 {
		head := copyHead + 8*len(t.ref.Shape)
		if limit <= head {
			return 0, &LimitError{
				What: fmt.Sprintf("copy of a tensor of rank %d", len(t.ref.Shape)), Bytes: head + 1, Limit: limit,
				Macro: packetMacro,
			}
		}
		n = min(n, limit-head)
	}
	return n, nil
}

// write copies data to t. A damaged copy may have changed any memory, including earlier blocks: write then compares
// the whole tensor at the end, and repeats the copy if it differs.
func (s *Session) write(ctx context.Context, t *Tensor, data []byte) error {
	n, err := s.block(ctx, t)
	if err != nil {
		return err
	}
	for range attempts {
		before := s.damages
		for at := 0; at < len(data); at += n {
			if err := s.writeBlock(ctx, t, at, data[at:min(at+n, len(data))]); err != nil {
				return err
			}
		}
		if s.damages == before {
			return nil
		}
		if same, err := s.confirm(ctx, t, 0, data); same || err != nil {
			return err
		}
	}
	return &DamagedCopyError{What: fmt.Sprintf("damaged in each of %d attempts", attempts)}
}

// writeBlock copies one block, and repeats that after damage.
func (s *Session) writeBlock(ctx context.Context, t *Tensor, at int, block []byte) error {
	var err error
	for range attempts {
		err = s.copyToRemote(ctx, t, at, block)
		var damaged *DamagedCopyError
		switch {
		case errors.As(err, &damaged):
			s.damaged(err)
		case s.again(err): // whether or not the copy was done, repeating it is harmless
		case err != nil:
			return err
		case !s.doubtful(block):
			return nil
		default:
			same, confirmErr := s.confirm(ctx, t, at, block)
			if same || confirmErr != nil {
				return confirmErr
			}
			err = &DamagedCopyError{What: fmt.Sprintf("%d bytes arrived with a wrong CRC-32", len(block))}
			s.damaged(err)
		}
	}
	return err
}

// again reports whether err may result from damage to the request or the reply.
func (s *Session) again(err error) bool {
	if err == nil {
		return false
	}
	var reply *transport.DamagedError
	var refused *DeviceError // perhaps because the address was damaged
	return errors.As(err, &reply) || s.transport.Lossy() && errors.As(err, &refused)
}

// doubtful reports whether the frame's CRC-16 may miss damage to a block.
func (s *Session) doubtful(block []byte) bool {
	return s.transport.Lossy() && len(block) > sureBlock && s.known.abilities.streams
}

func (s *Session) copyToRemote(ctx context.Context, t *Tensor, at int, block []byte) error {
	p := s.begin(CodeCopyToRemote)
	p.Tensor = t.ref
	p.Tensor.ByteOffset += uint64(at)
	p.Data = block
	return s.exchangeVoid(ctx)
}

// read appends the content of t to data, and uses its capacity.
func (s *Session) read(ctx context.Context, t *Tensor, data []byte) ([]byte, error) {
	n, err := s.block(ctx, t)
	if err != nil {
		return nil, err
	}
	for at := 0; at < t.bytes; at += n {
		if data, err = s.readBlock(ctx, t, at, min(n, t.bytes-at), data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// readBlock appends one block, and repeats the request after damage.
func (s *Session) readBlock(ctx context.Context, t *Tensor, at, n int, data []byte) ([]byte, error) {
	var err error
	for range attempts {
		var block []byte
		block, err = s.copyFromRemote(ctx, t, at, n)
		switch {
		case s.again(err):
			continue
		case err != nil:
			return nil, err
		}
		got := append(data, block...)
		if !s.doubtful(block) {
			return got, nil
		}
		same, confirmErr := s.confirm(ctx, t, at, got[len(data):])
		if same || confirmErr != nil {
			return got, confirmErr
		}
		err = &transport.DamagedError{Why: fmt.Sprintf("%d bytes with a wrong CRC-32", n)}
	}
	return nil, err
}

func (s *Session) copyFromRemote(ctx context.Context, t *Tensor, at, n int) ([]byte, error) {
	p := s.begin(CodeCopyFromRemote)
	p.Tensor = t.ref
	p.Tensor.ByteOffset += uint64(at)
	p.Size = uint64(n)
	if err := s.exchange(ctx); err != nil {
		return nil, err
	}
	if len(s.reply.Data) != n {
		return nil, s.breakUp(protocolErrorf("%d bytes in answer to a copy of %d", len(s.reply.Data), n))
	}
	return s.reply.Data, nil
}

// confirm compares data with t's content on the device from offset at on, by the device's CRC-32. It returns nil if
// the device lacks that function.
func (s *Session) confirm(ctx context.Context, t *Tensor, at int, data []byte) (bool, error) {
	if !s.known.abilities.streams {
		return true, nil
	}
	ref := DLTensor{
		Data: t.ref.Data, Device: t.ref.Device, DType: ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1},
		Shape: []int64{int64(len(data))}, ByteOffset: t.ref.ByteOffset + uint64(at),
	}
	var err error
	for range attempts {
		p := s.begin(CodeCallFunc)
		p.Handle = s.known.abilities.crc32.handle
		p.Args = append(p.Args, TensorOf(&ref))
		var result any
		result, err = s.call(ctx, s.known.abilities.crc32.name)
		switch {
		case s.again(err):
			continue
		case err != nil:
			return false, fmt.Errorf("calling %s: %w", s.known.abilities.crc32.name, err)
		}
		sum, ok := result.(int64)
		if !ok {
			return false, s.breakUp(protocolErrorf("%s returned %T", s.known.abilities.crc32.name, result))
		}
		return uint32(sum) == crc32.ChecksumIEEE(data), nil
	}
	return false, err
}
