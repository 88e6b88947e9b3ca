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
	"github.com/boardsmith/boardsmith/transport"
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
			if err := link.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			settle(t, before)
		})
	}
}

// settle waits for a link's goroutines to end.
func settle(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before the link", runtime.NumGoroutine(), before)
		}
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// readFull reads len(want) bytes and compares them with want.
func readFull(ctx context.Context, link transport.Link, want []byte) error {
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
		if err := link.Write(ctx, p); err != nil {
			t.Fatalf("write of %d bytes: %v", n, err)
		}
		if err := readFull(ctx, link, p); err != nil {
			t.Fatal(err)
		}
	}
}

// testLongEcho sends more than all buffers hold, so that reading and writing must run concurrently.
func testLongEcho(t *testing.T, link transport.Link) {
	ctx := soon(t)
	p := randomBytes(1 << 20)
	wrote := make(chan error)
	go func() { wrote <- link.Write(ctx, p) }()
	if err := readFull(ctx, link, p); err != nil {
		t.Error(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

func testDeadline(t *testing.T, link transport.Link) {
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		_, err := link.Read(ctx, make([]byte, 1))
		if !errors.Is(err, context.DeadlineExceeded) || failure.Of(err) != failure.Timeout {
			t.Fatalf("read without data: got %v, want a timeout", err)
		}
	}
	testEcho(t, link)
}

func testCancel(t *testing.T, link transport.Link) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	if _, err := link.Read(ctx, make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled read: got %v", err)
	}
	testEcho(t, link)
}

func testExpiredContext(t *testing.T, link transport.Link) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := link.Read(ctx, make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: got %v", err)
	}
	if err := link.Write(ctx, []byte{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("write: got %v", err)
	}
	testEcho(t, link)
}

func testEmpty(t *testing.T, link transport.Link) {
	if err := link.Write(soon(t), nil); err != nil {
		t.Errorf("empty write: %v", err)
	}
	if n, err := link.Read(soon(t), nil); n != 0 || err != nil {
		t.Errorf("empty read: %d, %v", n, err)
	}
	testEcho(t, link)
}

func testClose(t *testing.T, link transport.Link) {
	testEcho(t, link)
	for range 2 {
		if err := link.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := link.Read(soon(t), make([]byte, 1)); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("read after close: got %v", err)
	}
	if err := link.Write(soon(t), []byte{1}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("write after close: got %v", err)
	}
}

func testCloseInterrupts(t *testing.T, link transport.Link) {
	time.AfterFunc(30*time.Millisecond, func() { link.Close() })
	if _, err := link.Read(soon(t), make([]byte, 1)); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("read interrupted by close: got %v", err)
	}
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
