// This file handles a reset of the device during a session: the errors, and how the session continues.

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
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// A ResetError reports a device that was reset without a fault record: by its reset button or its supply, or because
// its firmware keeps none. All objects on it are lost. The session continues if Why is nil.
type ResetError struct {
	Err error // the last output of the link
	Why error // why the device could not be asked for its record; nil if it has none
}

func (e *ResetError) Error() string {
	if e.Why != nil {
		return fmt.Sprintf("%v; its fault record could not be read: %v", e.Err, e.Why)
	}
	return e.Err.Error() + "; it has no fault record"
}

func (e *ResetError) Unwrap() []error {
	if e.Why == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Why}
}

// FailureClass returns failure.Fault.
func (e *ResetError) FailureClass() failure.Class {
	return failure.Fault
}

// NextStep returns what to check.
func (e *ResetError) NextStep() string {
	return "check the device's supply, and its log above"
}

// A StaleError reports the use of an object that the device lost in a reset.
type StaleError struct{ What string }

func (e *StaleError) Error() string { return e.What + " was lost when the device was reset" }

// FailureClass returns the class of the reset's error.
func (e *StaleError) FailureClass() failure.Class { return failure.Fault }

// NextStep returns the next step for the user.
func (e *StaleError) NextStep() string { return "look it up, or allocate it, again" }

// lives is the state that a session keeps over resets of the device.
type lives struct {
	life     int   // number of resets
	gone     error // the device was reset, and there is no new session with it yet
	reviving bool  // Redial is in progress: another reset does not restart it

	names   map[uint32]string // of functions, by the handle's part that a record holds
	explain func(*fault.Record, string) fault.Explanation
	locate  func([]byte, uint64) []fault.Frame
	loaded  map[Module]*Program // uploaded, and not unlinked
	ended   map[Module]*Program // that were loaded before the last reset
	budget  time.Duration       // set by SetBudget or Options.Budget; 0: it follows each call's deadline

	asked bool         // the device was asked for a record from before the session
	prior *fault.Error // that fault, or one while no request was waiting
}

func wasReset(err error) bool {
	var ended *transport.TerminatedError
	return errors.As(err, &ended)
}

// lose discards the state of all objects on the device.
func (s *Session) lose(err error) {
	if s.gone == nil {
		s.life++
		s.ended, s.loaded = s.loaded, nil
	}
	s.gone = err
	s.known = known{}
	s.unresolved = false
	clear(s.live)
}

// revive continues the session after a reset during a request, and returns the request's error.
func (s *Session) revive(ctx context.Context, err error) error {
	if s.reviving {
		return err
	}
	record, why := s.redial(ctx)
	if why != nil || record == nil {
		return &ResetError{err, why}
	}
	return s.fault(record, err)
}

// reviveLater is revive for a reset after which Redial failed.
func (s *Session) reviveLater(ctx context.Context) error {
	if s.gone == nil || s.broken != nil {
		return nil
	}
	was := s.gone
	record, why := s.redial(ctx)
	if why != nil && s.lost() {
		return &ResetError{was, why}
	}
	if why != nil {
		s.log.Warn("the device's fault record cannot be read", "error", why)
	}
	if record != nil {
		s.keepPrior(record)
	}
	return nil
}

// redial begins a new session with the device and returns its fault record, or nil.
func (s *Session) redial(ctx context.Context) (*fault.Record, error) {
	s.reviving = true
	defer func() { s.reviving = false }()
	ctx, cancel := s.limit(ctx)
	defer cancel()
	again, ok := s.transport.(redialer)
	if !ok {
		return nil, s.gone // lose is not called then
	}
	if err := again.Redial(ctx); err != nil {
		return nil, err
	}
	s.gone, s.asked = nil, true
	s.log.Debug("the device was reset; a new session began")
	return s.takeRecord(ctx)
}

const faultFunction = "boardsmith.fault"

