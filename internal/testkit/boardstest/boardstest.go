// Package boardstest makes board files for tests.
package boardstest

import (
	"encoding/json"
	"maps"
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
	testkit.WriteFiles(t, filepath.Join(dir, "boards"), files)
	return dir
}

// Text returns a shipped board's file with more fields before its own.
func Text(t testing.TB, name, fields string) string {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join(testkit.Root(t), "boards", name+".json"))
	return strings.Replace(string(text), "{", "{"+fields, 1)
}

// With writes a board file that adds a C file and functions to a shipped board, or to one of a family, FAMILY/NAME. It
// returns the new board's name and the folder for the search path.
func With(t testing.TB, name, file, source string, functions map[string]string) (string, string) {
	t.Helper()
	board, own := map[string]any{}, name
	if family, _, ok := strings.Cut(name, "/"); ok {
		board["doc"], board["inherits"] = "with functions of its own", "family/"+family
	} else {
		testkit.Must(t, json.Unmarshal([]byte(Text(t, name, "")), &board))
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
	testkit.Must(t, err)
	return own, Shelf(t, map[string]string{own + ".json": string(text), path.Join(path.Dir(own), file): source})
}
