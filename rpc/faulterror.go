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
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// A Frame is one function of a call chain.
type Frame struct {
	PC       uint64 // address of the instruction in the image
	Function string // "" if unknown
	File     string // as passed to the compiler, relative to the project's folder; "" if unknown
	Line     int    // 0 if unknown
	Inlined  bool   // inlined into the function of the next frame
	Guessed  bool   // found by scanning the stack: it may be left from an earlier call
}

// String returns, for example, "f at src/f.c:12".
func (f Frame) String() string {
	s := f.Function
	if s == "" {
		s = fmt.Sprintf("%#x", f.PC)
	}
	if f.File != "" {
		s += fmt.Sprintf(" at %s:%d", f.File, f.Line)
	}
	if f.Guessed {
		s += " (perhaps)"
	}
	return s
}

// An Explanation is where in the program the device stopped. Options.Explain makes it from the program's file.
type Explanation struct {
	Frames   []Frame // innermost first; empty if unknown
	Operator string  // the model's operator that ran; "" if none or unknown
	Build    string  // the image that the device ran then, if it differs from today's; else ""
}

// A FaultError reports a device that stopped, recorded the reason, and was reset. All objects on it are lost; the
// session continues.
type FaultError struct {
	Record   *FaultRecord
	Function string // name of the function that the host had called; "" if unknown
	Explanation
	Prior bool  // it happened before the session, or while no request was waiting
	Err   error // the link's error; nil if Prior
}

// Error returns, for example, "fault in operator f: hard fault (…), in f at model/f.c:3, called from g at
// src/main.c:9".
func (e *FaultError) Error() string {
	var s strings.Builder
	if e.Prior {
		s.WriteString("earlier ")
	}
	if e.Build != "" {
		fmt.Fprintf(&s, "build %s: ", e.Build)
	}
	if e.Record.Reason == ReasonTimeout {
		s.WriteString("timeout")
	} else {
		s.WriteString("fault")
	}
	s.WriteString(e.subject())
	s.WriteString(": " + e.Record.Cause())
	s.WriteString(e.where())
	return s.String()
}

func (e *FaultError) Unwrap() error { return e.Err }

// subject names what ran.
func (e *FaultError) subject() string {
	called := e.Function
	if called == "" {
		called = e.Record.calledWithoutName()
	}
	switch {
	case e.Operator != "" && (called == "" || called == e.Operator):
		return " in operator " + e.Operator
	case e.Operator != "":
		return " in operator " + e.Operator + ", called by " + called
	case called != "":
		return " in " + called
	}
	return " while nothing was called"
}

func (rec *FaultRecord) calledWithoutName() string {
	switch rec.Function {
	case noFunction:
		return ""
	case aotRun:
		return "the model's run"
	}
	return fmt.Sprintf("function %#x", rec.Function)
}

// where formats the call chain.
func (e *FaultError) where() string {
	if len(e.Frames) == 0 {
		if e.Record.PCValid {
			return fmt.Sprintf(", at address %#x", e.Record.PC)
		}
		return ""
	}
	var s strings.Builder
	for shown, i := 0, 0; i < len(e.Frames); shown++ {
		if shown == maxShown {
			s.WriteString(", …")
			break
		}
		same := e.repeats(i)
		switch {
		case i == 0:
			fmt.Fprintf(&s, ", in %v", e.Frames[i])
		case e.Frames[i-1].Inlined:
			fmt.Fprintf(&s, ", part of %v", e.Frames[i])
		default:
			fmt.Fprintf(&s, ", called from %v", e.Frames[i])
		}
		if same > 1 {
			fmt.Fprintf(&s, " (%d times)", same)
		}
		i += same
	}
	return s.String()
}

// maxShown limits the frames in an error's text.
const maxShown = 8

// repeats counts the equal frames from i on, as in a recursion.
func (e *FaultError) repeats(i int) int {
	n := 1
	for i+n < len(e.Frames) && e.Frames[i+n] == e.Frames[i] {
		n++
	}
	return n
}

// FailureClass returns failure.Timeout for an exceeded time budget, else failure.Fault.
func (e *FaultError) FailureClass() failure.Class {
	if e.Record.Reason == ReasonTimeout {
		return failure.Timeout
	}
	return failure.Fault
}

// NextStep returns advice for the reason.
func (e *FaultError) NextStep() string {
	switch e.Record.Reason {
	case ReasonTimeout:
		return "the function may not terminate; a later deadline gives it more time, as in " +
			failure.Option("deadline", "2m")
	case ReasonStack:
		return "give the board more stack: stack_bytes in its board file"
	case ReasonInterrupt:
		return "the port must handle this interrupt, or not enable it"
	}
	if len(e.Frames) > 0 {
		return "check the line named first, and its function's arguments"
	}
	return "check the function that ran; the addresses are the image's"
}

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
	explain func(*FaultRecord, string) Explanation
	locate  func([]byte, uint64) []Frame
	loaded  map[Module]*Program // uploaded, and not unlinked
	ended   map[Module]*Program // that were loaded before the last reset
	budget  time.Duration       // set by SetBudget or Options.Budget; 0: it follows each call's deadline

	asked bool        // the device was asked for a record from before the session
	prior *FaultError // that fault, or one while no request was waiting
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
func (s *Session) redial(ctx context.Context) (*FaultRecord, error) {
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
func (s *Session) takeRecord(ctx context.Context) (*FaultRecord, error) {
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
	return ParseFaultRecord(record)
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
func (s *Session) fault(rec *FaultRecord, cause error) *FaultError {
	e := &FaultError{Record: rec, Function: s.names[rec.Function], Err: cause, Prior: cause == nil}
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
func (s *Session) locateLoaded(e *FaultError) {
	if s.locate == nil || !e.Record.PCValid {
		return
	}
	frames := e.Frames
	if len(frames) == 0 || frames[0].Function != "" {
		if s.loadedAt(e.Record.PC) == nil {
			return
		}
		frames = slices.Insert(frames, 0, Frame{PC: e.Record.PC})
	}
	e.Frames = nil
	for i, f := range frames {
		pc := f.PC
		switch {
		case i == 0:
			pc = e.Record.PC
		case e.Record.Arch == ArchProcess:
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

func (s *Session) keepPrior(rec *FaultRecord) {
	s.prior = s.fault(rec, nil)
	s.log.Warn(s.prior.Error())
}

// PriorFault returns a fault that no call reported, because it happened before the session or while no request was
// waiting, or nil. The first call asks the device. An invalid record is only logged.
func (s *Session) PriorFault(ctx context.Context) (*FaultError, error) {
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
