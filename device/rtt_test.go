package device

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/transport"
)

// TestRTTRanges: the control block is at its symbol. Without an image it is searched in RAM, and an image without one
// is an error.
func TestRTTRanges(t *testing.T) {
	testkit.Need(t, "arm-none-eabi-gcc")
	compiled := func(source string) *image.Image {
		dir := t.TempDir()
		file, object := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.o")
		writeFile(t, file, source)
		must(t, exec.Command("arm-none-eabi-gcc", "-c", "-o", object, file).Run())
		return &image.Image{Path: object, Digest: cachekey.Digest(readFile(t, object))}
	}
	b := findBoard(t, "microbit")
	ram, block := flasher.Range{Addr: 0x20000000, Size: 16 << 10}, flasher.Range{Size: 72}
	with := compiled("char _SEGGER_RTT[72];")
	wantResult(t, []flasher.Range{block})(rttRanges(expected{with, true}, b))
	wantResult(t, []flasher.Range{ram}, "without an image")(rttRanges(expected{}, b))
	wantResult(t, []flasher.Range{block, ram}, "another image may run")(rttRanges(expected{image: with}, b))
	wantError(t, last(rttRanges(expected{compiled("int x;"), true}, b)), failure.Config, rttSymbol)
}

// fakeServer serves RTT on a port until end is closed.
type fakeServer struct {
	flasher.Programmer
	end  chan struct{}
	err  error
	runs bool // the server runs on after the connection has ended
}

func (s fakeServer) ServeRTT(
	ctx context.Context, port int, _ []flasher.Range, use func(context.Context) error,
) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	served, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if !s.runs {
			defer stop()
		}
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		select {
		case <-s.end:
		case <-ctx.Done():
		}
	}()
	used := use(served)
	if ctx.Err() != nil {
		return used
	}
	return s.err
}

// TestRTTErrorHasServersCause: the error of a lost link contains that of the server; of a link that was closed, not.
func TestRTTErrorHasServersCause(t *testing.T) {
	b := findBoard(t, "microbit")
	for name, closed := range map[string]bool{"lost": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			s := fakeServer{end: make(chan struct{}), err: errors.New("the probe was unplugged")}
			l, err := openRTT(t.Context(), s, expected{}, b)
			must(t, err)
			if closed {
				must(t, l.Close())
			} else {
				close(s.end)
			}
			_, err = l.Read(t.Context(), make([]byte, 1))
			if !errors.Is(err, transport.ErrClosed) || errors.Is(err, s.err) == closed {
				t.Error(err)
			}
			must(t, l.Close())
		})
	}
}

// TestRTTReadEndsWithContext: a read waits for the server's error no longer than its context allows.
func TestRTTReadEndsWithContext(t *testing.T) {
	b := findBoard(t, "microbit")
	s := fakeServer{end: make(chan struct{}), runs: true}
	l, err := openRTT(t.Context(), s, expected{}, b)
	must(t, err)
	defer l.Close()
	close(s.end)
	ctx := testkit.Within(t, 50*time.Millisecond)
	start := time.Now()
	if _, err = l.Read(ctx, make([]byte, 1)); err == nil || time.Since(start) > endsWithin/2 {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
