// This file connects to a device over TCP.

package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// TCPConfig describes a connection. Only Address must be set.
type TCPConfig struct {
	Address string        // host and port, as in "192.0.2.7:4000", "localhost:4000"
	Lossy   bool          // the peer is a serial server with a UART
	Within  time.Duration // limit for the connection; 0 means 10 s. ctx may end it sooner
}

const defaultConnect = 10 * time.Second

// ErrTemporary is wrapped by the error of an address or a connection over TCP that may soon work: its peer refused,
// reset or closed the connection, as a serial server does that restarts or has another client.
var ErrTemporary = errors.New("temporary")

// unreachable returns the error, of class probe-missing, of an address that cannot be reached.
func unreachable(address string, err error) error {
	var name *net.DNSError
	var form *net.AddrError
	var op *os.SyscallError
	connecting := errors.As(err, &op) && strings.HasPrefix(op.Syscall, "connect") // on Windows: connectex
	temporary := connecting && !timedOut(err)

	next := ""
	switch {
	case errors.As(err, &name):
		next = "check the name of the host in the address"
	case errors.As(err, &form):
		next = "write the address as host:port, as in 192.0.2.7:4000"
	case errors.Is(err, syscall.ECONNREFUSED):
		next = "start the program that is to listen there, or correct the port"
	case temporary:
		next = "check the address, and that the peer still runs and does not restart again and again"
	case timedOut(err):
		next = "check the address, the network, and that the peer is switched on"
	}

	err = failure.New(failure.ProbeMissing, next, "TCP %s: %w", address, err)
	if temporary {
		err = fmt.Errorf("%w%.0w", err, ErrTemporary)
	}
	return err
}

// disconnected returns ErrClosed, of class transport, for a connection that broke. err is the network's error; io.EOF
// if the peer has closed the connection.
func disconnected(address string, err error) error {
	return failure.New(failure.Transport, "check that the peer still runs, and that no other client uses it: a serial "+
		"server often takes one at a time", "TCP %s: %w%.0w%.0w", address, err, ErrClosed, ErrTemporary)
}

func timedOut(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// A tcpLink is a Link over a TCP connection. It sends data at once (TCP_NODELAY).
type tcpLink struct {
	conn     *net.TCPConn
	lossy    bool
	in, out  waiter
	isClosed atomic.Bool
}

// DialTCP connects to an address. Errors: class probe-missing, also where nothing answers within c.Within; timeout
// after ctx's deadline; ctx's own after a cancel.
func DialTCP(ctx context.Context, c TCPConfig) (Link, error) {
	start := time.Now()
	if ctx.Err() != nil {
		return nil, waitError(ctx, "dial", start)
	}

	d := net.Dialer{Timeout: cmp.Or(c.Within, defaultConnect)}
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	switch {
	// Before timedOut, which is true for ctx's deadline, too.
	case err != nil && ended(ctx):
		return nil, waitError(ctx, "dial", start)
	case timedOut(err):
		return nil, unreachable(c.Address, fmt.Errorf("no connection within %v: %w", d.Timeout, cause(err)))
	case err != nil:
		return nil, unreachable(c.Address, cause(err))
	}

	return newTCP(conn.(*net.TCPConn), c.Lossy), nil
}

func newTCP(conn *net.TCPConn, lossy bool) *tcpLink {
	return &tcpLink{conn: conn, lossy: lossy, in: newWaiter(conn.SetReadDeadline), out: newWaiter(conn.SetWriteDeadline)}
}

// cause removes the address, which our errors have.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Lossy reports whether the peer is a serial server with a UART. TCP itself loses nothing.
func (l *tcpLink) Lossy() bool { return l.lossy }

// Read implements Link.
func (l *tcpLink) Read(ctx context.Context, p []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, waitError(ctx, "read", time.Now())
	}
	if len(p) == 0 {
		return 0, nil
	}

	n, err := l.in.wait(ctx, "read", func() (int, error) { return l.conn.Read(p) })
	// With bytes, Link returns no error.
	if n > 0 {
		return n, nil
	}
	return 0, l.explain(err)
}

// Write implements Link.
func (l *tcpLink) Write(ctx context.Context, p []byte) error {
	if ctx.Err() != nil {
		return waitError(ctx, "write", time.Now())
	}

	for len(p) > 0 {
		n, err := l.out.wait(ctx, "write", func() (int, error) { return l.conn.Write(p) })
		if err != nil {
			return l.explain(err)
		}
		p = p[n:]
	}
	return nil
}

// explain converts the network's errors to those of Link, except ctx's.
func (l *tcpLink) explain(err error) error {
	switch {
	case l.isClosed.Load():
		return ErrClosed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	}
	return disconnected(l.conn.RemoteAddr().String(), cause(err))
}

// Close implements Link.
func (l *tcpLink) Close() error {
	if l.isClosed.Swap(true) {
		return nil
	}
	return l.conn.Close()
}
