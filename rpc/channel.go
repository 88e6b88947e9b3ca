// This file carries requests and replies, one at a time, and repeats a request that a lossy link damaged.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A Transport carries whole messages to the device and back, such as *transport.Session. One whose device may be reset
// has a method Redial(context.Context) error too: after transport.ErrTerminated, it begins a new session over the
// same link. Deadlines are as for Recv.
type Transport interface {
	Send(ctx context.Context, parts ...[]byte) error // sends one message, the concatenation of parts
	Recv(ctx context.Context) ([]byte, error)        // the message is valid until the next Recv
	Close() error
	Lossy() bool
}

// A redialer is a Transport whose device may be reset.
type redialer interface {
	Redial(ctx context.Context) error
}

const defaultTimeout = 60 * time.Second

// attempts limits the repetitions of a request that a lossy link damages.
const attempts = 4

// lateReply is the wait for the reply to a request after the device's report of a damaged one.
const lateReply = 50 * time.Millisecond

// A channel exchanges requests and replies. It is the lowest layer of a Session; take and leave bracket its use.
type channel struct {
	transport Transport
	timeout   time.Duration // of a request whose context has no deadline
	log       hclog.Logger
	turn      chan struct{} // holds a token during a request
	broken    error         // ended the session

	epoch    int                                // number of the device's resets
	resetErr error                              // the reset after which no new session has begun yet
	onReset  func()                             // discards what was valid until a reset
	revive   func(context.Context, error) error // begins a new session after a reset; returns the request's error

	request, reply tvmrpc.Packet
	out            []byte    // the encoded request, reused
	parts          [2][]byte // of the message, reused
}

// take waits for this goroutine's turn, unless ctx has ended. Unless it returns an error, leave must follow.
func (c *channel) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "request")
	}
	return c.await(ctx)
}

// await waits for this goroutine's turn. It succeeds if the turn comes at once, even if ctx has ended.
func (c *channel) await(ctx context.Context) error {
	// A select chooses at random among ready cases, so ctx is not among these.
	select {
	case c.turn <- struct{}{}:
		return nil
	default:
	}

	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return failure.Stopped(ctx, "waiting for another request of the session")
	}
}

func (c *channel) leave() { <-c.turn }

// lost reports whether the link failed, or the device was reset and no new session has begun.
func (c *channel) lost() bool { return c.broken != nil || c.resetErr != nil }

// begin returns an empty request to fill.
func (c *channel) begin(code tvmrpc.Code) *tvmrpc.Packet {
	c.request = tvmrpc.Packet{Code: code, Args: c.request.Args[:0]}
	return &c.request
}

// saveRequest makes room for another request. The function that it returns restores the request.
func (c *channel) saveRequest() (restore func()) {
	saved := c.request
	saved.Args = slices.Clone(saved.Args)
	return func() { c.request = saved }
}

// exchange sends c.request and receives its reply into c.reply, which is valid until the next exchange. It returns
// an error if the reply is an Exception. On a lossy link it repeats a request that the device rejected as damaged, and
// so did not carry out.
func (c *channel) exchange(ctx context.Context) error {
	err := c.exchangeOnce(ctx)
	for tries := 1; tries < attempts && c.transport.Lossy() && isDamagedRequest(err); tries++ {
		if err = c.awaitReply(ctx, err); isDamagedRequest(err) {
			err = c.exchangeOnce(ctx)
		}
	}

	if err == nil {
		return nil
	}

	// The request is lost, but the session continues.
	if c.resetErr != nil {
		return c.revive(ctx, err)
	}
	if errors.Is(err, errTooLong) {
		err = fmt.Errorf("%v %w", c.request.Code, err)
	}
	return err
}

// isDamagedRequest reports whether the device rejected a request because it arrived damaged: by its checksum, or by a
// length that another request would have.
func isDamagedRequest(err error) bool {
	var e *DeviceError
	return errors.As(err, &e) && e.Message == damagedRequest || errors.Is(err, errTooLong)
}

