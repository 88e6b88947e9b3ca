package transport_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// TestSilentTCPHostIsProbeMissing: a computer that is switched off refuses nothing. Dialling ends by itself: the device
// is missing.
func TestSilentTCPHostIsProbeMissing(t *testing.T) {
	c := transport.TCPConfig{Address: deaf(t)}
	wantError(t, last(transport.DialTCP(within(t, 50*time.Millisecond), c)), failure.Timeout)
	c.Within = 50 * time.Millisecond
	_, err := transport.DialTCP(t.Context(), c)
	wantError(t, err, failure.ProbeMissing, "TCP "+c.Address, "switched on", "within 50ms")
}

// deaf is an address whose listener has all the connections that it can hold: the kernel drops further requests.
func deaf(t *testing.T) string {
	t.Helper()
	l := transporttest.Listen(t, "127.0.0.1:0")
	raw, err := l.SyscallConn()
	must(t, err)
	var short error
	must(t, errors.Join(raw.Control(func(fd uintptr) { short = syscall.Listen(int(fd), 0) }), short))
	const more = 8
	for range more {
		conn, err := net.DialTimeout("tcp", l.Address(), 200*time.Millisecond)
		if err != nil {
			return l.Address()
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatalf("the listener takes %d connections", more)
	return ""
}
