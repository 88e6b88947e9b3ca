// Package failure classes what can go wrong, so that every package, a person and a tuner's log use one list.
//
// It knows classes, not messages, hints for the terminal or exit codes: the mage targets make those.
package failure

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// A Class says what kind of step failed, and so whose fault it was.
type Class string

// The classes. A log written by an older version may hold only these names.
const (
	Config       Class = "config"        // an input is missing, unknown, contradictory or unreadable
	ToolMissing  Class = "tool-missing"  // a compiler, build tool, emulator or programmer is not installed
	Compile      Class = "compile"       // the compiler refused a source
	Link         Class = "link"          // the linker refused the objects
	DoesNotFit   Class = "does-not-fit"  // a memory region, the arena or a limit is too small
	ProbeMissing Class = "probe-missing" // no debug probe, or not the one asked for
	Flash        Class = "flash"         // programming failed
	Verify       Class = "verify"        // what was read back differs
	Boot         Class = "boot"          // the firmware never answered
	Transport    Class = "transport"     // the link broke or said something impossible
	Timeout      Class = "timeout"       // an answer did not come in time
	Fault        Class = "fault"         // the device stopped on a fault or a failed check
	WrongAnswer  Class = "wrong-answer"  // the device answered, and wrongly
	BoardLost    Class = "board-lost"    // the device went away
	Interrupted  Class = "interrupted"   // the user asked to stop
	Internal     Class = "internal"      // none of the above: an error of ours or of the operating system
)

// A classed error names its own class.
type classed interface{ FailureClass() Class }

// An advised error says what its reader should do next. The text may hold Mage.
type advised interface{ NextStep() string }

type failure struct {
	class Class
	next  string
	err   error
}

func (f *failure) Error() string       { return f.err.Error() }
func (f *failure) Unwrap() error       { return f.err }
func (f *failure) FailureClass() Class { return f.class }
func (f *failure) NextStep() string    { return f.next }

// New returns an error of a class. next says what the reader should do about it: a sentence without a full stop, which may
// hold Mage, or "" where the message is enough. The format may wrap an error with %w.
func New(c Class, next, format string, args ...any) error {
	return &failure{c, next, fmt.Errorf(format, args...)}
}

// A stopped error is work that its caller's context ended.
type stopped struct {
	err        error
	end, cause error // ctx.Err(), context.Cause(ctx)
}

func (s *stopped) Error() string {
	if errors.Is(s.err, s.cause) {
		return s.err.Error()
	}
	return s.err.Error() + ": " + s.cause.Error()
}

func (s *stopped) Unwrap() []error { return []error{s.err, s.end, s.cause} }

func (s *stopped) FailureClass() Class {
	if s.end == context.Canceled {
		return Interrupted
	}
	return Timeout
}

// Stopped makes the error of work that ended because the context that its caller gave has. errors.Is finds ctx.Err()
// (context.Canceled or context.DeadlineExceeded) and context.Cause(ctx) in it, and what the format wraps. Its class is
// Interrupted or Timeout, whatever wraps it: neither the board nor a tool is to blame. A limit of our own, as that of a
// handshake, is no such end.
func Stopped(ctx context.Context, format string, args ...any) error {
	return &stopped{fmt.Errorf(format, args...), ctx.Err(), context.Cause(ctx)}
}

// Of returns the class of an error of Stopped in err's chain, else that of the outermost error that has one. A cancelled
// context is Interrupted and an expired one Timeout; anything else is Internal. Of(nil) is "".
func Of(err error) Class {
	var c classed
	var s *stopped
	switch {
	case err == nil:
		return ""
	case errors.As(err, &s):
		return s.FailureClass()
	case errors.As(err, &c):
		return c.FailureClass()
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Internal
}

// Mage stands in an advice for the command that runs mage targets, as in Mage + " devices". A library cannot know that
// command (mage, go tool mage, a compiled magefile); NextFor puts it in.
const Mage = "{mage}"

// Next is NextFor with the command mage.
func Next(err error) string { return NextFor(err, "mage") }

// NextFor returns the advice of the outermost error in err's chain that gives some, with the command mage for Mage. It
// returns "" where no error gives advice, or where the caller cancelled the work.
func NextFor(err error, mage string) string { return strings.ReplaceAll(next(err), Mage, mage) }

func next(err error) string {
	var s *stopped
	if errors.As(err, &s) && s.end == context.Canceled {
		return ""
	}
	for err != nil {
		var a advised
		if !errors.As(err, &a) {
			return ""
		}
		if s := a.NextStep(); s != "" {
			return s
		}
		err = errors.Unwrap(a.(error))
	}
	return ""
}
