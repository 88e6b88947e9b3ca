package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	return string(testkit.ReadFile(t, filepath.Join("..", "..", "..", "docs", name)))
}

// TestExitCodes compares the table with package failure's list and with docs/command-line.md.
func TestExitCodes(t *testing.T) {
	rows := map[int]string{}
	for line := range strings.Lines(readDoc(t, "command-line.md")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			if code, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
				rows[code] = cells[3]
			}
		}
	}
	classes := failureClasses(t)
	if len(classes) != len(exitCode) {
		t.Errorf("package failure has %d classes, the table %d", len(classes), len(exitCode))
	}
	for _, c := range classes {
		code, ok := exitCode[c]
		if !ok || code == 0 {
			t.Errorf("class %s has no exit code", c)
		}
		if !strings.Contains(rows[code], "`"+string(c)+"`") {
			t.Errorf("docs/command-line.md does not list %s for %d", c, code)
		}
	}
}

// failureClasses reads the constants of package failure from its source.
func failureClasses(t *testing.T) []failure.Class {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../../failure/failure.go", nil, 0)
	testkit.Must(t, err)
	var all []failure.Class
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Class" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			testkit.Must(t, err)
			all = append(all, failure.Class(text))
		}
		return true
	})
	return all
}
