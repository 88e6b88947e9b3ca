// This file is the suite of tests that every link must pass.

package transporttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/transport"
)

var (
	must       = testkit.Must
	wantResult = testkit.WantResult
	wantIs     = testkit.WantIs
	last       = testkit.Last
)

// patience limits every operation that should succeed.
const patience = 20 * time.Second

// Run tests the contract of transport.Link. open returns a link whose peer sends back exactly the bytes that it
// receives; it is called once per test.
func Run(t *testing.T, open func(t *testing.T) transport.Link) {
	for name, test := range map[string]func(*testing.T, transport.Link){
		"echo":             testEcho,
		"long echo":        testLongEcho,
		"deadline":         testDeadline,
		"cancel":           testCancel,
		"expired context":  testExpiredContext,
		"empty":            testEmpty,
		"close":            testClose,
		"close interrupts": testCloseInterrupts,
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			link := open(t)
			test(t, link)
			must(t, link.Close())
			testkit.Await(t, "the end of the link's goroutines", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

func soon(t *testing.T) context.Context { return testkit.Within(t, patience) }

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// ReadFull reads len(want) bytes and compares them with want.
func ReadFull(ctx context.Context, link transport.Link, want []byte) error {
	got := make([]byte, len(want))
	for have := 0; have < len(got); {
		n, err := link.Read(ctx, got[have:])
		if err != nil {
			return fmt.Errorf("read after %d of %d bytes: %w", have, len(got), err)
		}
		if n < 1 || n > len(got)-have {
			return fmt.Errorf("read returned %d bytes of at most %d without an error", n, len(got)-have)
		}
		have += n
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes came back changed", len(got))
	}
	return nil
}

func testEcho(t *testing.T, link transport.Link) {
	ctx := soon(t)
	for _, n := range []int{1, 2, 63, 512, 4096} {
		p := randomBytes(n)
		must(t, link.Write(ctx, p))
		must(t, ReadFull(ctx, link, p))
	}
}

// testLongEcho sends more than all buffers hold, so that reading and writing must run concurrently.
func testLongEcho(t *testing.T, link transport.Link) {
	ctx := soon(t)
	p := randomBytes(1 << 20)
	wrote := make(chan error)
	go func() { wrote <- link.Write(ctx, p) }()
	must(t, ReadFull(ctx, link, p))
	must(t, <-wrote)
}

func testDeadline(t *testing.T, link transport.Link) {
	for range 2 {
		_, err := link.Read(testkit.Within(t, 30*time.Millisecond), make([]byte, 1))
		if !errors.Is(err, context.DeadlineExceeded) || failure.Of(err) != failure.Timeout {
			t.Fatalf("read without data: got %v, want a timeout", err)
		}
	}
	testEcho(t, link)
}

func testCancel(t *testing.T, link transport.Link) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	wantIs(t, last(link.Read(ctx, make([]byte, 1))), context.Canceled, "cancelled read")
	testEcho(t, link)
}

func testExpiredContext(t *testing.T, link transport.Link) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantIs(t, last(link.Read(ctx, make([]byte, 1))), context.Canceled, "read")
	wantIs(t, link.Write(ctx, []byte{1}), context.Canceled, "write")
	testEcho(t, link)
}

func testEmpty(t *testing.T, link transport.Link) {
	must(t, link.Write(soon(t), nil))
	wantResult(t, 0, "empty read")(link.Read(soon(t), nil))
	testEcho(t, link)
}

func testClose(t *testing.T, link transport.Link) {
	testEcho(t, link)
	for range 2 {
		must(t, link.Close())
	}
	wantIs(t, last(link.Read(soon(t), make([]byte, 1))), transport.ErrClosed, "read after close")
	wantIs(t, link.Write(soon(t), []byte{1}), transport.ErrClosed, "write after close")
}

func testCloseInterrupts(t *testing.T, link transport.Link) {
	time.AfterFunc(30*time.Millisecond, func() { link.Close() })
	wantIs(t, last(link.Read(soon(t), make([]byte, 1))), transport.ErrClosed, "read interrupted by close")
}

// Echo sends back what it reads until the link ends, as required of the peer in Run.
func Echo(link transport.Link) {
	buf := make([]byte, 32<<10)
	for {
		n, err := link.Read(context.Background(), buf)
		if err != nil || link.Write(context.Background(), buf[:n]) != nil {
			link.Close()
			return
		}
	}
}
