package transporttest

import (
	"os"
	"testing"

	"github.com/creack/pty"
)

// Terminal opens a pseudo-terminal: what is written to near can be read from the port that far names. Where the system
// has none the test is skipped. The test's end closes both.
func Terminal(t testing.TB) (near, far *os.File) {
	t.Helper()
	near, far, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal to take for a serial port (is devpts mounted on /dev/pts?): %v", err)
	}
	t.Cleanup(func() {
		_ = near.Close() // the test may have closed it
		_ = far.Close()
	})
	return near, far
}
