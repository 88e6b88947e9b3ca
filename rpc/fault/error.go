// This file defines the error of a fault and its text.

package fault

import (
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A Frame is one function of a call chain.
type Frame struct {
	PC       uint64 `json:"pc"`             // address of the instruction in the image
	Function string `json:"function"`       // "" if unknown
	File     string `json:"file,omitempty"` // as passed to the compiler, relative to the project's folder; "" if unknown
	Line     int    `json:"line,omitzero"`  // 0 if unknown
	Inlined  bool   `json:"inlined"`        // inlined into the function of the next frame
	Guessed  bool   `json:"guessed"`        // found by scanning the stack: it may be left from an earlier call
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

// An Explanation is the place in the program where the device stopped. Image.Explain returns it.
type Explanation struct {
	Frames   []Frame // innermost first; empty if unknown
	Operator string  // the model's operator that ran; "" if none or unknown
	Build    string  // build id of the image that faulted, if another one is current; else ""
}

// An Error reports a device that stopped, recorded the reason, and was reset. All objects on it are lost; the session
// continues.
type Error struct {
	Record   *Record
	Function string // name of the function that the host called; "" if unknown
	Explanation
	Prior bool  // from before the session, or while no request was waiting
	Err   error // the link's error; nil if Prior
}

// Error returns, for example, "fault in operator f: hard fault (…), in f at model/f.c:3, called from g at
// src/main.c:9".
func (e *Error) Error() string {
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
	s.WriteString(e.chain())
	return s.String()
}

func (e *Error) Unwrap() error { return e.Err }

// subject names the operator or function that ran.
func (e *Error) subject() string {
	called := e.Function
	if called == "" {
		called = e.Record.functionByHandle()
	}

	switch {
	// The host called the operator itself, or it is unknown what it called.
	case e.Operator != "" && (called == "" || called == e.Operator):
		return " in operator " + e.Operator
	case e.Operator != "":
		return " in operator " + e.Operator + ", called by " + called
	case called != "":
		return " in " + called
	}
	return " while nothing was called"
}

// functionByHandle describes a function whose name is unknown; "" if none ran.
func (rec *Record) functionByHandle() string {
	switch rec.Function {
	case noFunction:
		return ""
	case aotRun:
		return "the model's run"
	}
	return fmt.Sprintf("function %#x", rec.Function)
}

// chain formats the call chain.
func (e *Error) chain() string {
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

		// Equal frames in a row, of a recursion, are printed once.
		count := e.repeats(i)
		switch {
		case i == 0:
			fmt.Fprintf(&s, ", in %v", e.Frames[i])
		case e.Frames[i-1].Inlined:
			fmt.Fprintf(&s, ", part of %v", e.Frames[i])
		default:
			fmt.Fprintf(&s, ", called from %v", e.Frames[i])
		}

		if count > 1 {
			fmt.Fprintf(&s, " (%d times)", count)
		}
		i += count
	}
	return s.String()
}

// maxShown limits the frames in an error's text.
const maxShown = 8

// repeats counts the equal frames from i on, as in a recursion.
func (e *Error) repeats(i int) int {
	n := 1
	for i+n < len(e.Frames) && e.Frames[i+n] == e.Frames[i] {
		n++
	}
	return n
}

// FailureClass returns failure.Timeout for an exceeded time budget, else failure.Fault.
func (e *Error) FailureClass() failure.Class {
	if e.Record.Reason == ReasonTimeout {
		return failure.Timeout
	}
	return failure.Fault
}

// NextStep returns advice for the reason.
func (e *Error) NextStep() string {
	switch e.Record.Reason {
	case ReasonTimeout:
		return "the function may not terminate; a later deadline gives it more time, as in " +
			nextstep.Option("deadline", "2m")
	case ReasonStack:
		return "give it more stack: the option stack_bytes; of a process of this computer, ulimit -s"
	case ReasonInterrupt:
		return "the port must handle this interrupt, or not enable it"
	}

	if len(e.Frames) > 0 {
		return "check the line named first, and its function's arguments"
	}
	return "check the function that ran; the addresses are the image's"
}
