package jsonlines

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
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

// tables returns a row for each field of each struct whose comment says of which steps it is a line.
func tables(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "jsonlines.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	p := &printer{structs: map[string]*ast.StructType{}}
	p.b.WriteString("\n| step | field | type | meaning |\n|---|---|---|---|\n")
	var lines []*ast.GenDecl
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		spec := g.Specs[0].(*ast.TypeSpec)
		p.structs[spec.Name.Name] = spec.Type.(*ast.StructType)
		lines = append(lines, g)
	}
	for _, g := range lines {
		m := lineOf.FindStringSubmatch(strings.Join(strings.Fields(g.Doc.Text()), " "))
		if m == nil {
			continue // an object in a line
		}
		step := m[3]
		if m[2] != "" {
			step += "; last line"
		}
		for _, f := range p.structs[g.Specs[0].(*ast.TypeSpec).Name.Name].Fields.List {
			if name := nameOf(f); name != "" && name != "status" && name != "step" {
				fmt.Fprintf(&p.b, "| %s | `%s` | %s | %s |\n", step, name, p.kind(f.Type), p.meaning(f))
				step = ""
			}
		}
	}
	p.b.WriteString("\n")
	return p.b.String()
}

type printer struct {
	structs map[string]*ast.StructType
	b       strings.Builder
}

// nameOf returns the name of a field in JSON, "" for a struct that is embedded.
func nameOf(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	return jsonTag.FindStringSubmatch(f.Tag.Value)[1]
}

func (p *printer) kind(e ast.Expr) string {
	switch e := e.(type) {
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
	name, ok := e.(*ast.Ident)
	if !ok || p.structs[name.Name] == nil || strings.HasPrefix(text, "as of ") {
		return text
	}
	var inner []string
	for _, f := range p.structs[name.Name].Fields.List {
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
		if err != nil || string(got) != c.want {
			t.Errorf("%+v: %s, %v; want %s", c.line, got, err, c.want)
		}
	}
	if _, err := Line("s", make(chan int)); err == nil {
		t.Error("a channel is a line")
	}
	if _, err := Line("s", []int{1}); err == nil {
		t.Error("a list is a line")
	}
}

// TestOrder checks that the fields of objects are in alphabetical order.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, object := range []any{
		Fault{},
		Frame{},
		SectorErase{},
		Output{},
		Operator{},
		Time{},
		Part{},
		Region{},
		Arena{},
		Stack{},
		Correlation{},
	} {
		typ, last := reflect.TypeOf(object), ""
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name <= last {
				t.Errorf("%v: %s is after %s", typ, name, last)
			}
			last = name
		}
		if _, err := json.Marshal(object); err != nil {
			t.Error(err)
		}
	}
}
