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
	"github.com/boardsmith/boardsmith/transport"
)

// TestRTTRanges: the control block is at its symbol. Without an image it is searched in RAM, and an image without one
// is an error.
func TestRTTRanges(t *testing.T) {
	cc, err := exec.LookPath("arm-none-eabi-gcc")
	if err != nil {
		t.Skip("no arm-none-eabi-gcc")
	}
	compiled := func(source string) *image.Image {
		dir := t.TempDir()
		file, object := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.o")
		writeFile(t, file, source)
		must(t, exec.Command(cc, "-c", "-o", object, file).Run())
		return &image.Image{Path: object, Digest: cachekey.Digest(readFile(t, object))}
	}
	b := findBoard(t, "microbit")
	ranges, err := rttRanges(expected{compiled("char _SEGGER_RTT[72];"), true}, b)
	if err != nil || len(ranges) != 1 || ranges[0].Size != 72 {
		t.Errorf("%v, %v", ranges, err)
	}
	ranges, err = rttRanges(expected{}, b)
	if err != nil || len(ranges) != 1 || ranges[0].Addr != 0x20000000 || ranges[0].Size != 16<<10 {
		t.Errorf("without an image: %v, %v", ranges, err)
	}
	ranges, err = rttRanges(expected{image: compiled("char _SEGGER_RTT[72];")}, b)
	if err != nil || len(ranges) != 2 || ranges[0].Size != 72 || ranges[1].Size != 16<<10 {
		t.Errorf("another image may run: %v, %v", ranges, err)
	}
	_, err = rttRanges(expected{compiled("int x;"), true}, b)
	wantError(t, err, failure.Config, rttSymbol)
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
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err = l.Read(ctx, make([]byte, 1)); err == nil || time.Since(start) > endsWithin/2 {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
