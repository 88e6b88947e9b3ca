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

// A TCPError reports an address that cannot be reached, or a connection that broke. In the latter case errors.Is
// matches it with ErrClosed.
type TCPError struct {
	Address string
	Broken  bool // the connection was open
	Err     error
}

func (e *TCPError) Error() string { return fmt.Sprintf("TCP %s: %v", e.Address, e.Err) }

// Unwrap returns the network's error; io.EOF if the peer has closed the connection.
func (e *TCPError) Unwrap() error { return e.Err }

// Is makes ErrClosed match a connection that broke.
func (e *TCPError) Is(target error) bool { return e.Broken && target == ErrClosed }

// FailureClass returns the class of a missing or lost device.
func (e *TCPError) FailureClass() failure.Class {
	if e.Broken {
		return failure.Transport
	}
	return failure.ProbeMissing
}

// Temporary reports whether the address may soon accept a connection: its peer refused or reset this one, as a serial
// server does that restarts or has another client.
func (e *TCPError) Temporary() bool {
	var op *os.SyscallError
	connecting := errors.As(e.Err, &op) && strings.HasPrefix(op.Syscall, "connect") // on Windows: connectex
	return e.Broken || connecting && !timedOut(e.Err)
}

func timedOut(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// NextStep returns what to check.
func (e *TCPError) NextStep() string {
	var name *net.DNSError
	var form *net.AddrError
	switch {
	case e.Broken:
		return "check that the peer still runs, and that no other client uses it: a serial server often takes one at a time"
	case errors.As(e.Err, &name):
		return "check the name of the host in the address"
	case errors.As(e.Err, &form):
		return "write the address as host:port, as in 192.0.2.7:4000"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "start the program that is to listen there, or correct the port"
	case e.Temporary():
		return "check the address, and that the peer still runs and does not restart again and again"
	case timedOut(e.Err):
		return "check the address, the network, and that the peer is switched on"
	}
	return ""
}

// A tcpLink is a Link over a TCP connection. It sends data at once (TCP_NODELAY).
type tcpLink struct {
	conn     *net.TCPConn
	lossy    bool
	in, out  waiter
	isClosed atomic.Bool
}

// DialTCP connects to an address. Errors: *TCPError, also where nothing answers within c.Within; *TimeoutError after
// ctx's deadline; ctx's own after a cancel.
func DialTCP(ctx context.Context, c TCPConfig) (Link, error) {
	start := time.Now()
	if ctx.Err() != nil {
		return nil, waitError(ctx, "dial", start)
	}
	d := net.Dialer{Timeout: cmp.Or(c.Within, defaultConnect)}
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	switch {
	case err != nil && ended(ctx):
		return nil, waitError(ctx, "dial", start)
	case timedOut(err):
		return nil, &TCPError{Address: c.Address, Err: fmt.Errorf("no connection within %v: %w", d.Timeout, cause(err))}
	case err != nil:
		return nil, &TCPError{Address: c.Address, Err: cause(err)}
	}
	return newTCP(conn.(*net.TCPConn), c.Lossy), nil
}

func newTCP(conn *net.TCPConn, lossy bool) *tcpLink {
	return &tcpLink{conn: conn, lossy: lossy, in: newWaiter(conn.SetReadDeadline), out: newWaiter(conn.SetWriteDeadline)}
}

// cause removes the address, which TCPError has.
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
	var timeout *TimeoutError
	switch {
	case l.isClosed.Load():
		return ErrClosed
	case errors.As(err, &timeout), errors.Is(err, context.Canceled):
		return err
	}
	return &TCPError{Address: l.conn.RemoteAddr().String(), Broken: true, Err: cause(err)}
}

// Close implements Link.
func (l *tcpLink) Close() error {
	if l.isClosed.Swap(true) {
		return nil
	}
	return l.conn.Close()
}
