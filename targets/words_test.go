package targets

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// commandLine are the packages whose texts may name variables: those of the targets.
var commandLine = []string{"targets/", "internal/testkit/", "examples/", "tools/", "magefile.go"}

// typedCommands are the packages whose texts may have commands.
var typedCommands = []string{
	"targets/internal/console/", "targets/develop/", "internal/testkit/", "examples/", "tools/", "magefile.go",
}

// TestLibrariesNameNoCommandLine: a library names a target or an input as data, by nextstep.Target and nextstep.Option,
// which package console replaces by what the user types: that differs, by the user's command, and by a name under which
// a magefile imports the targets. The code of targets may name variables.
func TestLibrariesNameNoCommandLine(t *testing.T) {
	inputs := slices.DeleteFunc(console.Variables(), func(name string) bool { // words of libraries, too
		return slices.Contains([]string{"BOARDSMITH_PATH", "ID", "JSON", "NAME", "SVD"}, name)
	})
	variables := `\b(` + strings.Join(inputs, "|") + `)`
	command, input := regexp.MustCompile(`\bmage [a-z]`), regexp.MustCompile(variables+`=`)
	variable := regexp.MustCompile(variables + `\b`)
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		check := func(n ast.Node, bad *regexp.Regexp) {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && bad.MatchString(text.Value) {
				t.Errorf("%v names the command line: %s", set.Position(text.Pos()), text.Value)
			}
		}
		isIn := func(folder string) bool { return strings.HasPrefix(name, folder) }
		isLibrary := !slices.ContainsFunc(commandLine, isIn)
		ast.Inspect(file, func(n ast.Node) bool {
			if !slices.ContainsFunc(typedCommands, isIn) {
				check(n, command)
			}
			if !isLibrary {
				return true
			}
			check(n, input)
			if call, ok := n.(*ast.CallExpr); ok && isFailure(call.Fun) {
				for _, text := range call.Args {
					check(text, variable)
				}
			}
			return true
		})
	})
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
