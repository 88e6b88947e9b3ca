//go:build linux

package transport_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// openTerminal opens a pseudo-terminal's far side as a serial port.
func openTerminal(t *testing.T) (near *os.File, port *transport.Serial) {
	t.Helper()
	near, far := transporttest.Terminal(t)
	port, err := transport.OpenSerial(transport.SerialConfig{Port: far.Name()})
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	t.Cleanup(func() { port.Close() })
	return near, port
}

// TestWithoutTerminals runs a test of this file once more, in a system without pseudo-terminals.
func TestWithoutTerminals(t *testing.T) {
	const without = "mount -t tmpfs none /dev/pts"
	if said, err := exec.Command("unshare", "--mount", "sh", "-c", without).CombinedOutput(); err != nil {
		t.Skipf("no namespace to hide the pseudo-terminals in: %v: %s", err, said)
	}
	said, err := exec.Command("unshare", "--mount", "sh", "-c",
		without+` && exec "$0" -test.v -test.run='^TestSerialUnplugged$'`, os.Args[0]).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "no pseudo-terminal to use as a serial port") ||
		!strings.Contains(string(said), "--- SKIP") {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestSerialContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transport.Link {
		near, port := openTerminal(t)
		go func() { _, _ = io.Copy(near, near) }() // until the test closes it
		return port
	})
}

func TestSerialUnplugged(t *testing.T) {
	near, port := openTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := near.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if n, err := port.Read(ctx, make([]byte, 8)); n != 3 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	near.Close()
	_, err := port.Read(ctx, make([]byte, 8))
	if !errors.Is(err, transport.ErrClosed) || failure.Of(err) != failure.BoardLost {
		t.Errorf("read after it was unplugged: %v, class %v", err, failure.Of(err))
	}
	if err := port.Write(ctx, []byte("x")); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("write after it was unplugged: %v", err)
	}
}

func TestSerialNotThere(t *testing.T) {
	_, err := transport.OpenSerial(transport.SerialConfig{Port: "/dev/ttyNONE7"})
	if failure.Of(err) != failure.ProbeMissing {
		t.Errorf("%v, class %v", err, failure.Of(err))
	}
}
