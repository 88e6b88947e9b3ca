// Package failure defines the classes of errors that all packages, the targets' exit codes and a tuner's log share.
//
// An error is made in one of three ways. Most are values of New and Errorf. If a caller tells one error from others of
// its class, it wraps a sentinel, which may have the class and the next step: fmt.Errorf("%w %q in the module",
// ErrNotFound, name); or with %.0w, which leaves the sentinel's text out. Only an error whose data a caller uses has a
// type of its own.
//
// The package defines neither messages nor exit codes.
package failure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A Class is the kind of step that failed, which shows where the cause lies.
type Class string

// The classes. A log written by an older version may hold only these names.
const (
	Config       Class = "config"        // an input is missing, unknown, contradictory or unreadable
	ToolMissing  Class = "tool-missing"  // a compiler, build tool, emulator or programmer is not installed
	Compile      Class = "compile"       // the compiler rejected a source
	Link         Class = "link"          // the linker rejected the objects
	DoesNotFit   Class = "does-not-fit"  // a memory region, the arena or a limit is too small
	ProbeMissing Class = "probe-missing" // no debug probe, or not the requested one
	Flash        Class = "flash"         // programming failed
	Verify       Class = "verify"        // the data read back differ
	Boot         Class = "boot"          // the firmware did not respond after its start
	Transport    Class = "transport"     // the link broke or delivered invalid data
	Timeout      Class = "timeout"       // an operation exceeded its deadline
	Fault        Class = "fault"         // the device stopped on a fault or a failed check
	WrongAnswer  Class = "wrong-answer"  // the device's answer is wrong
	BoardLost    Class = "board-lost"    // the device was disconnected
	Interrupted  Class = "interrupted"   // the user stopped the step
	Network      Class = "network"       // a server was not reached: another attempt may succeed
	Host         Class = "host"          // the computer: a full disk, no memory, a tool that a signal ended
	Internal     Class = "internal"      // none of the above: an error of boardsmith or of the operating system
)

// A classed error has a class.
type classed interface{ FailureClass() Class }

// An advised error returns what its reader should do next. The text may hold options and targets.
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

// Errorf returns an error of a class whose message is enough: without a next step. The format may wrap an error with
// %w; then the next step is that error's.
func Errorf(c Class, format string, args ...any) error {
	return &failure{c, "", fmt.Errorf(format, args...)}
}

// New returns an error of a class. next is advice for the reader: a sentence without a full stop, which may contain
// Option and Target. The format may wrap an error with %w.
func New(c Class, next, format string, args ...any) error {
	return &failure{c, next, fmt.Errorf(format, args...)}
}

// A stopped error reports work that ended because its caller's context ended.
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

// Stopped returns the error of work that ended because its caller's context ended. errors.Is finds ctx.Err()
// (context.Canceled or context.DeadlineExceeded), context.Cause(ctx) and what the format wraps. The class is
// Interrupted or Timeout, whatever wraps the error: neither the board nor a tool has failed. Do not use it for an
// internal limit, such as that of a handshake.
func Stopped(ctx context.Context, format string, args ...any) error {
	return &stopped{fmt.Errorf(format, args...), ctx.Err(), context.Cause(ctx)}
}

// Of returns the class of an error of Stopped in err's chain, else Host if an error in the chain has this class or is
// the operating system's report of a full disk, of too many open files or of too little memory, else the class of the
// outermost error that has one. A cancelled context is Interrupted and an expired one Timeout; a file or folder that
// may not be written, or whose folder is a file, is Config; anything else is Internal. Of(nil) is "".
func Of(err error) Class {
	var c classed
	var s *stopped
	switch {
	case err == nil:
		return ""
	case errors.As(err, &s):
		return s.FailureClass()
	case ofHost(err):
		return Host
	case errors.As(err, &c):
		return c.FailureClass()
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case unusable(err) != nil:
		return Config
	}
	return Internal
}

// Next returns the advice for a Go program: options by their Go names, targets as arguments of mage.
func Next(err error) string {
	return NextFor(err, func(name, value string) string {
		if value == "" {
			return name
		}
		return name + "=" + value
	}, func(name string) string { return "mage " + name })
}

// NextFor returns the advice of the outermost error in err's chain that has one, for a fault of the computer its own,
// with the texts that option and target return. It returns "" if no error has advice, or if the caller cancelled the
// work.
func NextFor(err error, option func(name, value string) string, target func(name string) string) string {
	return nextstep.Fill(next(err), option, target)
}

func next(err error) string {
	var s *stopped
	if errors.As(err, &s) && s.end == context.Canceled {
		return ""
	}
	if advice, fault := faultOfHost(err); s == nil && fault != nil {
		return advice
	}
	var a advised
	for rest := err; errors.As(rest, &a); rest = errors.Unwrap(a.(error)) {
		if s := a.NextStep(); s != "" {
			return s
		}
	}
	if file := unusable(err); file != nil {
		return "change the permissions or the kind of " + file.Path + ", or choose another place"
	}
	return ""
}

// unusable returns the file system's error in err's chain if it refuses the place that somebody chose; else nil.
func unusable(err error) *fs.PathError {
	var file *fs.PathError
	if !errors.As(err, &file) || file.Op == "fork/exec" {
		return nil
	}
	for _, refusal := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR, syscall.EISDIR} {
		if errors.Is(file, refusal) {
			return file
		}
	}
	return nil
}
