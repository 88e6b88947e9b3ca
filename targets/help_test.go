package targets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHelp: all inputs that the targets' help names are in docs/command-line.md, and every page is there.
func TestHelp(t *testing.T) {
	inputs, err := os.ReadFile("../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var decls []ast.Decl
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(source, "_test.go") {
			decls = append(decls, file.Decls...)
		}
	}
	word, page := regexp.MustCompile(`\b[A-Z][A-Z_]{2,}\b`), regexp.MustCompile(`docs/[\w-]+\.md`)
	not := " HTML JSON TVM FOLDER "
	named := 0
	for _, d := range decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !f.Name.IsExported() {
			continue
		}
		for _, name := range word.FindAllString(f.Doc.Text(), -1) {
			if strings.Contains(not, " "+name+" ") {
				continue
			}
			named++
			if !strings.Contains(string(inputs), "| `"+name+"`") && !strings.Contains(string(inputs), "| `"+name+"=1`") {
				t.Errorf("the help of %s names %s, which docs/command-line.md does not list", f.Name, name)
			}
		}
		for _, name := range page.FindAllString(f.Doc.Text(), -1) {
			if _, err := os.Stat("../" + name); err != nil {
				t.Errorf("the help of %s: %v", f.Name, err)
			}
		}
	}
	if named < 30 {
		t.Errorf("the help names only %d inputs", named)
	}
}
