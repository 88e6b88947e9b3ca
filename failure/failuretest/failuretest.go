// Package failuretest tests a promise that every package of this module makes: whatever takes a context ends with it, by an
// error that says so, and blames neither board nor tool.
package failuretest

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A Call is one use of a function. It gets a context that has ended, or soon does.
type Call func(ctx context.Context) error

// Calls are by "Function" or "Type.Method".
type Calls map[string]Call

const (
	soon     = 30 * time.Millisecond
	patience = 10 * time.Second
)

// ends are the ways in which a context ends after some time.
var ends = map[string]func(time.Duration) (context.Context, context.CancelFunc){
	"cancelled": func(d time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		return ctx, after(d, cancel)
	},
	"cancelled with a cause": func(d time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(context.Background())
		return ctx, after(d, func() { cancel(errors.New("the user has gone home")) })
	},
	"expired": func(d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), d)
	},
	"expired with a cause": func(d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(context.Background(), d, errors.New("the night is over"))
	},
}

func after(d time.Duration, cancel func()) context.CancelFunc {
	if d <= 0 {
		cancel()
		return func() {}
	}
	t := time.AfterFunc(d, cancel)
	return func() { t.Stop(); cancel() }
}

// Ended calls everything with contexts that have ended. calls must name each exported function, method and method of an interface
// that takes a context, of the package in the working folder.
func Ended(t *testing.T, calls Calls) {
	t.Helper()
	missing := takers(t)
	for name := range calls {
		if !missing[name] {
			t.Errorf("%s is no exported function of this package that takes a context", name)
		}
		delete(missing, name)
	}
	for name := range missing {
		t.Errorf("%s is not tested", name)
	}
	run(t, calls, 0)
}

// Waiting calls what waits, for ever if need be, with contexts that end meanwhile.
func Waiting(t *testing.T, calls Calls) {
	t.Helper()
	run(t, calls, soon)
}

func run(t *testing.T, calls Calls, d time.Duration) {
	for name, call := range calls {
		for how, begin := range ends {
			t.Run(name+" "+how, func(t *testing.T) {
				ctx, cancel := begin(d)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- call(ctx) }()
				select {
				case err := <-ended:
					check(t, ctx, err)
				case <-time.After(patience):
					t.Errorf("it did not end within %v", patience)
				}
			})
		}
	}
}

func check(t *testing.T, ctx context.Context, err error) {
	t.Helper()
	want := failure.Interrupted
	if ctx.Err() == context.DeadlineExceeded {
		want = failure.Timeout
	}
	switch {
	case ctx.Err() == nil:
		t.Errorf("it ended before its context: %v", err)
	case err == nil:
		t.Error("no error")
	case !errors.Is(err, ctx.Err()), !errors.Is(err, context.Cause(ctx)):
		t.Errorf("%q is not (%v, %v)", err, ctx.Err(), context.Cause(ctx))
	case failure.Of(err) != want:
		t.Errorf("%q is of class %s, want %s", err, failure.Of(err), want)
	}
}

// takers are the exported names of the package in the working folder that take a context.
func takers(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources here: %v", err)
	}
	all := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				addFunction(all, d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if typ, ok := s.(*ast.TypeSpec); ok {
						addInterface(all, typ)
					}
				}
			}
		}
	}
	return all
}

func addFunction(all map[string]bool, d *ast.FuncDecl) {
	name := d.Name.Name
	if !d.Name.IsExported() || !takesContext(d.Type) {
		return
	}
	if d.Recv != nil {
		typ := d.Recv.List[0].Type
		if p, ok := typ.(*ast.StarExpr); ok {
			typ = p.X
		}
		id, ok := typ.(*ast.Ident)
		if !ok || !id.IsExported() {
			return
		}
		name = id.Name + "." + name
	}
	all[name] = true
}

func addInterface(all map[string]bool, typ *ast.TypeSpec) {
	i, ok := typ.Type.(*ast.InterfaceType)
	if !ok || !typ.Name.IsExported() {
		return
	}
	for _, m := range i.Methods.List {
		if f, ok := m.Type.(*ast.FuncType); ok && len(m.Names) == 1 && takesContext(f) {
			all[typ.Name.Name+"."+m.Names[0].Name] = true
		}
	}
}

func takesContext(f *ast.FuncType) bool {
	if len(f.Params.List) == 0 {
		return false
	}
	s, ok := f.Params.List[0].Type.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	p, ok := s.X.(*ast.Ident)
	return ok && p.Name == "context" && s.Sel.Name == "Context"
}
