package develop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// TestFiguresOfAnotherCompiler measures with another version of the compiler than the ceilings are for: the budget and
// a quarter of it apply.
func TestFiguresOfAnotherCompiler(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("test:full measures with another compiler")
	}
	testkit.Need(t, runtimeFigures.needs...)
	dir := t.TempDir()
	for _, program := range []string{"gcc", "size", "nm"} {
		text := "#!/bin/sh\n[ \"$1\" != -dumpversion ] || exec echo 99.1\nexec arm-none-eabi-" + program + " \"$@\"\n"
		testkit.WriteProgram(t, filepath.Join(dir, program), text)
	}
	cmd := exec.Command("sh", "../../crt/measure/measure.sh", filepath.Join(dir, "build"))
	cmd.Env = append(os.Environ(), "MEASURE_CC="+filepath.Join(dir, "gcc"))
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^image, bytes +[0-9]+ +10625 +8500 `).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
