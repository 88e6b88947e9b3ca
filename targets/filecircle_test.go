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

// fileUses returns, for each file of a package, the other files whose declarations it uses, with one of them.
func fileUses(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	list := func(args ...string) []string {
		out, err := exec.Command("go", append([]string{"list"}, append(args, dir)...)...).Output()
		if err != nil {
			t.Fatalf("go list of %s: %v", dir, err)
		}
		return strings.Fields(string(out))
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range list("-f", `{{join .GoFiles " "}}`) {
		f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	exported := list("-deps", "-export", "-f", "{{.ImportPath}}={{.Export}}")
	open := func(path string) (io.ReadCloser, error) {
		i := slices.IndexFunc(exported, func(e string) bool { return strings.HasPrefix(e, path+"=") })
		return os.Open(strings.TrimPrefix(exported[i], path+"="))
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: importer.ForCompiler(set, "gc", open)}).Check(dir, set, files, info)
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]map[string]string{}
	for id, o := range info.Uses {
		from, to := filepath.Base(set.Position(id.Pos()).Filename), filepath.Base(set.Position(o.Pos()).Filename)
		if o.Pkg() != pkg || from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]string{}
		}
		uses[from][to] = o.Name()
	}
	return uses
}
