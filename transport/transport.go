// Package transport carries messages between this host and one device: a byte link, frames on it, and a session in
// the frames, in the protocol of Apache TVM's microTVM.
//
// Package rpc defines the content of the messages. This package does not repeat requests.
package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A Link is a byte stream to one device. One goroutine may read while another writes; Close may be called from any.
type Link interface {
	// Read waits for at least one byte and reads up to len(p). It returns an error that wraps ErrClosed after the
	// peer or this side has closed the link, a *TimeoutError when ctx's deadline has passed, and ctx's error when
	// ctx was cancelled; after the last two the link stays usable. If n > 0, the error is nil.
	Read(ctx context.Context, p []byte) (int, error)
	// Write sends all of p or returns an error, as Read does. After an error an unknown part of p was sent.
	Write(ctx context.Context, p []byte) error
	// Close releases the link's resources, and ends its process, if any. Later calls do nothing.
	Close() error
	// Lossy reports whether bytes may be changed or lost in transfer, as on a UART.
	Lossy() bool
}

// A bounded link drops bytes for which the device has no room, such as RTT, whose probe writes to a buffer in the
// firmware's RAM. It takes one packet of the firmware at a time.
type bounded interface{ Bounded() bool }

// ErrClosed is wrapped by every error about a link that was closed, here or by the peer.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string               { return "link closed" }
func (closedError) FailureClass() failure.Class { return failure.Transport }

// A TimeoutError reports a wait that a deadline ended. errors.Is matches it with context.DeadlineExceeded.
type TimeoutError struct {
	Op      string        // the operation that waited: "read", "write"
	Waited  time.Duration // duration of this wait
	Damaged int           // damaged frames received meanwhile, one of which may have been the answer
	Cause   error         // context.Cause of the context that ended; nil for other limits
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

// Timeout returns true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// FailureClass returns failure.Timeout.
func (e *TimeoutError) FailureClass() failure.Class { return failure.Timeout }

// A TerminatedError reports that the device ended the session: it was reset, or crashed and restarted. The session
// is over; the link still works, so that Dial may be called on it again.
type TerminatedError struct {
	Reason string // the device's last message
}

func (e *TerminatedError) Error() string {
	return "the device ended the session (" + e.Reason + "): it was reset, or crashed and restarted"
}

// FailureClass returns failure.Fault.
func (e *TerminatedError) FailureClass() failure.Class { return failure.Fault }

// NextStep returns where to look.
func (e *TerminatedError) NextStep() string {
	return "look for the failed check or fault in the device's log above"
}

// A DamagedError reports an answer of the current session that arrived damaged: its header was recognised, its content
// is unreliable. The session continues.
type DamagedError struct {
	Reason string // the kind of damage
	cut    bool   // another frame began inside it
}

func (e *DamagedError) Error() string { return "message from the device arrived damaged: " + e.Reason }

// FailureClass returns failure.Transport.
func (e *DamagedError) FailureClass() failure.Class { return failure.Transport }

// NextStep returns what to check.
func (e *DamagedError) NextStep() string {
	return "check the link: lower its speed, shorten its cable; a serial server must carry every byte unchanged " +
		"(raw mode, 8 data bits, no flow control)"
}

// waitError returns Link's error for the end of a wait that began at since: the context's error after a cancel, a
// *TimeoutError after a deadline.
func waitError(ctx context.Context, op string, since time.Time) error {
	if ctx.Err() == context.Canceled {
		return failure.Stopped(ctx, "%s", op)
	}
	return &TimeoutError{Op: op, Waited: time.Since(since), Cause: context.Cause(ctx)}
}
