//go:build !windows

package virtualprobe

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHungEmulator: an emulator that takes no bytes ends each request with ErrGone.
func TestHungEmulator(t *testing.T) {
	ours, theirs := net.Pipe() // holds no byte
	defer ours.Close()
	defer theirs.Close()
	conn := limitedConn{ours, time.Millisecond}
	g := &gdbStub{conn: conn, running: true}
	for name, err := range map[string]error{
		"send": g.send("c"), "halt": g.halt(), "memory": newQtest(conn).ReadBlock(0, []uint32{1}),
	} {
		if !errors.Is(err, ErrGone) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHungKeeper: a keeper that does not answer is an error, which the caller's context does not need to end.
func TestHungKeeper(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, controlName))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = askFor(t.Context(), dir, Request{Do: "erase"}, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not answer erase in 1ms") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ask(ctx, dir, Request{Do: "erase"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
