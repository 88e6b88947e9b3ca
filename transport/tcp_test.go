package transport_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// connect returns the two ends of a connection.
func connect(t *testing.T) (dialled transport.Link, accepted transport.Link) {
	t.Helper()
	l := transporttest.Listen(t, "127.0.0.1:0")
	ctx := testkit.Context(t)
	dialled, err := transport.DialTCP(ctx, transport.TCPConfig{Address: l.Address()})
	must(t, err)
	t.Cleanup(func() { _ = dialled.Close() })
	accepted, err = l.Accept(ctx)
	must(t, err)
	t.Cleanup(func() { _ = accepted.Close() })
	return dialled, accepted
}

func TestTCPContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transport.Link {
		dialled, accepted := connect(t)
		go transporttest.Echo(accepted)
		return dialled
	})
}

// TestTCPReadsBeforeClose: what the peer had sent before it closed is read first.
func TestTCPReadsBeforeClose(t *testing.T) {
	ctx := testkit.Context(t)
	dialled, accepted := connect(t)
	must(t, errors.Join(accepted.Write(ctx, []byte("last")), accepted.Close()))
	must(t, transporttest.ReadFull(ctx, dialled, []byte("last")))
	_, err := dialled.Read(ctx, make([]byte, 4))
	wantIs(t, err, io.EOF)
	var written error
	for written == nil {
		written = dialled.Write(ctx, make([]byte, 1<<16))
	}
	for _, err := range []error{err, written} {
		wantIs(t, err, transport.ErrClosed)
		wantError(t, err, failure.Transport)
	}
}

// TestTCPAdvice checks the hint for each way in which a connection fails or ends.
func TestTCPAdvice(t *testing.T) {
	closed := transporttest.Listen(t, "127.0.0.1:0")
	must(t, closed.Close())
	for _, c := range []struct{ address, next string }{
		{closed.Address(), "start the program"},
		{"no-such-host.invalid:4000", "name of the host"},
		{"192.0.2.7", "as host:port"},
	} {
		_, err := transport.DialTCP(testkit.Context(t), transport.TCPConfig{Address: c.address})
		if wantError(t, err, failure.ProbeMissing, c.next); errors.Is(err, transport.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestTCPTemporary: a connection that a bridge refuses or resets, as one does that restarts, may soon be accepted, and
// has a next step; an address that is wrong, or where nothing answers, has another one.
func TestTCPTemporary(t *testing.T) {
	op := func(e syscall.Errno) error { return transport.Unreachable("a:1", os.NewSyscallError("connect", e)) }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{op(syscall.ECONNREFUSED), true},
		{op(syscall.ECONNRESET), true},
		{transport.Disconnected("a:1", io.EOF), true},
		{op(syscall.ETIMEDOUT), false},
		{transport.Unreachable("a:1", &net.DNSError{}), false},
		{transport.Unreachable("a:1", &net.AddrError{}), false},
	} {
		if got := errors.Is(c.err, transport.ErrTemporary); got != c.want || failure.Next(c.err) == "" {
			t.Errorf("%v: temporary %v, want %v; next step %q", c.err, got, c.want, failure.Next(c.err))
		}
	}
}

// TestTCPPeerClosesAtOnce: a serial server that has another client closes the connection, and no firmware is to blame.
func TestTCPPeerClosesAtOnce(t *testing.T) {
	dialled, accepted := connect(t)
	must(t, accepted.Close())
	wantError(t, last(transport.Dial(testkit.Context(t), dialled, quick)), failure.Transport, "other client")
}
