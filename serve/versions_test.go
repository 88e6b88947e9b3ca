//go:build linux

package serve_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// TestPinnedVersions installs the versions of TVM in docs/tvm.md by its commands, and uses a simulated board with each.
func TestPinnedVersions(t *testing.T) {
	page, err := os.ReadFile("../docs/tvm.md")
	must(t, err)
	row := regexp.MustCompile("(?m)^\\| (0\\.\\S+) \\| \\S+ \\| `pip (install [^`]+)` \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 3 {
		t.Fatalf("docs/tvm.md has %d versions", len(rows))
	}
	if !drawn.InFull() {
		t.Skip("test:full runs it: it installs them from PyPI")
	}
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			folder := t.TempDir()
			if out, err := exec.Command("python3", "-m", "venv", folder).CombinedOutput(); err != nil {
				t.Skipf("Python's venv: %v\n%s", err, out)
			}
			pip := exec.Command(filepath.Join(folder, "bin", "pip"), strings.Fields(row[2])...)
			if out, err := pip.CombinedOutput(); err != nil && strings.Contains(string(out), "onnection") {
				t.Skipf("PyPI is not reached: %s", out)
			} else if err != nil {
				t.Fatalf("%v: %s", pip, out)
			}
			t.Setenv(todays, filepath.Join(folder, "bin", "python"))
			useSimulated(t, todays)
		})
	}
}