// takeRecord fetches the device's fault record and confirms it, whereupon the device clears it. It returns nil if there
// is none.
func (s *Session) takeRecord(ctx context.Context) (*fault.Record, error) {
	f, err := s.global(ctx, faultFunction)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	record, err := s.readRecord(ctx, f, Int(0))
	var refused *DeviceError
	var damaged *transport.DamagedError
	for tries := 1; tries < attempts && errors.As(err, &damaged); tries++ { // the device still has it
		record, err = s.readRecord(ctx, f, Int(0))
	}
	switch {
	case errors.As(err, &refused): // firmware that clears the record when it is read
		record, err = s.readRecord(ctx, f)
	case len(record) >= crc32.Size:
		// Should this fail, the record remains, and is read again as an earlier fault.
		_, _ = s.readRecord(ctx, f, Int(int64(binary.LittleEndian.Uint32(record[len(record)-crc32.Size:]))))
	}
	if err != nil || record == nil {
		return nil, err
	}
	parsed, err := fault.ParseRecord(record)
	if err != nil {
		return nil, protocolErrorf("%v", err)
	}
	return parsed, nil
}

// readRecord calls boardsmith.fault. It returns nil if there is no record.
func (s *Session) readRecord(ctx context.Context, f Function, received ...Value) ([]byte, error) {
	p := s.begin(CodeCallFunc)
	p.Handle, p.Args = f.handle, append(p.Args, received...)
	result, err := s.call(ctx, faultFunction)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", faultFunction, err)
	}
	switch b := result.(type) {
	case nil:
		return nil, nil
	case []byte:
		return bytes.Clone(b), nil
	}
	return nil, protocolErrorf("%s returned %T", faultFunction, result)
}

// fault returns the error for a record. cause is the link's error, or nil if no request was waiting.
func (s *Session) fault(rec *fault.Record, cause error) *fault.Error {
	e := &fault.Error{Record: rec, Function: s.names[rec.Function], Err: cause, Prior: cause == nil}
	if s.explain != nil {
		e.Explanation = s.explain(rec, e.Function)
	}
	s.locateLoaded(e)
	if e.Build != "" {
		e.Function = "" // the names are those of the current image
	}
	return e
}

// locateLoaded finds the frames in uploaded programs, of which Explain knows nothing.
func (s *Session) locateLoaded(e *fault.Error) {
	if s.locate == nil || !e.Record.PCValid {
		return
	}
	frames := e.Frames
	if len(frames) == 0 || frames[0].Function != "" {
		if s.loadedAt(e.Record.PC) == nil {
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
		p := s.loadedAt(pc)
		if f.Function != "" || p == nil {
			e.Frames = append(e.Frames, f)
			continue
		}
		for _, at := range s.locate(p.ELF, pc) {
			at.Guessed = f.Guessed
			e.Frames = append(e.Frames, at)
		}
	}
}

// loadedAt returns the program with an address, among those that were loaded before the last reset, or nil.
func (s *Session) loadedAt(pc uint64) *Program {
	for _, p := range s.ended {
		if p.ELF != nil && pc-p.Base < uint64(len(p.Bytes)) {
			return p
		}
	}
	return nil
}

func (s *Session) keepPrior(rec *fault.Record) {
	s.prior = s.fault(rec, nil)
	s.log.Warn(s.prior.Error())
}

// PriorFault returns a fault that no call reported, because it happened before the session or while no request was
// waiting, or nil. The first call asks the device. An invalid record is only logged.
func (s *Session) PriorFault(ctx context.Context) (*fault.Error, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if s.asked {
		return s.prior, nil
	}
	rec, err := s.takeRecord(ctx)
	if err != nil && s.lost() {
		return nil, err
	}
	s.asked = true
	if err != nil {
		s.log.Warn("the device's fault record cannot be read", "error", err)
	}
	if rec != nil {
		s.keepPrior(rec)
	}
	return s.prior, nil
}

// lost reports whether the last error was one of the link.
func (s *Session) lost() bool { return s.broken != nil || s.gone != nil }

// isNotFound reports whether an error says that the device lacks a function.
func isNotFound(err error) bool {
	var missing *NotFoundError
	return errors.As(err, &missing)
}
