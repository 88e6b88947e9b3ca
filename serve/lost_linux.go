package serve

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged ends a connection whose peer acknowledges no data for a time; without it, after a quarter of an
// hour. Errors are those of a connection that has ended.
func limitUnacknowledged(c *net.TCPConn, limit time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}

	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
