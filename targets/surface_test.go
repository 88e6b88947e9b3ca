package targets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// surfaceOf returns the exported names of a package of this module, in its files for all systems, and the number of its
// examples.
func surfaceOf(t *testing.T, pkg string) (names map[string]bool, examples int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pkg), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("package %s: %v, %v", pkg, files, err)
	}

	names = map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		testkit.Must(t, err)
		isTest := strings.HasSuffix(file, "_test.go")
		for _, d := range f.Decls {
			for _, name := range declared(d) {
				if isTest && strings.HasPrefix(name.Name, "Example") {
					examples++
				} else if !isTest && name.IsExported() {
					names[name.Name] = true
				}
			}
		}
	}
	return names, examples
}

// declared returns the names of a declaration, except those of methods.
func declared(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				names = append(names, spec.Names...)
			case *ast.TypeSpec:
				names = append(names, spec.Name)
			}
		}
	}
	return names
}

// TestExportedNames: what programs may use does not grow by accident, and each package that a program can import shows
// its use by an example.
func TestExportedNames(t *testing.T) {
	for pkg := range mayImport {
		first, _, _ := strings.Cut(pkg, "/")
		if slices.Contains([]string{magefile, "cmd", "targets", "internal", "examples"}, first) {
			continue
		}
		names, examples := surfaceOf(t, pkg)
		if len(names) > exportedNames[pkg] {
			t.Errorf("package %s exports %d names, more than %d: make one internal, or raise the limit: %q", pkg,
				len(names), exportedNames[pkg], slices.Sorted(maps.Keys(names)))
		}
		if examples == 0 {
			t.Errorf("package %s has no example", pkg)
		}
	}
}
