package jsonlines

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

var update = flag.Bool("update", false, "write the tables in docs/command-line.md")

// TestPage checks that the tables in docs/command-line.md are those of the structs.
func TestPage(t *testing.T) {
	t.Parallel()
	const how = "go test ./targets/internal/jsonlines -update"
	testkit.Section(t, "../../../docs/command-line.md", "<!-- begin of "+how+" -->\n", tables(t), how, *update)
}

var (
	lineOf  = regexp.MustCompile(`^\w+ (is (?:a|the)( last)? line|begins the lines) of ([^.]+)\.`)
	jsonTag = regexp.MustCompile(`json:"(\w+)`)
)

// libraries are the folders of the packages whose values are in lines.
var libraries = []string{
	"cache", "device", "device/internal/desk", "image", "internal/fit", "internal/stackdepth", "rpc/fault",
	"targets/internal/registers",
}

// tables returns a row for each field of each struct whose comment says of which steps it is a line.
func tables(t *testing.T) string {
	p := &printer{types: map[string]ast.Expr{"time.Time": ast.NewIdent("string")}}
	files := []string{"jsonlines.go"}
	for _, folder := range libraries {
		sources, err := filepath.Glob("../../../" + folder + "/*.go")
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: no sources, %v", folder, err)
		}
		files = append(files, sources...)
	}
	var lines []*ast.GenDecl
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		testkit.Must(t, err)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			spec := g.Specs[0].(*ast.TypeSpec)
			if name == "jsonlines.go" {
				lines = append(lines, g)
				p.types[spec.Name.Name] = spec.Type
				continue
			}
			p.types[file.Name.Name+"."+spec.Name.Name] = spec.Type
			// In its own package, a type has no package's name.
			if p.types[spec.Name.Name] == nil {
				p.types[spec.Name.Name] = spec.Type
			}
		}
	}
	p.b.WriteString("\n| step | field | type | meaning |\n|---|---|---|---|\n")
	for _, g := range lines {
		m := lineOf.FindStringSubmatch(strings.Join(strings.Fields(g.Doc.Text()), " "))
		if m == nil {
			continue // an object in a line
		}
		step := m[3]
		if m[2] != "" {
			step += "; last line"
		}
		for _, f := range p.fields(g.Specs[0].(*ast.TypeSpec).Name) {
			if name := nameOf(f); name != "status" && name != "step" {
				fmt.Fprintf(&p.b, "| %s | `%s` | %s | %s |\n", step, name, p.kind(f.Type), p.meaning(f))
				step = ""
			}
		}
	}
	p.b.WriteString("\n")
	return p.b.String()
}

type printer struct {
	types map[string]ast.Expr
	b     strings.Builder
}

// nameOf returns the name of a field in JSON, "" if it has none.
func nameOf(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	if m := jsonTag.FindStringSubmatch(f.Tag.Value); m != nil {
		return m[1]
	}
	return ""
}

// base returns what a type is: a struct, or a type of Go.
func (p *printer) base(e ast.Expr) ast.Expr {
	for {
		name := ""
		switch e := e.(type) {
		case *ast.Ident:
			name = e.Name
		case *ast.SelectorExpr:
			name = e.X.(*ast.Ident).Name + "." + e.Sel.Name
		}
		below, ok := p.types[name]
		if !ok {
			return e
		}
		e = below
	}
}

// fields are those of a struct in JSON, and of the library's values that it embeds. Those of Project and Firmware have
// rows of their own.
func (p *printer) fields(e ast.Expr) (all []*ast.Field) {
	object, ok := p.base(e).(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range object.Fields.List {
		if nameOf(f) != "" {
			all = append(all, f)
			continue
		}
		embedded := f.Type
		if star, ok := embedded.(*ast.StarExpr); ok {
			embedded = star.X
		}
		if _, ok := embedded.(*ast.SelectorExpr); ok && len(f.Names) == 0 {
			all = append(all, p.fields(embedded)...)
		}
	}
	return all
}

func (p *printer) kind(e ast.Expr) string {
	switch e := p.base(e).(type) {
	case *ast.StarExpr:
		return p.kind(e.X)
	case *ast.ArrayType:
		if inner := p.kind(e.Elt); inner == "text" {
			return "list of text"
		}
		return "list"
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "text"
		case "bool":
			return "boolean"
		case "int", "int64", "uint64", "float64":
			return "number"
		}
	}
	return "object"
}

// meaning is the comment of a field and, for an object, its fields with their meanings.
func (p *printer) meaning(f *ast.Field) string {
	text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
	e := f.Type
	for {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		} else if list, ok := e.(*ast.ArrayType); ok {
			e = list.Elt
		} else {
			break
		}
	}
	fields := p.fields(e)
	if fields == nil || strings.HasPrefix(text, "as of ") {
		return text
	}
	var inner []string
	for _, f := range fields {
		part := "`" + nameOf(f) + "`"
		if text := p.meaning(f); text != "" {
			part += " (" + text + ")"
		}
		inner = append(inner, part)
	}
	return strings.TrimPrefix(text+": ", ": ") + strings.Join(inner, ", ")
}

// TestLine checks which fields a line gets and loses.
func TestLine(t *testing.T) {
	t.Parallel()
	pc := uint64(0)
	for _, c := range []struct {
		line any
		want string
	}{
		{Done{}, `{"status":"done","step":"s","v":1}`},
		{Devices{}, `{"devices":0,"status":"done","step":"s","v":1}`},
		{
			Generate{Step: "generate", Project: Project{Status: StatusUpToDate, Board: "<b>"}},
			`{"board":"\u003cb\u003e","status":"up-to-date","step":"generate","v":1}`,
		},
		{
			Failed{Status: StatusFailed, Fault: &Fault{PC: &pc}},
			`{"code":0,"fault":{"cause":"","frames":null,"function":"","operator":"","pc":0,"reason":""},` +
				`"status":"failed","step":"s","v":1}`,
		},
		{
			DryRun{Status: StatusDryRun, Commands: []string{}},
			`{"commands":[],"status":"dry-run","step":"s","v":1}`,
		},
	} {
		got, err := Line("s", c.line)
		testkit.Must(t, err)
		testkit.Equal(t, c.line, string(got), c.want)
	}
	if _, err := Line("s", make(chan int)); err == nil {
		t.Error("a channel is a line")
	}
	if _, err := Line("s", []int{1}); err == nil {
		t.Error("a list is a line")
	}
}
