package boards

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestFileNames: a board file whose name is no board's name is an error that names the file and the rule, by path and
// by name, and other JSON files of its folder are no choices.
func TestFileNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "boards"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"boards/mi ne.json", "boards/package.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"inherits": "cpu/native"}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, folders := range map[string][]string{"mi ne": {dir}, filepath.Join(dir, "boards", "mi ne.json"): nil} {
		_, err := Find(name, folders)
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "mi ne.json: a board's name") ||
			strings.Contains(failure.Next(err), "package") || !strings.HasPrefix(failure.Next(err), "rename the file") {
			t.Errorf("%s: %v (%s)", name, err, failure.Next(err))
		}
	}
	if slices.Contains(List([]string{dir}), "mi ne") {
		t.Error("a name that cannot be used is listed")
	}
}
