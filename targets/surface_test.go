package targets

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A surface is what a package exports.
type surface struct {
	names    map[string]bool
	members  map[string][]string // the exported methods and fields of a type
	embedded map[string][]string // the types whose members a type has as well: T or pkg.T
	examples int
}

// surfaceOf parses a package of this module, with its files for all systems.
func surfaceOf(t *testing.T, pkg string) surface {
	t.Helper()
	s := surface{names: map[string]bool{}, members: map[string][]string{}, embedded: map[string][]string{}}
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pkg), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("package %s: %v, %v", pkg, files, err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(file, "_test.go") {
				if strings.HasPrefix(fn.Name.Name, "Example") {
					s.examples++
				}
			} else if !strings.HasSuffix(file, "_test.go") {
				s.add(d)
			}
		}
	}
	return s
}

func (s *surface) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		switch {
		case !d.Name.IsExported():
		case d.Recv == nil:
			s.names[d.Name.Name] = true
		default:
			of := typeName(d.Recv.List[0].Type)
			s.members[of] = append(s.members[of], d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					s.addName(name)
				}
			case *ast.TypeSpec:
				s.addName(spec.Name)
				s.addType(spec)
			}
		}
	}
}

func (s *surface) addName(name *ast.Ident) {
	if name.IsExported() {
		s.names[name.Name] = true
	}
}

func (s *surface) addType(spec *ast.TypeSpec) {
	of := spec.Name.Name
	var fields *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		if spec.Assign.IsValid() {
			s.embedded[of] = append(s.embedded[of], typeName(typ))
		}
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			s.members[of] = append(s.members[of], name.Name)
		}
		if len(f.Names) == 0 {
			s.embedded[of] = append(s.embedded[of], typeName(f.Type))
		}
	}
}

// typeName returns the name of a type, T or pkg.T, also of a pointer to it.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// has reports whether a type of the package has an exported method or field, also by what it embeds.
func (s surface) has(t *testing.T, typ, member string) bool {
	if slices.Contains(s.members[typ], member) {
		return true
	}
	for _, e := range s.embedded[typ] {
		other, name := s, e
		if pkg, rest, ok := strings.Cut(e, "."); ok {
			other, name = imported(t, pkg), rest
		}
		if other.has(t, name, member) {
			return true
		}
	}
	return false
}

// imported returns the surface of a package by its name, one of libraries or of a folder internal.
func imported(t *testing.T, name string) surface {
	t.Helper()
	for _, pattern := range []string{"../", "../internal/", "../*/internal/"} {
		folders, err := filepath.Glob(pattern + name)
		if err != nil {
			t.Fatal(err)
		}
		if len(folders) > 0 {
			return surfaceOf(t, strings.TrimPrefix(filepath.ToSlash(folders[0]), "../"))
		}
	}
	return surface{}
}

// libraries returns the packages that a program can import, sorted.
func libraries() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(mayImport)), func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		return slices.Contains([]string{magefile, "cmd", "targets", "internal", "examples"}, first)
	})
}

// TestExportedNames: what programs may use does not grow by accident, and each package shows its use by an example.
func TestExportedNames(t *testing.T) {
	sum := 0
	for _, pkg := range libraries() {
		s := surfaceOf(t, pkg)
		if n := len(s.names); n > exportedNames[pkg] {
			t.Errorf("package %s exports %d names, more than %d: make one internal, or raise the limit: %q", pkg, n,
				exportedNames[pkg], slices.Sorted(maps.Keys(s.names)))
		}
		if s.examples == 0 {
			t.Errorf("package %s has no example", pkg)
		}
		sum += len(s.names)
	}
	t.Logf("%d names", sum)
}

var (
	qualified = regexp.MustCompile(`\b([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	member    = regexp.MustCompile(`(?:^|[^.\w])([A-Z]\w*)\.([A-Z]\w*)`)
)

// TestGoPageNames: each name of this module on the page of the Go packages is in the code.
func TestGoPageNames(t *testing.T) {
	page := pages(t)["go-api.md"]
	surfaces := map[string]surface{}
	for _, pkg := range libraries() {
		surfaces[path.Base(pkg)] = surfaceOf(t, pkg)
	}
	checked := 0
	for _, m := range qualified.FindAllStringSubmatch(page, -1) {
		s, ours := surfaces[m[1]]
		if !ours {
			continue
		}
		checked++
		if !s.names[m[2]] || m[3] != "" && !s.has(t, m[2], m[3]) {
			t.Errorf("docs/go-api.md names %s, which package %s does not export", m[0], m[1])
		}
	}
	for _, m := range member.FindAllStringSubmatch(page, -1) {
		if _, standard := standardTypes[m[1]]; standard {
			continue
		}
		checked++
		if !slices.ContainsFunc(slices.Collect(maps.Values(surfaces)), func(s surface) bool {
			return s.names[m[1]] && s.has(t, m[1], m[2])
		}) {
			t.Errorf("docs/go-api.md names %s.%s, which no package exports", m[1], m[2])
		}
	}
	if checked < 50 {
		t.Errorf("only %d names were checked", checked)
	}
}

// standardTypes are words before a dot and a capital on the page that are no types of this module.
var standardTypes = map[string]bool{}
