// Package transport carries messages between this host and one device: a byte link, frames on it, and a session
// in the frames, as Apache TVM's microTVM speaks them.
//
// It knows bytes and messages, not what they mean: calls, tensors and handles are package rpc's. It starts no
// firmware build, chooses no board and repeats no request.
package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A Link is a byte stream to one device. One goroutine may read while another writes; Close may be called from any.
type Link interface {
	// Read waits for at least one byte and reads up to len(p). It returns an error that wraps ErrClosed once the
	// peer or this side has closed the link, a *TimeoutError when ctx's deadline passed, and ctx's own error when
	// ctx was cancelled; the link stays usable after the last two. A read of n > 0 bytes has no error.
	Read(ctx context.Context, p []byte) (int, error)
	// Write sends all of p or returns an error, as Read does. After an error an unknown part of p has been sent.
	Write(ctx context.Context, p []byte) error
	// Close frees whatever the link holds, and ends the process behind it if there is one. Later calls do nothing.
	Close() error
	// Lossy says whether bytes may change or vanish on the way, as they do on a UART.
	Lossy() bool
}

// ErrClosed is in the chain of every error that says that a link is gone: closed here, or by the peer.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string               { return "link closed" }
func (closedError) FailureClass() failure.Class { return failure.Transport }

// A TimeoutError is a wait that a deadline ended. It is a context.DeadlineExceeded to errors.Is.
type TimeoutError struct {
	Op      string        // what waited: "read", "write"
	Waited  time.Duration // how long this wait was
	Damaged int           // damaged frames that came in meanwhile, one of which may have been the answer
	Cause   error         // context.Cause of the context that ended; nil for a limit of another kind
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("%s: timeout after %v", e.Op, e.Waited.Round(time.Millisecond))
	if e.Damaged > 0 {
		s += fmt.Sprintf(" and %d damaged frames", e.Damaged)
	}
	return s
}

// Unwrap returns the cause.
func (e *TimeoutError) Unwrap() error { return e.Cause }

// Is makes the deadline errors of the standard library match.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout is true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// FailureClass says that an answer did not come in time.
func (e *TimeoutError) FailureClass() failure.Class { return failure.Timeout }

// A TerminatedError says that the device ended the session by itself: it was reset, or crashed and started again.
// The session is over; the link still works, so Dial may be called on it again.
type TerminatedError struct {
	Why string // what the device sent
}

func (e *TerminatedError) Error() string {
	return "the device ended the session (" + e.Why + "): it was reset, or crashed and restarted"
}

// FailureClass says that the device stopped.
func (e *TerminatedError) FailureClass() failure.Class { return failure.Fault }

// NextStep says where to look.
func (e *TerminatedError) NextStep() string {
	return "look at the device's log above for the check or fault that stopped it"
}

// A DamagedError is a message of the current session that arrived damaged: its frame's header was the answer's,
// its content cannot be trusted. The session goes on.
type DamagedError struct {
	Why string // how the damage showed
	cut bool   // another frame began inside it
}

func (e *DamagedError) Error() string { return "message from the device arrived damaged: " + e.Why }

// FailureClass says that the link is at fault.
func (e *DamagedError) FailureClass() failure.Class { return failure.Transport }

// waitError turns the end of a wait that began at since into what Link promises: the context's own error after a cancel, a
// *TimeoutError after a deadline.
func waitError(ctx context.Context, op string, since time.Time) error {
	if ctx.Err() == context.Canceled {
		return failure.Stopped(ctx, "%s", op)
	}
	return &TimeoutError{Op: op, Waited: time.Since(since), Cause: context.Cause(ctx)}
}
