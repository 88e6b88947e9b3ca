package targets

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// commandLine are the packages whose texts may name targets and variables: those of the targets.
var commandLine = []string{
	"targets", "internal/testkit", "examples", "tools", "magefile.go",
}

// TestLibrariesNameNoCommandLine: a library names a target or an input as data, by nextstep.Target and nextstep.Option,
// which package console replaces by what the user types.
func TestLibrariesNameNoCommandLine(t *testing.T) {
	inputs := slices.DeleteFunc(console.Variables(), func(name string) bool { // words of libraries, too
		return slices.Contains([]string{"BOARDSMITH_PATH", "ID", "JSON", "NAME", "SVD"}, name)
	})
	variables := `\b(` + strings.Join(inputs, "|") + `)`
	command, variable := regexp.MustCompile(`\bmage [a-z]|`+variables+`=`), regexp.MustCompile(variables+`\b`)
	files := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel("..", path)
		name = filepath.ToSlash(name)
		if err != nil || entry.IsDir() && (slices.Contains(commandLine, name) || entry.Name() == "testdata") {
			return cmp.Or(err, fs.SkipDir)
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			slices.Contains(commandLine, name) {
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		check := func(n ast.Node, bad *regexp.Regexp) {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && bad.MatchString(text.Value) {
				t.Errorf("%v names the command line: %s", set.Position(text.Pos()), text.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			check(n, command)
			if call, ok := n.(*ast.CallExpr); ok && isFailure(call.Fun) {
				for _, text := range call.Args {
					check(text, variable)
				}
			}
			return true
		})
		return nil
	})
	testkit.Must(t, err)
	if files < 300 {
		t.Errorf("only %d files of libraries: the test looks at the wrong place", files)
	}
}

// isFailure reports whether an expression is a function of package failure that makes an error.
func isFailure(e ast.Expr) bool {
	f, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := f.X.(*ast.Ident)
	return ok && pkg.Name == "failure" && (f.Sel.Name == "New" || f.Sel.Name == "Errorf")
}