// retryable reports whether err may result from damage to the request or the reply.
func (c *channel) retryable(err error) bool {
	var device *DeviceError // perhaps because an address or a name was damaged
	return errors.Is(err, transport.ErrDamaged) || c.transport.Lossy() && errors.As(err, &device)
}

// awaitReply waits briefly for another reply to the request that the device rejected with err. If there is one, the
// rejection was a late one, of an earlier frame: a repetition would assign every further reply to the wrong request.
func (c *channel) awaitReply(ctx context.Context, err error) error {
	short, cancel := context.WithTimeout(ctx, lateReply)
	defer cancel()

	for isDamagedRequest(err) {
		msg, recvErr := c.transport.Recv(short)
		switch {
		case recvErr == nil:
			err = c.accept(msg)
		case ctx.Err() == nil && errors.Is(recvErr, context.DeadlineExceeded):
			return err
		case errors.Is(recvErr, transport.ErrDamaged):
			return recvErr
		default:
			return c.breakUp(recvErr)
		}
	}
	return err
}

func (c *channel) exchangeOnce(ctx context.Context) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "%v", c.request.Code) // nothing was sent: the session is unaffected
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()

	// Two parts, so that the data of a large copy is not copied.
	c.out = c.request.AppendHead(c.out[:0])
	c.parts = [2][]byte{c.out, c.request.Data}
	parts := c.parts[:1]
	if len(c.request.Data) > 0 {
		parts = c.parts[:]
	}

	if err := c.transport.Send(ctx, parts...); err != nil {
		return c.breakUp(err)
	}

	msg, err := c.transport.Recv(ctx)
	if err != nil {
		if errors.Is(err, transport.ErrDamaged) {
			return err // the reply was received; the next one belongs to the next request
		}
		return c.breakUp(err)
	}
	return c.accept(msg)
}

// limit sets the session's timeout on a context without a deadline.
func (c *channel) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// breakUp ends the session or, after a reset, discards the state of the device.
func (c *channel) breakUp(err error) error {
	if _, ok := c.transport.(redialer); !ok || !errors.Is(err, transport.ErrTerminated) {
		c.broken = err
		return err
	}
	c.lose(err)
	return err
}

// lose discards what is on the device. The session continues once a new one with the device has begun.
func (c *channel) lose(err error) {
	// Until a new session begins, further failures belong to the same reset.
	if c.resetErr == nil {
		c.epoch++
		c.onReset()
	}
	c.resetErr = err
}

// accept decodes a reply.
func (c *channel) accept(msg []byte) error {
	if err := c.reply.Parse(msg); err != nil {
		return c.breakUp(err)
	}

	want := tvmrpc.CodeReturn
	if c.request.Code == tvmrpc.CodeCopyFromRemote {
		want = tvmrpc.CodeCopyAck
	}

	switch c.reply.Code {
	case want:
		return nil
	case tvmrpc.CodeException:
		if args := c.reply.Args; len(args) == 1 && args[0].Type == tvmrpc.TypeStr {
			return exception(string(args[0].Data))
		}
	}

	// Replies can no longer be assigned to their requests.
	return c.breakUp(tvmrpc.Errorf("%v in answer to %v", c.reply.Code, c.request.Code))
}

// exchangeVoid is exchange for a request with an empty reply.
func (c *channel) exchangeVoid(ctx context.Context) error {
	if err := c.exchange(ctx); err != nil {
		return err
	}
	return c.wantReply(tvmrpc.TypeNull)
}

// exchangeHandle is exchange for a request that is answered by a handle.
func (c *channel) exchangeHandle(ctx context.Context) (uint64, error) {
	if err := c.exchange(ctx); err != nil {
		return 0, err
	}
	if err := c.wantReply(tvmrpc.TypeHandle); err != nil {
		return 0, err
	}
	return c.reply.Args[0].Word, nil
}

func (c *channel) wantReply(t tvmrpc.TypeCode) error {
	if args := c.reply.Args; len(args) != 1 || args[0].Type != t {
		return c.breakUp(tvmrpc.Errorf("answer to %v is not one value of type %d", c.request.Code, t))
	}
	return nil
}
