package targets

import (
	"context"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project"
)

// TestInputsAreReadAtEachCall calls targets of one process with changing variables, as a magefile does that builds for
// several boards.
func TestInputsAreReadAtEachCall(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BOARDSMITH_HOME", homeWithCache(t))
	t.Cleanup(func() {
		testkit.Must(t, current.close())
	})
	call := func(target func(context.Context) error, variable, value string) error {
		t.Setenv(variable, value)
		return target(t.Context())
	}
	must := func(target func(context.Context) error, variable, value string) {
		t.Helper()
		if err := call(target, variable, value); err != nil {
			t.Fatalf("%s=%s: %v", variable, value, err)
		}
	}
	for _, board := range []string{"host", "mps2_an385"} {
		must(Generate, "BOARD", board)
		if !project.Exists("build/" + board + "/digits_i8.aot_packed") {
			t.Errorf("there is no project for %s", board)
		}
	}
	testkit.WantError(t, call(Generate, "BOARD", "nosuch"), failure.Config)
	t.Setenv("BOARD", "host")
	must(Build, "PROJECT", "p")
	first := current.image.Digest
	must(Size, "OPTIONS", "arena_kib=512")
	if current.image.Digest == first || current.project.Options().ArenaKiB != 512 {
		t.Errorf("OPTIONS=%v: the same image", current.project.Options())
	}
	must(Clean, "FORCE", "1")
	if project.Exists("p") || current.project != nil {
		t.Error("the project was not removed")
	}
	testkit.WantError(t, call(Run, "REPEAT", "none"), failure.Config)
}
