// Package failuretest checks that every function of a package that takes a context returns when the context ends,
// with an error of class interrupted or timeout.
package failuretest

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// A Call calls one function with a context that has ended or soon ends.
type Call func(ctx context.Context) error

// Calls maps "Function" or "Type.Method" to a call of it.
type Calls map[string]Call

// Of is the call of a function with a context and further arguments, whose last result is an error.
func Of(function any, args ...any) Call {
	return func(ctx context.Context) error {
		f := reflect.ValueOf(function)
		in := []reflect.Value{reflect.ValueOf(ctx)}
		for i, arg := range args {
			if arg == nil {
				in = append(in, reflect.Zero(f.Type().In(i+1)))
			} else {
				in = append(in, reflect.ValueOf(arg))
			}
		}
		out := f.Call(in)
		err, _ := out[len(out)-1].Interface().(error)
		return err
	}
}

const (
	soon     = 30 * time.Millisecond
	patience = 10 * time.Second
)

// ends lists the ways in which a context can end after some time.
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

// Ended runs each call with contexts that have already ended. calls must name each exported function, method and
// method of an interface that takes a context, of the package in the working folder.
func Ended(t *testing.T, calls Calls) {
	t.Helper()
	missing := takers(t)
	for name := range calls {
		if !missing[name] {
			t.Errorf("this package exports no function %s that takes a context", name)
		}
		delete(missing, name)
	}
	for name := range missing {
		t.Errorf("%s is not tested", name)
	}
	run(t, calls, 0)
}

// EndedCalls runs each call with contexts that have already ended, whatever the package exports.
func EndedCalls(t *testing.T, calls Calls) {
	t.Helper()
	run(t, calls, 0)
}

// Waiting runs calls that would wait indefinitely, with contexts that end meanwhile.
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
					t.Errorf("still running after %v", patience)
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
		t.Errorf("returned before its context ended: %v", err)
	case err == nil:
		t.Error("no error")
	case !errors.Is(err, ctx.Err()), !errors.Is(err, context.Cause(ctx)):
		t.Errorf("%q is not (%v, %v)", err, ctx.Err(), context.Cause(ctx))
	case failure.Of(err) != want:
		t.Errorf("%q is of class %s, want %s", err, failure.Of(err), want)
	}
}

// takers returns the exported functions and methods of the package in the working folder that take a context.
func takers(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go sources in the working folder: %v", err)
	}
	all := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		testkit.Must(t, err)
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
