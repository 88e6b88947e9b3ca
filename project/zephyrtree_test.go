package project

import (
	"os"
	"os/exec"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// NeedZephyr skips without a Zephyr in $ZEPHYR_BASE, or without a tool that building with it, or the test, needs.
func NeedZephyr(t testing.TB, tools ...string) {
	t.Helper()
	if os.Getenv("ZEPHYR_BASE") == "" {
		t.Skip("ZEPHYR_BASE is not set: no Zephyr to build with (docs/zephyr.md)")
	}
	for _, tool := range append([]string{"west", "cmake", "ninja"}, tools...) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s to build with Zephyr or to run the image", tool)
		}
	}
}

// NeedFullZephyr also skips in a run that is not a full one.
func NeedFullZephyr(t *testing.T, tools ...string) {
	t.Helper()
	if !drawn.InFull() {
		t.Skip("takes more than some seconds: only in a full run")
	}
	NeedZephyr(t, tools...)
}
