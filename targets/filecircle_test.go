package targets

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilesHaveAnOrder: in these packages, no two files need each other, also not by way of others, so that each can be
// read before those that use it.
func TestFilesHaveAnOrder(t *testing.T) {
	for _, pkg := range []string{"project", "device", "tune"} {
		uses := fileUses(t, "../"+pkg)
		if len(uses) < 20 {
			t.Errorf("package %s: only %d files use others", pkg, len(uses))
		}
		if prune(uses); len(uses) > 0 {
			t.Errorf("package %s: these files need each other, by these declarations: %v", pkg, uses)
		}
	}
}

// prune removes, again and again, the files that use no others of the map, and those that no others use.
func prune(uses map[string]map[string]string) {
	for before := -1; before != len(uses); {
		before = len(uses)
		for file, others := range uses {
			maps.DeleteFunc(others, func(other, _ string) bool { return uses[other] == nil })
			isUsed := slices.ContainsFunc(slices.Collect(maps.Values(uses)), func(u map[string]string) bool {
				return u[file] != ""
			})
			if len(others) == 0 || !isUsed {
				delete(uses, file)
			}
		}
	}
}

// A checked is a package of this module, with the types of its names.
type checked struct {
	set   *token.FileSet
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
}

// typedPackage returns the package in a folder, without its tests.
func typedPackage(t *testing.T, dir string) checked {
	t.Helper()
	list := func(args ...string) []string {
		out, err := exec.Command("go", append([]string{"list"}, append(args, dir)...)...).Output()
		if err != nil {
			t.Fatalf("go list of %s: %v", dir, err)
		}
		return strings.Fields(string(out))
	}
	p := checked{set: token.NewFileSet()}
	for _, name := range list("-f", `{{join .GoFiles " "}}`) {
		f, err := parser.ParseFile(p.set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files = append(p.files, f)
	}
	exported := list("-deps", "-export", "-f", "{{.ImportPath}}={{.Export}}")
	open := func(path string) (io.ReadCloser, error) {
		i := slices.IndexFunc(exported, func(e string) bool { return strings.HasPrefix(e, path+"=") })
		return os.Open(strings.TrimPrefix(exported[i], path+"="))
	}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
	}
	var err error
	config := &types.Config{Importer: importer.ForCompiler(p.set, "gc", open)}
	p.pkg, err = config.Check(list("-f", "{{.ImportPath}}")[0], p.set, p.files, p.info)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fileUses returns, for each file of a package, the other files whose declarations it uses, with one of them.
func fileUses(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	p := typedPackage(t, dir)
	uses := map[string]map[string]string{}
	for id, o := range p.info.Uses {
		from, to := filepath.Base(p.set.Position(id.Pos()).Filename), filepath.Base(p.set.Position(o.Pos()).Filename)
		if o.Pkg() != p.pkg || from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]string{}
		}
		uses[from][to] = o.Name()
	}
	return uses
}
