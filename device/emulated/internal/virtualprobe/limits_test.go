package virtualprobe

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// TestHungEmulator: an emulator that takes no bytes ends each request with ErrGone.
func TestHungEmulator(t *testing.T) {
	ours, theirs := net.Pipe() // holds no byte
	defer ours.Close()
	defer theirs.Close()
	conn := limitedConn{ours, time.Millisecond}
	g := &gdbStub{conn: conn, running: true}
	for name, err := range map[string]error{
		"send": g.send("c"), "halt": g.halt(), "memory": newQtest(conn).ReadBlock(0, []uint32{1}),
	} {
		if !errors.Is(err, ErrGone) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
