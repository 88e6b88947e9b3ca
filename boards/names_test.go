package boards

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
)

// TestFileNames: a board file whose name is no board's name is an error that names the file and the rule, by path and
// by name, and other JSON files of its folder are no choices.
func TestFileNames(t *testing.T) {
	const text = `{"inherits": "cpu/native"}`
	dir := boardstest.Shelf(t, map[string]string{"mi ne.json": text, "package.json": text})
	for name, folders := range map[string][]string{"mi ne": {dir}, filepath.Join(dir, "boards", "mi ne.json"): nil} {
		_, err := Find(name, folders)
		wantError(t, err, failure.Config, "mi ne.json: a board's name", "rename the file")
		if strings.Contains(failure.Next(err), "package") {
			t.Errorf("%s: %s", name, failure.Next(err))
		}
	}
	if slices.Contains(List([]string{dir}), "mi ne") {
		t.Error("a name that cannot be used is listed")
	}
}
