package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestExitCodes compares the table with package failure's list and with docs/command-line.md.
func TestExitCodes(t *testing.T) {
	rows := map[int]string{}
	for line := range strings.Lines(string(testkit.ReadFile(t, "../../../docs/command-line.md"))) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			if code, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
				rows[code] = cells[3]
			}
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "../../../failure/failure.go", nil, 0)
	testkit.Must(t, err)
	var classes []failure.Class
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Class" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			testkit.Must(t, err)
			classes = append(classes, failure.Class(text))
		}
		return true
	})
	testkit.Equal(t, "classes", len(classes), len(exitCode))
	for _, c := range classes {
		code, ok := exitCode[c]
		if !ok || code == 0 {
			t.Errorf("class %s has no exit code", c)
		}
		testkit.WantText(t, rows[code], "`"+string(c)+"`")
	}
}
