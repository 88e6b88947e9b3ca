//go:build linux

package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// openTerminal opens a pseudo-terminal's far side as a serial port.
func openTerminal(t *testing.T) (near *os.File, port transport.Link) {
	t.Helper()
	near, far := transporttest.Terminal(t)
	port, err := transport.OpenSerial(far.Name(), 0)
	must(t, err)
	far.Close()
	t.Cleanup(func() { port.Close() })
	return near, port
}

func TestSerialContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transport.Link {
		near, port := openTerminal(t)
		go func() { _, _ = io.Copy(near, near) }() // until the test closes it
		return port
	})
}

func TestUnpluggedPortIsBoardLost(t *testing.T) {
	near, port := openTerminal(t)
	ctx := within(t, 10*time.Second)
	must(t, last(near.Write([]byte("abc"))))
	wantResult(t, 3, "read")(port.Read(ctx, make([]byte, 8)))
	near.Close()
	_, err := port.Read(ctx, make([]byte, 8))
	if !errors.Is(err, transport.ErrClosed) || failure.Of(err) != failure.BoardLost {
		t.Errorf("read after it was unplugged: %v, class %v", err, failure.Of(err))
	}
	wantIs(t, port.Write(ctx, []byte("x")), transport.ErrClosed, "write after it was unplugged")
}

func TestMissingPortIsProbeMissing(t *testing.T) {
	wantError(t, last(transport.OpenSerial("/dev/ttyNONE7", 0)), failure.ProbeMissing)
}

// TestSharedPortNamesOtherProgram opens a port that another program reads: Read's timeout names the program, and Close
// ends, also during a write.
func TestSharedPortNamesOtherProgram(t *testing.T) {
	near, far := transporttest.Terminal(t)
	cat := exec.Command("cat", far.Name())
	taken, err := cat.StdoutPipe()
	must(t, err)
	must(t, cat.Start())
	t.Cleanup(func() {
		_ = cat.Process.Kill() // it still reads
		_ = cat.Wait()
	})
	line := func() {
		t.Helper()
		must(t, last(near.Write([]byte("x\n"))))
	}
	line()
	must(t, last(io.ReadFull(taken, make([]byte, 2)))) // cat reads
	go func() { _, _ = io.Copy(io.Discard, taken) }()
	want := fmt.Sprintf("cat (process %d)", cat.Process.Pid)
	for range 3 {
		port, err := transport.OpenSerial(far.Name(), 0)
		must(t, err)
		ctx := within(t, 20*time.Millisecond)
		for err = nil; err == nil; { // each byte reaches the port or cat
			line()
			_, err = port.Read(ctx, make([]byte, 8))
		}
		if !errors.Is(err, transport.ErrSharedPort) || !strings.Contains(err.Error(), want+": read") ||
			!errors.Is(err, context.DeadlineExceeded) || !strings.Contains(failure.Next(err), want) {
			t.Errorf("%v (%s), want %s", err, failure.Next(err), want)
		}
		mute := &transport.HandshakeError{Err: err}
		if next := failure.Next(mute); !strings.Contains(next, want) {
			t.Errorf("without a session: %s", next)
		}
		writing := make(chan struct{})
		go func() { // more than the terminal holds
			defer close(writing)
			_ = port.Write(context.Background(), make([]byte, 1<<20))
		}()
		closed := make(chan error, 1)
		go func() { closed <- port.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("Close waits for the bytes that the other program took")
		}
		<-writing
	}
}

// TestSerialNotShared: a port that no other program has open is not called shared.
func TestSerialNotShared(t *testing.T) {
	_, port := openTerminal(t)
	_, err := port.Read(within(t, time.Millisecond), make([]byte, 8))
	if errors.Is(err, transport.ErrSharedPort) || failure.Of(err) != failure.Timeout {
		t.Errorf("a timeout: %v", err)
	}
	wantEqual(t, transport.Shared(port, transport.ErrClosed), transport.ErrClosed, "another error")
}

// TestSerialNotInherited: a program that is started while a port is open does not have it open, too.
func TestSerialNotInherited(t *testing.T) {
	near, port := openTerminal(t)
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	must(t, err)
	must(t, child.Start())
	defer func() {
		in.Close()
		_ = child.Wait() // cat ends with its input
	}()
	must(t, port.Close())
	wantIs(t, last(near.Read(make([]byte, 8))), syscall.EIO, "the port is still open: read")
}

// TestSerialForkedReader: a child with this program, as one is that has not yet started its own, is no second reader.
func TestSerialForkedReader(t *testing.T) {
	if os.Getenv("TRANSPORT_TEST_CHILD") != "" {
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent ends
		return
	}
	_, far := transporttest.Terminal(t)
	reopened, err := os.OpenFile(far.Name(), os.O_RDWR, 0)
	must(t, err)
	defer reopened.Close()
	child := exec.Command("/proc/self/exe", "-test.run=^TestSerialForkedReader$")
	child.Env, child.ExtraFiles = append(os.Environ(), "TRANSPORT_TEST_CHILD=1"), []*os.File{reopened}
	input, err := child.StdinPipe()
	must(t, err)
	if err := child.Start(); err != nil {
		t.Skip(err) // no /proc
	}
	defer func() { _ = input.Close(); _ = child.Wait() }()
	port, err := transport.OpenSerial(far.Name(), 0)
	must(t, err)
	defer port.Close()
	_, err = port.Read(within(t, 20*time.Millisecond), make([]byte, 8))
	if errors.Is(err, transport.ErrSharedPort) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
