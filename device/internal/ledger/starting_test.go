//go:build linux

package ledger

import (
	"os/exec"
	"sync"
	"testing"
)

// TestLeaseBesideStarts: a released lease is free for the next one, although processes are being started, which have
// its file open until their programs begin.
func TestLeaseBesideStarts(t *testing.T) {
	dir := t.TempDir()
	var starts sync.WaitGroup
	done := make(chan struct{})
	for range 8 {
		starts.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.CommandContext(t.Context(), "true").Run()
				}
			}
		})
	}

	for range 300 {
		mustTake(t, dir, "chip:1").Release()
	}

	close(done)
	starts.Wait()
}
