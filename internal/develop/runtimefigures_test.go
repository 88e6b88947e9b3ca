package develop

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRuntimeFigures checks that the check prints its table, or the reason why it cannot measure.
func TestRuntimeFigures(t *testing.T) {
	r, printed := quietRepository()
	r.Dir = filepath.Join("..", "..")
	var all tally
	if err := r.testRuntimeFigures(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if all.skipped == 1 {
		t.Skip(all.skips[0])
	}
	for _, want := range []string{"image, bytes", "empty call, by 1", "budget"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, printed.String())
		}
	}
	if all.passed != 1 || all.failed != 0 || !strings.Contains(strings.Join(all.sections, "\n"), "CopyToRemote") {
		t.Errorf("%+v", all)
	}
}

// TestFiguresOfAnotherCompiler measures with another version of the compiler than the ceilings are for: only the budget
// applies.
func TestFiguresOfAnotherCompiler(t *testing.T) {
	for _, tool := range runtimeTools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	dir := t.TempDir()
	for _, program := range []string{"gcc", "size", "nm"} {
		text := "#!/bin/sh\n[ \"$1\" != -dumpversion ] || exec echo 99.1\nexec arm-none-eabi-" + program + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", filepath.Join("..", "..", "crt", "measure", "measure.sh"), filepath.Join(dir, "build"))
	cmd.Env = append(os.Environ(), "MEASURE_CC="+filepath.Join(dir, "gcc"))
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^image, bytes +[0-9]+ +9500 +9500 `).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
