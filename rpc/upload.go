// This file uploads code into the device's RAM and calls it as a module (boardsmith.md, "Code in RAM").

package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
)

// A Window is free memory of the device that code can be uploaded to. Its base is a multiple of the alignment.
type Window struct {
	Base, Bytes uint64
	Alignment   uint64 // of code: a power of two
}

// A Program is code that was linked for one address of a window.
type Program struct {
	Base     uint64 // the address of Bytes, in a window
	Bytes    []byte
	Zero     uint64 // bytes behind them that are set to zero
	Table    uint64 // address of its pointer to a TVMBackendLinkTable, among all these bytes; 0: it has none
	Registry uint64 // address of its TVMFuncRegistry, among Bytes
	// Address of its list of boardsmith_signature_t, among Bytes; 0: it has none
	Signatures uint64
	Init       string // its function that Upload calls once, first; "": none
	ELF        []byte // the linked file, for the functions and lines in a *fault.Error; it is not uploaded; nil: none
}

const (
	windowVersion = 1
	windowBytes   = 24 // of one in the answer
)

// Windows returns the free memory for code, in the order of its addresses. It is ErrNotFound if the firmware takes
// none.
func (s *Session) Windows(ctx context.Context) ([]Window, error) {
	f, err := s.Function(ctx, "boardsmith.memory")
	if err != nil {
		return nil, err
	}

	result, err := f.Call(ctx)
	if err != nil {
		return nil, err
	}
	b, ok := result.([]byte)
	if !ok {
		return nil, tvmrpc.Errorf("%s returned %T, not bytes", f.name, result)
	}
	return parseWindows(b)
}

func parseWindows(b []byte) ([]Window, error) {
	if len(b) < 2 || b[0] != windowVersion || len(b) != 2+int(b[1])*windowBytes {
		return nil, tvmrpc.Errorf("memory: %d bytes that are not windows of version %d", len(b), windowVersion)
	}

	var all []Window
	for b = b[2:]; len(b) > 0; b = b[windowBytes:] {
		w := Window{
			Base: binary.LittleEndian.Uint64(b), Bytes: binary.LittleEndian.Uint64(b[8:]),
			Alignment: uint64(binary.LittleEndian.Uint32(b[20:])),
		}

		if w.Alignment == 0 || w.Alignment&(w.Alignment-1) != 0 || w.Base%w.Alignment != 0 || w.Base+w.Bytes < w.Base {
			return nil, tvmrpc.Errorf("memory: a window of %d bytes at %#x, aligned to %d", w.Bytes, w.Base, w.Alignment)
		}
		all = append(all, w)
	}
	return all, nil
}

// Upload writes code into a window and links it. The returned module must be freed by Unlink; until then only the code
// itself can change it. The device refuses code that is not in a window, that arrived damaged, or whose functions are
// outside of it: a *DeviceError. Code that needs a function that the system's libraries do not have is an error of
// class link.
func (s *Session) Upload(ctx context.Context, p Program) (Module, error) {
	f, err := s.Function(ctx, "boardsmith.upload_and_link")
	if err != nil {
		return Module{}, err
	}

	bytes := ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}
	// A window is the device's own memory, which is written as a tensor.
	t, err := s.TensorAt(ctx, Handle(p.Base), bytes, []int64{int64(len(p.Bytes))})
	if err != nil {
		return Module{}, err
	}
	if err := t.Write(ctx, p.Bytes); err != nil {
		return Module{}, fmt.Errorf("uploading %d bytes to %#x: %w", len(p.Bytes), p.Base, err)
	}

	sum := crc32.ChecksumIEEE(p.Bytes)
	args := []any{p.Base, len(p.Bytes), p.Zero, sum, p.Table, p.Registry}
	if p.Signatures != 0 {
		args = append(args, p.Signatures)
	}

	result, err := f.Call(ctx, args...)
	if err != nil {
		return Module{}, err
	}
	m, ok := result.(Module)
	if !ok {
		return Module{}, tvmrpc.Errorf("%s returned %T, not a module", f.name, result)
	}

	if m, err = s.register(ctx, m, &p); err != nil {
		return Module{}, err
	}

	if p.Init == "" {
		return m, nil
	}

	start, err := m.Function(ctx, p.Init)
	if err == nil {
		_, err = start.Call(ctx)
	}

	var rejected *DeviceError
	switch {
	case err == nil:
		return m, nil
	case errors.As(err, &rejected): // its text is the name of the missing function
		err = failure.Errorf(failure.Link, "uploaded code: the system's libraries have no %s", rejected.Message)
	default:
		err = fmt.Errorf("starting uploaded code: %w", err)
	}

	// Code that could not be started is removed again.
	return Module{}, errors.Join(err, m.Unlink(ctx))
}

// Unlink frees a module that Upload returned: its functions can no longer be called, and its memory is free. Another
// call does nothing, nor does one after a reset of the device, or of a module of the firmware.
func (m Module) Unlink(ctx context.Context) error {
	if m.upload == 0 {
		err := m.enter(ctx)
		if err == nil {
			m.session.leave()
		}
		return err
	}

	s := m.session
	f, err := s.Function(ctx, "boardsmith.unlink")
	if err != nil {
		return err
	}

	if !s.unregister(ctx, m) {
		return nil
	}
	m.upload = 0 // it is no longer registered
	_, err = f.Call(ctx, m)
	return err
}

// register makes a module distinct from others that had its handle before, or will have it after Unlink: a handle is an
// index on the device.
func (s *Session) register(ctx context.Context, m Module, p *Program) (Module, error) {
	if err := s.enter(ctx); err != nil {
		return Module{}, err
	}
	defer s.leave()

	// The call that returned m tracked it without the number of an upload.
	delete(s.objects, m)
	m.upload = s.created + 1
	s.track(m)
	s.loaded[m] = codeRange{p.Base, uint64(len(p.Bytes)), p.ELF}
	return m, nil
}

// unregister removes a module from those that the session frees. It returns false if there is nothing to free.
func (s *Session) unregister(ctx context.Context, m Module) bool {
	if s.enter(ctx) != nil {
		return false
	}
	defer s.leave()

	_, ok := s.objects[m]
	delete(s.objects, m)
	delete(s.loaded, m)
	return ok && m.epoch == s.epoch
}
