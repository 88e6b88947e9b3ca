//go:build !windows

package chipkeeper

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHungKeeper: a keeper that does not answer is an error, which the caller's context does not need to end.
func TestHungKeeper(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ControlSocket))
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
