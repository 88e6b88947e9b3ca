package transporttest

import (
	"context"
	"errors"

	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/transport"
)

// ErrDamaged is Recv's error for a damaged message of the session.
var ErrDamaged = errors.New("damaged message")

// A Device is the device's end of a session (wire.md §2). It answers each Init with a new session, and ignores other
// sessions' messages. One goroutine at a time may use it.
type Device struct {
	OnSession func() // called when a session after the first begins; nil: not called

	link   transport.Link
	nonce  byte
	id     [2]byte // zero: no session
	framer framing.Framer
	un     framing.Unframer
	in     []byte
	buf    [4096]byte
}

const (
	headerSize = 3

	messageInit      = 0x00
	messageReply     = 0x01
	messageTerminate = 0x02
	messageNormal    = 0x10

	sessionVersion = 1
)

// Boot sends Terminate and waits for a host's Init. Its sessions have nonces after nonce.
func Boot(ctx context.Context, link transport.Link, nonce byte) (*Device, error) {
	d := &Device{link: link, nonce: nonce}
	if err := d.write(ctx, []byte{0, 0, messageTerminate}); err != nil {
		return nil, err
	}
	for d.id == [2]byte{} {
		if _, err := d.message(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Recv returns the body of the next message of the session, valid until the next call. Errors: ErrDamaged, and those of
// the link.
func (d *Device) Recv(ctx context.Context) ([]byte, error) {
	for {
		body, err := d.message(ctx)
		if body != nil || err != nil {
			return body, err
		}
	}
}

// Send sends a message of the session.
func (d *Device) Send(ctx context.Context, body []byte) error {
	return d.write(ctx, append([]byte{d.id[0], d.id[1], messageNormal}, body...))
}

// Answer answers every message with itself, until the link ends.
func Answer(link transport.Link) {
	ctx := context.Background()
	d, err := Boot(ctx, link, 0x82)
	for err == nil {
		var body []byte
		if body, err = d.Recv(ctx); err == nil {
			err = d.Send(ctx, body)
		} else if err == ErrDamaged {
			err = nil
		}
	}
}

// message handles the next undamaged message. It returns the body of one of the session, else nil.
func (d *Device) message(ctx context.Context) ([]byte, error) {
	msg, err := d.next(ctx)
	if err != nil || len(msg) < headerSize {
		return nil, err
	}
	switch {
	case msg[2] == messageInit && msg[0] != 0 && len(msg) > headerSize:
		if d.OnSession != nil {
			d.OnSession()
		}
		d.nonce = max(d.nonce+1, 1)
		d.id = [2]byte{msg[0], d.nonce}
		return nil, d.write(ctx, []byte{d.id[0], d.id[1], messageReply, sessionVersion})
	case msg[2] == messageTerminate:
		d.id = [2]byte{}
	case d.owns(msg):
		return msg[headerSize:], nil
	}
	return nil, nil
}

// owns reports whether a message, possibly damaged, is one of the session.
func (d *Device) owns(msg []byte) bool {
	return len(msg) >= headerSize && msg[2] == messageNormal && [2]byte(msg) == d.id
}

// next returns the payload of the next undamaged frame.
func (d *Device) next(ctx context.Context) ([]byte, error) {
	for {
		n, event := d.un.Next(d.in)
		d.in = d.in[n:]
		switch event {
		case framing.Frame:
			return d.un.Payload(), nil
		case framing.NeedMore:
			n, err := d.link.Read(ctx, d.buf[:])
			if err != nil {
				return nil, err
			}
			d.in = d.buf[:n]
		default:
			if d.owns(d.un.Payload()) {
				return nil, ErrDamaged
			}
		}
	}
}

func (d *Device) write(ctx context.Context, message []byte) error {
	return d.link.Write(ctx, d.framer.Append(nil, message))
}
