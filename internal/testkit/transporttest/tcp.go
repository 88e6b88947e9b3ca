package transporttest

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/transport"
)

// A Listener accepts TCP connections as links, as a serial server does.
type Listener struct{ *net.TCPListener }

// Listen listens on an address until the test ends; port 0 means any free one.
func Listen(t testing.TB, address string) *Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &Listener{l.(*net.TCPListener)}
}

// Refusing returns an address that refuses connections until the test listens there. An open connection keeps its port
// from others.
func Refusing(t testing.TB) (address string) {
	t.Helper()
	l := Listen(t, "127.0.0.1:0")
	client, err := net.Dial("tcp", l.Address())
	must(t, err)
	open, err := l.TCPListener.Accept()
	must(t, err)
	t.Cleanup(func() { _ = errors.Join(client.Close(), open.Close()) })
	must(t, l.Close())
	return l.Address()
}

// Address returns the address and port that it listens on.
func (l *Listener) Address() string { return l.Addr().String() }

// Accept waits for a peer. The link is not Lossy. Errors: transport.ErrClosed after Close, and those of ctx.
func (l *Listener) Accept(ctx context.Context) (transport.Link, error) {
	var conn net.Conn
	err := until(ctx, l.SetDeadline, "accept", func() (err error) {
		conn, err = l.TCPListener.Accept()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &connection{conn}, nil
}

// A connection is the accepted end.
type connection struct{ net.Conn }

func (c *connection) Lossy() bool { return false }

func (c *connection) Close() error {
	_ = c.Conn.Close() // perhaps once more
	return nil
}

func (c *connection) Read(ctx context.Context, p []byte) (n int, err error) {
	err = until(ctx, c.SetReadDeadline, "read", func() (err error) {
		n, err = c.Conn.Read(p)
		return err
	})
	return n, err
}

func (c *connection) Write(ctx context.Context, p []byte) error {
	return until(ctx, c.SetWriteDeadline, "write", func() error {
		_, err := c.Conn.Write(p)
		return err
	})
}

// until calls do with a deadline that ctx's end sets. One that passed without ctx's end is of an earlier call.
func until(ctx context.Context, deadline func(time.Time) error, op string, do func() error) error {
	for {
		if ctx.Err() != nil {
			return ended(ctx, op)
		}
		if err := deadline(time.Time{}); err != nil {
			return transport.ErrClosed
		}
		stop := context.AfterFunc(ctx, func() { _ = deadline(time.Now()) })
		err := do()
		stop()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return errors.Join(transport.ErrClosed, err)
		}
	}
}
