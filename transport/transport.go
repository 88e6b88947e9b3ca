// Package transport carries messages between this host and one device: a byte link, frames on it, and a session in
// the frames, in the protocol of Apache TVM's microTVM.
//
// Package rpc defines the content of the messages. This package does not repeat requests.
package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
)

// A Link is a byte stream to one device. One goroutine may read while another writes; Close may be called from any.
type Link interface {
	// Read waits for at least one byte and reads up to len(p). It returns an error that wraps ErrClosed after the
	// peer or this side has closed the link, context.DeadlineExceeded when ctx's deadline has passed, and ctx's error when
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

// ErrClosed is wrapped by every error about a link that was closed, here or by the peer. Its class is transport.
var ErrClosed = failure.Errorf(failure.Transport, "link closed")

// ErrTerminated is wrapped by the error, of class fault, of a session that the device ended: it was reset, or crashed
// and restarted. The session is over; the link still works, so that Dial may be called on it again.
var ErrTerminated = failure.New(failure.Fault, "look for the failed check or fault in the device's log above",
	"the device ended the session")

func terminated(reason string) error {
	return fmt.Errorf("%w (%s): it was reset, or crashed and restarted", ErrTerminated, reason)
}

// ErrDamaged is wrapped by the error, of class transport, of an answer of the current session that arrived damaged: its
// header was recognised, its content is unreliable. The session continues.
var ErrDamaged = failure.New(failure.Transport, "check the link: lower its speed, shorten its cable; a serial server "+
	"must carry every byte unchanged (raw mode, 8 data bits, no flow control)", "message from the device arrived damaged")

// errCut is the error of an answer inside of which another frame began.
var errCut = fmt.Errorf("%w: %v", ErrDamaged, framing.Abandoned)

// waitError returns Link's error for the end of a wait that began at since: the context's error after a cancel, of
// class timeout after a deadline.
func waitError(ctx context.Context, op string, since time.Time) error {
	if ctx.Err() == context.Canceled {
		return failure.Stopped(ctx, "%s", op)
	}
	return failure.Errorf(failure.Timeout, "%s: timeout after %v%.0w", op, time.Since(since).Round(time.Millisecond),
		errors.Join(context.DeadlineExceeded, context.Cause(ctx)))
}
