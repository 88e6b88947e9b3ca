// This file continues a session after a reset of the device, and reports the fault that caused it.

package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// A recovery continues a session after resets of the device. It is the layer of a Session above copier.
type recovery struct {
	copier
	reviving bool // Redial is in progress: another reset does not restart it

	explain  func(*fault.Record, string) fault.Explanation
	locate   func([]byte, uint64) []fault.Frame
	uploaded []codeRange   // before the last reset
	granted  time.Duration // the budget before it; 0: unknown

	recordRead bool         // the record from before the session was requested
	prior      *fault.Error // that fault, or one while no request was waiting
}

// A codeRange is code that was uploaded, with its ELF file.
type codeRange struct {
	base, size uint64
	elf        []byte
}

// reviveRequest continues the session after a reset during a request, and returns the request's error.
func (r *recovery) reviveRequest(ctx context.Context, err error) error {
	if r.reviving {
		return err
	}

	record, recordErr := r.redial(ctx)
	if recordErr != nil || record == nil {
		return resetError(err, recordErr)
	}
	return r.faultError(record, err)
}

// resume continues the session after a reset whose Redial failed.
func (r *recovery) resume(ctx context.Context) error {
	if r.resetErr == nil || r.broken != nil {
		return nil
	}

	resetErr := r.resetErr
	if err := r.restart(ctx); err != nil {
		return resetError(resetErr, err)
	}
	return nil
}

// restart begins a new session while no request is waiting.
func (r *recovery) restart(ctx context.Context) error {
	record, err := r.redial(ctx)
	switch {
	case err != nil && r.lost():
		return err
	case err != nil:
		r.warnUnread(err)
	case record != nil:
		r.keepPrior(record)
	}
	return nil
}

// Renew begins a new session with the device on the same link. What the former one has on the device, tensors and
// modules, is freed there, and lost as in a reset. The transport must have Redial. Errors: those of a request, after
// which the next request tries again.
func (s *Session) Renew(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.lose(failure.Errorf(failure.Transport, "no new session with the device has begun"))
	return s.restart(ctx)
}

func (r *recovery) warnUnread(err error) {
	r.log.Warn("the device's fault record cannot be read", "error", err)
}

// redial begins a new session with the device and returns its fault record, or nil.
func (r *recovery) redial(ctx context.Context) (*fault.Record, error) {
	r.reviving = true
	defer func() { r.reviving = false }()

	ctx, cancel := r.limit(ctx)
	defer cancel()

	redialer, ok := r.transport.(redialer)
	if !ok {
		return nil, r.resetErr // of Renew: without Redial a reset ends the session
	}

	if err := redialer.Redial(ctx); err != nil {
		return nil, err
	}

	// The record that follows is this reset's: priorFault need not request it.
	r.resetErr, r.recordRead = nil, true
	r.log.Debug("the device was reset; a new session began")
	return r.takeRecord(ctx)
}

const faultFunction = "boardsmith.fault"

// takeRecord fetches the device's fault record and confirms it, whereupon the device clears it. It returns nil if there
// is none.
func (r *recovery) takeRecord(ctx context.Context) (*fault.Record, error) {
	handle, err := r.lookup(ctx, faultFunction)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	// With the argument 0 the record stays until it is confirmed.
	record, err := r.readRecord(ctx, handle, tvmrpc.Int(0))
	var rejected *DeviceError
	for tries := 1; tries < attempts && errors.Is(err, transport.ErrDamaged); tries++ { // the device still has it
		record, err = r.readRecord(ctx, handle, tvmrpc.Int(0))
	}

	switch {
	case errors.As(err, &rejected): // firmware that clears the record when it is read
		record, err = r.readRecord(ctx, handle)
	case len(record) >= crc32.Size:
		// If this fails, the record remains, and is read again as an earlier fault.
		_, _ = r.readRecord(ctx, handle, tvmrpc.Int(int64(binary.LittleEndian.Uint32(record[len(record)-crc32.Size:]))))
	}

	if err != nil || record == nil {
		return nil, err
	}
	parsed, err := fault.ParseRecord(record)
	if err != nil {
		return nil, tvmrpc.Errorf("%v", err)
	}
	return parsed, nil
}

