//go:build linux

package tune_test

import (
	"os"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/tune"
)

// TestZephyrMeasuresInRAMAndFirmware measures candidates on Zephyr, one of which is too large for the window. A board
// without room for a window is an error.
func TestZephyrMeasuresInRAMAndFirmware(t *testing.T) {
	if !drawn.InFull() || os.Getenv("ZEPHYR_BASE") == "" {
		t.Skip("only in a full run, with a Zephyr in ZEPHYR_BASE (docs/zephyr.md)")
	}
	testkit.Need(t, "west", "cmake", "ninja", "qemu-system-arm")
	wantError(t, refused(t, t.TempDir(), tune.Options{}, "zephyr/qemu_cortex_m3"), failure.DoesNotFit, "region ram")
	r, _ := opened(t, tune.Options{Memory: map[string]boards.Options{"": {UploadKiB: 16}}}, "zephyr/mps2_an385")
	cs := append(goods(4), large("large", 20000))
	results := measureAll(t, r, cs)
	testkit.Equal(t, "results", len(results), len(cs))
	for _, result := range results {
		wantTime(t, result, result.ID != "large")
	}
}
