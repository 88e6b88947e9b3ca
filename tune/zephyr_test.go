//go:build linux

package tune_test

import (
	"os"
	"os/exec"
	"slices"
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
	_, err := tune.OpenRun(t.Context(), t.TempDir(), desk(t), []string{"zephyr/qemu_cortex_m3"}, tune.Options{})
	wantError(t, err, failure.DoesNotFit, "region ram")
	r, _ := opened(t, tune.Options{Memory: map[string]boards.Options{"": {UploadKiB: 16}}}, "zephyr/mps2_an385")
	cs := append(goods(4), large("large", 20000))
	n := 0
	for result, err := range r.All(t.Context(), slices.Values(cs)) {
		must(t, err)
		n++
		is := string(result.Tier) + ": " + result.Reason
		switch inRAM := result.Tier == tune.RAM; {
		case result.Failure != nil || result.Time == nil:
			t.Errorf("%s: %s, %+v", result.ID, is, result.Failure)
		case result.ID == "large" && (inRAM || !strings.Contains(result.Reason, "too many for the window")),
			result.ID != "large" && !(inRAM && strings.Contains(result.Reason, "it fits")):
			t.Errorf("%s: %s", result.ID, is)
		default:
			t.Logf("%s: %s, %v", result.ID, is, result.Time)
		}
	}
	if n < len(cs) {
		t.Errorf("%d results", n)
	}
}