// readRecord calls boardsmith.fault. It returns nil if there is no record.
func (r *recovery) readRecord(ctx context.Context, handle uint64, received ...tvmrpc.Value) ([]byte, error) {
	result, err := r.callScalar(ctx, handle, received...)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", faultFunction, err)
	}

	switch b := result.(type) {
	case nil:
		return nil, nil
	case []byte:
		return bytes.Clone(b), nil
	}
	return nil, tvmrpc.Errorf("%s returned %T", faultFunction, result)
}

// faultError returns the error for a record. cause is the link's error, or nil if no request was waiting.
func (r *recovery) faultError(rec *fault.Record, cause error) *fault.Error {
	if cause != nil {
		r.checkBudget(rec)
	}

	e := &fault.Error{Record: rec, Function: r.names[rec.Function], Err: cause, Prior: cause == nil}
	if r.explain != nil {
		e.Explanation = r.explain(rec, e.Function)
	}

	r.locateUploaded(e)
	if e.Build != "" {
		e.Function = "" // the names are those of the current image
	}
	return e
}

// checkBudget makes a time-out with another budget than the call had a failed check: code has overwritten what the
// device keeps about the call.
func (r *recovery) checkBudget(rec *fault.Record) {
	if rec.Reason != fault.ReasonTimeout || r.granted == 0 || int64(rec.Code) == budgetMS(r.granted) {
		return
	}
	rec.Message = fmt.Sprintf("corrupted memory: a call with a time budget of %v ended as one of %v",
		time.Duration(budgetMS(r.granted))*time.Millisecond, time.Duration(rec.Code)*time.Millisecond)
	rec.Reason, rec.Code = fault.ReasonCheck, 0
}

// locateUploaded looks up the frames in uploaded code, which is not part of the image.
func (r *recovery) locateUploaded(e *fault.Error) {
	if r.locate == nil || !e.Record.PCValid {
		return
	}

	frames := e.Frames

	// If Explain has no frame for the place of the fault, that is added as the innermost.
	if len(frames) == 0 || frames[0].Function != "" {
		if r.uploadedAt(e.Record.PC) == nil {
			return
		}
		frames = slices.Insert(frames, 0, fault.Frame{PC: e.Record.PC})
	}

	e.Frames = nil
	for i, f := range frames {
		pc := f.PC
		switch {
		case i == 0:
			pc = e.Record.PC
		case e.Record.Arch == fault.ArchProcess:
			pc += e.Record.Status // Explain's addresses are the file's
		}

		code := r.uploadedAt(pc)
		if f.Function != "" || code == nil {
			e.Frames = append(e.Frames, f)
			continue
		}
		for _, located := range r.locate(code.elf, pc) {
			located.Guessed = f.Guessed
			e.Frames = append(e.Frames, located)
		}
	}
}

// uploadedAt returns the code with an address, uploaded before the last reset, or nil.
func (r *recovery) uploadedAt(pc uint64) *codeRange {
	for i, c := range r.uploaded {
		if c.elf != nil && pc-c.base < c.size {
			return &r.uploaded[i]
		}
	}
	return nil
}

func (r *recovery) keepPrior(rec *fault.Record) {
	r.prior = r.faultError(rec, nil)
	r.log.Warn(r.prior.Error())
}

// priorFault returns the fault from before the session, or one while no request was waiting; nil if there is none.
func (r *recovery) priorFault(ctx context.Context) (*fault.Error, error) {
	if r.recordRead {
		return r.prior, nil
	}

	rec, err := r.takeRecord(ctx)
	if err != nil && r.lost() {
		return nil, err
	}

	// Unless the session is lost, a record that cannot be read is not requested again.
	r.recordRead = true
	if err != nil {
		r.warnUnread(err)
	}
	if rec != nil {
		r.keepPrior(rec)
	}
	return r.prior, nil
}
