package targets

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/cli/console"
)

// ofInputs names the variables that fields of inputs.Inputs hold. Resolve fills them for all targets alike; a target
// reads those whose fields it uses.
var ofInputs = map[string]string{
	"Device": "DEVICE", "Timeout": "TIMEOUT", "Wait": "WAIT", "Input": "INPUT", "Names": "INPUT",
	"Samples": "FIXED_INPUT", "Output": "OUTPUT", "Product": "PRODUCT", "Version": "VERSION", "Repeat": "REPEAT",
}

// A reader is a function, or a variable of a package with its value.
type reader struct {
	refs      map[string]bool // other readers, by full name
	variables map[string]bool // of the environment
}

// TestVariablesAreRead: each variable of a target's help is read by the target, or by what it refers to. (No target
// reads another one: to it that is not set, as TestLimited of package console shows.)
func TestVariablesAreRead(t *testing.T) {
	readers, roots := map[string]*reader{}, map[string]string{}
	for _, dir := range []string{".", "cli/inputs", "cli/tuning", "cli/toolbox", "cli/console", "develop"} {
		if dir != "." {
			dir = "../internal/" + dir
		}
		addReaders(t, dir, readers, roots)
	}
	if len(roots) < 45 {
		t.Errorf("%d targets only", len(roots))
	}
	read := map[string]map[string]bool{}
	for target, root := range roots {
		read[target] = map[string]bool{}
		addRead(read[target], readers, map[string]bool{}, root)
	}
	pairs := 0
	for _, variable := range console.Variables() {
		for _, target := range console.Readers(variable) {
			if pairs++; roots[target] == "" && target != "*" {
				t.Errorf("%s is of %s, which is no target", variable, target)
			} else if target != "*" && !read[target][variable] {
				t.Errorf("%s is a variable of %s, which does not read it", variable, target)
			}
		}
	}
	if pairs < 300 {
		t.Errorf("%d variables of targets only", pairs)
	}
}

// addRead adds the variables that a reader and what it refers to read.
func addRead(read map[string]bool, readers map[string]*reader, seen map[string]bool, name string) {
	r := readers[name]
	if r == nil || seen[name] {
		return
	}
	seen[name] = true
	maps.Copy(read, r.variables)
	for ref := range r.refs {
		addRead(read, readers, seen, ref)
	}
}

// addReaders adds the functions and variables of a package, and to roots those that are targets, by mage's name.
func addReaders(t *testing.T, dir string, readers map[string]*reader, roots map[string]string) {
	t.Helper()
	p := typedPackage(t, dir)
	isOfTargets := dir == "." || strings.HasSuffix(dir, "develop")
	for _, f := range p.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := p.info.Defs[d.Name].(*types.Func).FullName()
				readers[name] = p.reader(d)
				if isOfTargets && isTarget(d) {
					roots[targetName(d)] = name
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					for _, id := range spec.(*ast.ValueSpec).Names {
						readers[p.pkg.Path()+"."+id.Name] = p.reader(spec)
					}
				}
			}
		}
	}
}

// reader returns what a declaration refers to and reads. If it reads a variable whose name is not constant, as one of a
// list, it may read all that it names.
func (p checked) reader(declaration ast.Node) *reader {
	r := &reader{map[string]bool{}, map[string]bool{}}
	var named []string
	readsNamed := false
	ast.Inspect(declaration, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			switch o := p.info.Uses[n].(type) {
			case *types.Func:
				r.refs[o.FullName()] = true
			case *types.Var:
				if o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
					r.refs[o.Pkg().Path()+"."+o.Name()] = true
				}
			}
		case *ast.BasicLit:
			if v := p.info.Types[n].Value; v != nil && v.Kind() == constant.String {
				named = append(named, constant.StringVal(v))
			}
		case *ast.CallExpr:
			if !p.isEnviron(n.Fun) {
				break
			}
			if v := p.info.Types[n.Args[0]].Value; v == nil {
				readsNamed = true
			} else if !p.isFilled(constant.StringVal(v)) {
				r.variables[constant.StringVal(v)] = true
			}
		case *ast.SelectorExpr:
			if s := p.info.Selections[n]; s != nil && strings.HasSuffix(s.Recv().String(), "cli/inputs.Inputs") {
				r.variables[ofInputs[n.Sel.Name]] = true
			}
		}
		return true
	})
	if readsNamed {
		for _, name := range named {
			if !p.isFilled(name) {
				r.variables[name] = true
			}
		}
	}
	return r
}

// isFilled reports whether the package fills a field of inputs.Inputs with a variable.
func (p checked) isFilled(variable string) bool {
	filled := slices.Collect(maps.Values(ofInputs))
	return strings.HasSuffix(p.pkg.Path(), "cli/inputs") && slices.Contains(filled, variable)
}

// isEnviron reports whether a function that is called reads the environment.
func (p checked) isEnviron(fun ast.Expr) bool {
	if s, ok := fun.(*ast.SelectorExpr); ok && s.Sel.Name == "On" {
		fun = s.X
	}
	return strings.HasSuffix(p.info.TypeOf(fun).String(), "console.Environ")
}
