// This file opens pseudo-terminals.

package transporttest

import (
	"os"
	"testing"

	"github.com/creack/pty"
)

// Terminal opens a pseudo-terminal: data written to near can be read from the port named far. The test is skipped
// on a system without pseudo-terminals. Both ends close at the end of the test.
func Terminal(t testing.TB) (near, far *os.File) {
	t.Helper()
	near, far, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal to use as a serial port (is devpts mounted on /dev/pts?): %v", err)
	}
	t.Cleanup(func() {
		_ = near.Close() // the test may have closed it
		_ = far.Close()
	})
	return near, far
}
