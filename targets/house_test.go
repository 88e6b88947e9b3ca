package targets

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

const maxLines = 60 // of a function

// sources calls use for each file of Go that is no test.
func sources(t *testing.T, use func(name string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	set, files := token.NewFileSet(), 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		use(strings.TrimPrefix(filepath.ToSlash(path), "../"), set, f)
		return nil
	})
	if err != nil || files < 300 {
		t.Fatalf("%d files: %v", files, err)
	}
}

// TestFunctionsAreShort: a function fits on a screen, blank lines between its steps aside.
func TestFunctionsAreShort(t *testing.T) {
	sources(t, func(name string, set *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			var text strings.Builder
			testkit.Must(t, printer.Fprint(&text, set, d))
			lines := strings.Count(text.String(), "\n") + 1 - strings.Count(text.String(), "\n\n")
			if lines > maxLines {
				t.Errorf("%s: %s has %d lines, more than %d", name, function.Name, lines, maxLines)
			}
		}
	})
}

// temporaryFolders are places that need no package scratch, which removes what killed processes have left.
var temporaryFolders = []string{
	"internal/files/scratch/", "examples/", "tools/", "targets/develop/", "internal/testkit/",
	"internal/chipkeeper/keepertest/", // of tests
	"internal/gitfolder/",             // in a folder that a later process removes
	"device/internal/ledger/",         // it becomes the folder of the leases
}

// TestTemporaryFolders: temporary folders are those of package scratch.
func TestTemporaryFolders(t *testing.T) {
	sources(t, func(name string, set *token.FileSet, f *ast.File) {
		for _, place := range temporaryFolders {
			if strings.HasPrefix(name, place) {
				return
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "MkdirTemp" {
				t.Errorf("%s: use scratch.Make instead of os.MkdirTemp", set.Position(n.Pos()))
			}
			return true
		})
	})
}
