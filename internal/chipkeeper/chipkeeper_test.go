//go:build !windows

package chipkeeper

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestHungKeeper: a keeper that does not answer is an error, which the caller's context does not need to end.
func TestHungKeeper(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ControlSocket))
	testkit.Must(t, err)
	defer l.Close()
	_, err = askFor(t.Context(), dir, Request{Do: "erase"}, time.Millisecond)
	testkit.WantError(t, err, "", "did not answer erase in 1ms")
	testkit.WantIs(t, testkit.Last(Ask(testkit.Ended(t), dir, Request{Do: "erase"})), context.Canceled, "cancelled")
}
