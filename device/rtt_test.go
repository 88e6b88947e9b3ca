package device

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/transport"
)

// TestRTTBlock: the control block is at its symbol. Without an image it is searched in RAM, and an image without one is
// an error.
func TestRTTBlock(t *testing.T) {
	cc, err := exec.LookPath("arm-none-eabi-gcc")
	if err != nil {
		t.Skip("no arm-none-eabi-gcc")
	}
	compiled := func(source string) *image.Image {
		dir := t.TempDir()
		file, object := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.o")
		must(t, os.WriteFile(file, []byte(source), 0o644))
		must(t, exec.Command(cc, "-c", "-o", object, file).Run())
		data, err := os.ReadFile(object)
		must(t, err)
		return &image.Image{Path: object, Digest: image.DigestOf(data)}
	}
	b, err := boards.Find("microbit", nil)
	must(t, err)
	where, err := rttBlock(expected{compiled("char _SEGGER_RTT[72];"), true}, b)
	if err != nil || len(where) != 1 || where[0].Size != 72 {
		t.Errorf("%v, %v", where, err)
	}
	where, err = rttBlock(expected{}, b)
	if err != nil || len(where) != 1 || where[0].Addr != 0x20000000 || where[0].Size != 16<<10 {
		t.Errorf("without an image: %v, %v", where, err)
	}
	where, err = rttBlock(expected{image: compiled("char _SEGGER_RTT[72];")}, b)
	if err != nil || len(where) != 2 || where[0].Size != 72 || where[1].Size != 16<<10 {
		t.Errorf("another image may run: %v, %v", where, err)
	}
	_, err = rttBlock(expected{compiled("int x;"), true}, b)
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), rttSymbol) {
		t.Errorf("an image without RTT: %v", err)
	}
}

// goneServer serves RTT on a port until the test says so.
type goneServer struct {
	flasher.Programmer
	gone chan struct{}
	why  error
	// the server runs on after the connection has ended
	stays bool
}

func (s goneServer) ServeRTT(
	ctx context.Context, port int, _ []flasher.Range, use func(context.Context) error,
) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	served, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if !s.stays {
			defer stop()
		}
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		select {
		case <-s.gone:
		case <-ctx.Done():
		}
	}()
	used := use(served)
	if ctx.Err() != nil {
		return used
	}
	return s.why
}

// TestRTTServerEnds: what is lost with the server says why the server ended. A link that is closed here is closed.
func TestRTTServerEnds(t *testing.T) {
	b, err := boards.Find("microbit", nil)
	must(t, err)
	for _, closed := range []bool{false, true} {
		s := goneServer{gone: make(chan struct{}), why: errors.New("the probe is gone")}
		l, err := openRTT(t.Context(), s, expected{}, b)
		must(t, err)
		if closed {
			must(t, l.Close())
		} else {
			close(s.gone)
		}
		_, err = l.Read(t.Context(), make([]byte, 1))
		if !errors.Is(err, transport.ErrClosed) || errors.Is(err, s.why) == closed {
			t.Errorf("closed here %v: %v", closed, err)
		}
		must(t, l.Close())
	}
}

// TestRTTConnectionEnds: a request does not wait longer than its context for what the server may say.
func TestRTTConnectionEnds(t *testing.T) {
	b, err := boards.Find("microbit", nil)
	must(t, err)
	s := goneServer{gone: make(chan struct{}), stays: true}
	l, err := openRTT(t.Context(), s, expected{}, b)
	must(t, err)
	defer l.Close()
	close(s.gone)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err = l.Read(ctx, make([]byte, 1)); err == nil || time.Since(start) > endsWithin/2 {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
