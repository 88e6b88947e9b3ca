package transport

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.bug.st/serial"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// A silentPort is what the driver makes of a port that is gone on some systems: reads give nothing, and no error.
type silentPort struct{ serial.Port }

func (silentPort) Read([]byte) (int, error) { return 0, nil }
func (silentPort) ResetOutputBuffer() error { return nil }
func (silentPort) Close() error             { return nil }

func TestSerialReadsNothing(t *testing.T) {
	port := newSerial("silent", silentPort{})
	defer port.Close()
	ctx := testkit.Within(t, 10*time.Second)
	if _, err := port.Read(ctx, make([]byte, 8)); !errors.Is(err, ErrClosed) || failure.Of(err) != failure.BoardLost {
		t.Errorf("%v, class %v", err, failure.Of(err))
	}
}

// A stuckPort has no data, and its driver cannot close it.
type stuckPort struct {
	serial.Port
	closed chan struct{}
}

func (p stuckPort) Read([]byte) (int, error) { <-p.closed; return 0, errors.New("closed") }
func (stuckPort) ResetOutputBuffer() error   { return nil }
func (p stuckPort) Close() error             { close(p.closed); return errors.New("still there") }

// Close returns the driver's error, unless the port has vanished before.
func TestSerialCloseFails(t *testing.T) {
	stuck := newSerial("stuck", stuckPort{closed: make(chan struct{})})
	if err := stuck.Close(); err == nil || err.Error() != "serial port stuck: still there" || errors.Is(err, ErrClosed) {
		t.Errorf("a port that is there: %v", err)
	}
	gone := newSerial("gone", stuckPort{closed: make(chan struct{})})
	gone.mu.Lock()
	gone.err = errors.New("no longer there")
	gone.mu.Unlock()
	must(t, gone.Close())
}

// A shortPort accepts one byte of each write.
type shortPort struct {
	stuckPort
	written *[]byte
}

func (p shortPort) Write(data []byte) (int, error) {
	*p.written = append(*p.written, data[0])
	return 1, nil
}

// TestSerialShortWrites: what the driver does not accept at once is written again, and nothing twice.
func TestSerialShortWrites(t *testing.T) {
	var written []byte
	port := newSerial("short", shortPort{stuckPort{closed: make(chan struct{})}, &written})
	defer port.Close() // stuckPort's error
	ctx := testkit.Within(t, 10*time.Second)
	if err := port.Write(ctx, []byte("all of it")); err != nil || string(written) != "all of it" {
		t.Errorf("%q was written, %v", written, err)
	}
}

// TestOthersAreLookedUpEachSecond: the list of the other programs is one second old at most, and is used so long.
func TestOthersAreLookedUpEachSecond(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other programs are found on Linux")
	}
	near, far, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal to use as a serial port: %v", err)
	}
	defer near.Close()
	defer far.Close()
	port := &serialLink{name: far.Name()}
	wantEqual(t, len(port.others()), 0, "before")
	other := exec.Command("sleep", "600")
	other.Stdin = far
	must(t, other.Start())
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	port.looked = time.Now().Add(time.Hour)
	wantEqual(t, len(port.others()), 0, "within the second")
	port.looked = time.Now().Add(-lookEvery)
	wantEqual(t, len(port.others()), 1, "after the second")
}
