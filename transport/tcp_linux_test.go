package transport_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// TestSilentTCPHostIsProbeMissing: a computer that is switched off refuses nothing. Dialling ends by itself: the device
// is missing.
func TestSilentTCPHostIsProbeMissing(t *testing.T) {
	address := deaf(t)
	_, err := transport.DialTCP(t.Context(), transport.TCPConfig{Address: address, Within: 50 * time.Millisecond})
	wantError(t, err, failure.ProbeMissing, "TCP "+address, "switched on", "within 50ms")
	_, err = transport.DialTCP(within(t, 50*time.Millisecond), transport.TCPConfig{Address: address})
	wantError(t, err, failure.Timeout)
}

// deaf is an address whose listener has all the connections that it can hold: the kernel drops further requests.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	raw, err := l.(*net.TCPListener).SyscallConn()
	must(t, err)
	var short error
	must(t, errors.Join(raw.Control(func(fd uintptr) { short = syscall.Listen(int(fd), 0) }), short))
	const more = 8
	for range more {
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if err != nil {
			return l.Addr().String()
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatalf("the listener takes %d connections", more)
	return ""
}
