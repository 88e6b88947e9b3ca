//go:build linux

package tune_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/tune"
)

// TestZephyrMeasuresInRAMAndFirmware measures candidates on Zephyr, one of which is too large for the window. A board
// without room for a window is an error.
func TestZephyrMeasuresInRAMAndFirmware(t *testing.T) {
	if !drawn.InFull() || os.Getenv("ZEPHYR_BASE") == "" {
		t.Skip("only in a full run, with a Zephyr in ZEPHYR_BASE (docs/zephyr.md)")
	}
	for _, tool := range []string{"west", "cmake", "ninja", "qemu-system-arm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	wantError(t, refused(t, t.TempDir(), tune.Options{}, "zephyr/qemu_cortex_m3"), failure.DoesNotFit, "region ram")
	r, _ := opened(t, tune.Options{Memory: map[string]boards.Options{"": {UploadKiB: 16}}}, "zephyr/mps2_an385")
	cs := append(goods(4), large("large", 20000))
	n := 0
	for _, result := range measureAll(t, r, cs) {
		n++
		wantFailure(t, result, "")
		fits, reason := result.ID != "large", "too many for the window"
		if fits {
			reason = "it fits"
		}
		if (result.Tier == tune.RAM) != fits || !strings.Contains(result.Reason, reason) {
			t.Errorf("%s: %s, %s", result.ID, result.Tier, result.Reason)
		}
	}
	if n < len(cs) {
		t.Errorf("%d results", n)
	}
}
