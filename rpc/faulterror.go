// This file is what a session makes of a device that was reset under it: the errors, and the way back.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// A Frame is one function of a call chain.
type Frame struct {
	PC       uint64 // address of the instruction in the image
	Function string // "" if unknown
	File     string // as the compiler was given it, from the project's folder; "" if unknown
	Line     int    // 0 if unknown
	Inlined  bool   // into the function of the next frame
	Guessed  bool   // found by searching the stack: it may be left over from an earlier call
}

// String is as in "f at src/f.c:12".
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

// An Explanation says where in a program a device stood. Whoever knows the program's file makes it.
type Explanation struct {
	Frames   []Frame // innermost first; none where that is not known
	Operator string  // the model's operator that ran; "" if none did, or it is not known which
	Build    string  // what the device ran then, if that is not what it runs now; else ""
}

// A FaultError is a device that stopped, kept why, and was reset. All that was on it is gone; the session goes on.
type FaultError struct {
	Record   *FaultRecord
	Function string // that the host had called, as it was looked up; "" if that is not known
	Explanation
	Prior bool  // it happened before the session, or while nobody waited
	Err   error // what the link said; nil if Prior
}

// Error is as in "fault in operator f: hard fault (…), in f at model/f.c:3, called from g at src/main.c:9".
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

// subject is what ran.
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

// where is the call chain.
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

// maxShown is how many frames an error's text has.
const maxShown = 8

// repeats is how many frames from i on are alike, as those of a recursion are.
func (e *FaultError) repeats(i int) int {
	n := 1
	for i+n < len(e.Frames) && e.Frames[i+n] == e.Frames[i] {
		n++
	}
	return n
}

// FailureClass tells a call that did not end in time from all else.
func (e *FaultError) FailureClass() failure.Class {
	if e.Record.Reason == ReasonTimeout {
		return failure.Timeout
	}
	return failure.Fault
}

// NextStep says what helps.
func (e *FaultError) NextStep() string {
	switch e.Record.Reason {
	case ReasonTimeout:
		return "the function may never end; TIMEOUT=2m gives it longer"
	case ReasonStack:
		return "give the board more stack: stack_bytes in its board file"
	case ReasonInterrupt:
		return "the port must handle this interrupt, or not enable it"
	}
	if len(e.Frames) > 0 {
		return "look at the line named first, and at what was passed to it"
	}
	return "look at the function that ran; the addresses are the image's"
}

// A ResetError is a device that was reset and kept no reason: somebody pressed its button, its supply failed, or it
// runs firmware that keeps none. All that was on it is gone; the session goes on, unless Why says that it cannot.
type ResetError struct {
	Err error // what the link said
	Why error // why the device could not be asked for the reason; nil if it has none
}

func (e *ResetError) Error() string {
	if e.Why != nil {
		return fmt.Sprintf("%v; it could not be asked why: %v", e.Err, e.Why)
	}
	return e.Err.Error() + "; it kept no reason"
}

func (e *ResetError) Unwrap() []error {
	if e.Why == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Why}
}

// FailureClass says that the device stopped.
func (e *ResetError) FailureClass() failure.Class {
	return failure.Fault
}

// NextStep says where to look.
func (e *ResetError) NextStep() string {
	return "check the device's supply, and its log above"
}

// A StaleError is a use of something that was on the device before it was reset.
type StaleError struct{ What string }

func (e *StaleError) Error() string { return e.What + " is gone since the device was reset" }

// FailureClass is that of the reset.
func (e *StaleError) FailureClass() failure.Class { return failure.Fault }

// NextStep says how to go on.
func (e *StaleError) NextStep() string { return "look it up, or allocate it, again" }

// lives is what a session keeps over resets of the device.
type lives struct {
	life     int   // how often the device was reset
	gone     error // the device was reset, and there is no new session with it yet
	reviving bool  // a new session is being made: another reset does not begin it again

	names   map[uint32]string // of functions, by what a record holds of their handles
	explain func(*FaultRecord, string) Explanation
	budget  time.Duration // that SetBudget or Options.Budget fixed; 0: it follows each call's deadline

	asked bool        // for a record that was there before the session
	prior *FaultError // it, or what happened while nobody waited
}

func wasReset(err error) bool {
	var ended *transport.TerminatedError
	return errors.As(err, &ended)
}

// lose forgets all that was on the device.
func (s *Session) lose(err error) {
	if s.gone == nil {
		s.life++
	}
	s.gone = err
	s.known = known{}
	s.unresolved = false
	clear(s.live)
}

// revive takes up the session again after the request under way met a reset, and returns the request's error.
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

// reviveLater is revive for a reset that was not overcome when it happened.
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

// redial begins a new session with the device and asks for its record; nil if there is none.
func (s *Session) redial(ctx context.Context) (*FaultRecord, error) {
	s.reviving = true
	defer func() { s.reviving = false }()
	ctx, cancel := s.limit(ctx)
	defer cancel()
	again, ok := s.transport.(Redialer)
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

// takeRecord asks the device for the record that it kept, which it then forgets; nil if there is none.
func (s *Session) takeRecord(ctx context.Context) (*FaultRecord, error) {
	f, err := s.global(ctx, faultFunction)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.begin(CodeCallFunc).Handle = f.handle
	result, err := s.call(ctx, faultFunction)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", faultFunction, err)
	}
	switch b := result.(type) {
	case nil:
		return nil, nil
	case []byte:
		return ParseFaultRecord(b)
	}
	return nil, protocolErrorf("%s returned %T", faultFunction, result)
}

// fault makes an error of a record. cause is what the link said, nil if nobody waited.
func (s *Session) fault(rec *FaultRecord, cause error) *FaultError {
	e := &FaultError{Record: rec, Function: s.names[rec.Function], Err: cause, Prior: cause == nil}
	if s.explain != nil {
		e.Explanation = s.explain(rec, e.Function)
	}
	if e.Build != "" {
		e.Function = "" // the names are those of what runs now
	}
	return e
}

func (s *Session) keepPrior(rec *FaultRecord) {
	s.prior = s.fault(rec, nil)
	s.log.Warn(s.prior.Error())
}

// PriorFault is a fault that no call has reported: it happened before the session began, or while nobody waited. It is
// nil if there was none. The device is asked the first time. What it answers that is no record is logged only.
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

// lost says whether the last error was one of the link.
func (s *Session) lost() bool { return s.broken != nil || s.gone != nil }

// isNotFound says whether the device lacks a function.
func isNotFound(err error) bool {
	var missing *NotFoundError
	return errors.As(err, &missing)
}
