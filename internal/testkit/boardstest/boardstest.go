// Package boardstest makes board files for tests.
package boardstest

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// Shelf writes board files into a folder for the search path.
func Shelf(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, "boards", name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// With writes a board file that adds a C file and functions to a shipped board, or to one of a family, FAMILY/NAME. It
// returns the new board's name and the folder for the search path.
func With(t testing.TB, name, file, source string, functions map[string]string) (string, string) {
	t.Helper()
	board, own := map[string]any{}, name
	if family, _, ok := strings.Cut(name, "/"); ok {
		board["doc"], board["inherits"] = "with functions of its own", "family/"+family
	} else {
		text, err := os.ReadFile(filepath.Join(testkit.Root(t), "boards", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		own += "_own"
	}
	sources, _ := board["sources"].([]any)
	board["sources"] = append(sources, file)
	list, _ := board["functions"].([]any)
	for _, f := range slices.Sorted(maps.Keys(functions)) {
		list = append(list, map[string]any{"name": f, "symbol": functions[f]})
	}
	board["functions"] = list
	text, err := json.Marshal(board)
	if err != nil {
		t.Fatal(err)
	}
	return own, Shelf(t, map[string]string{own + ".json": string(text), path.Join(path.Dir(own), file): source})
}
