//go:build !linux

package serve

import (
	"net"
	"time"
)

// limitUnacknowledged does nothing: the system's own limit holds.
func limitUnacknowledged(*net.TCPConn, time.Duration) {}
