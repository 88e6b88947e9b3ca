package schemas_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/internal/modelfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/schemas"
)

var update = flag.Bool("update", false, "write the schemas")

const module = "github.com/boardsmith/boardsmith"

// templateType is what template.json is decoded into.
var templateType = reflect.TypeOf((*project.Builder).FindTemplate).Out(0).Elem()

// kinds are the files that people write, and what they are decoded into.
var kinds = []struct {
	schema, title string
	in            reflect.Type
	examples      []string // patterns of files of this kind, or the text of one
}{
	{
		"board.json", "A board, chip or CPU of boardsmith", reflect.TypeFor[boards.Board](),
		[]string{"boards/*.json", "boards/*/*.json", "examples/*/boards/*.json", "examples/*/boards/*/*.json"},
	},
	{
		"template.json", "A template of boardsmith", templateType,
		[]string{"templates/*/template.json", "examples/*/*/template.json"},
	},
	{
		"library.json", "A library of boardsmith", reflect.TypeFor[library.Library](),
		[]string{`{"doc": "filters", "headers": ["include"], "sources": ["src/*.c"], "flags": ["-O3"],
			"cores": ["cortex-m*"], "licence": "MIT"}`},
	},
	{
		"model.json", "A model in plain C, for boardsmith", reflect.TypeFor[modelfile.Description](),
		[]string{"internal/testdata/modelfile/*.json", "examples/c-model/*.json"},
	},
	{
		"boardsmith.json", "A repository's defaults for boardsmith", reflect.TypeFor[boardsmithjson.Config](),
		[]string{"examples/*/boardsmith.json"},
	},
	{
		"desk.json", "The devices on a desk, for boardsmith", reflect.TypeFor[device.DeskFile](),
		[]string{`{"format": 1, "devices": [{"name": "left", "board": "microbit", "link": {"kind": "serial"}}]}`},
	},
}

var must = testkit.Must

// own are the types that decode themselves.
var own = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[boards.Number](): {AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: jsonschema.Ptr(0.0)},
		{Type: "string", Pattern: "^(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)$"},
	}},
	reflect.TypeFor[boards.Source]():        {Type: "string"},
	reflect.TypeOf(boards.Board{}.PostLink): {Type: "array", Items: &jsonschema.Schema{Type: "string"}},
	reflect.TypeFor[boardsmithjson.OptionList](): {Type: "object", AdditionalProperties: &jsonschema.Schema{
		Types: []string{"string", "number", "boolean"},
	}},
}

// generated returns the schema of a type, with the comments of its fields.
func generated(t *testing.T, title string, in reflect.Type) []byte {
	t.Helper()
	s, err := jsonschema.ForType(in, &jsonschema.ForOptions{TypeSchemas: own})
	must(t, err)
	describe(t, s, in)
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", title
	switch in {
	case reflect.TypeFor[boards.Board](): // one that inherits has them from its parents, and a parent has no link
		s.Properties["identification"].DependentRequired = nil // whose fields are merged
		s.If = &jsonschema.Schema{Required: []string{"link"}, Not: &jsonschema.Schema{Required: []string{"inherits"}}}
		s.Then = &jsonschema.Schema{Required: requiredOfBoard(t)}
	case templateType:
		s.If = &jsonschema.Schema{Not: &jsonschema.Schema{Required: []string{"inherits"}}}
		s.Then = &jsonschema.Schema{Required: []string{"build", "elf", "map"}}
	}
	data, err := json.Marshal(s)
	must(t, err)
	var b bytes.Buffer
	must(t, json.Indent(&b, data, "", "  "))
	return append(b.Bytes(), '\n')
}

// describe adds the comments, and removes what the files' decoders do not demand and people do not write: no field is
// required, and none is null.
func describe(t *testing.T, s *jsonschema.Schema, in reflect.Type) {
	t.Helper()
	if in.Kind() == reflect.Pointer && own[in.Elem()] != nil {
		*s = *own[in.Elem()].CloneSchemas()
	}
	if len(s.Types) > 0 {
		s.Type, s.Types = without(s.Types, "null")[0], nil
	}
	for in.Kind() == reflect.Slice || in.Kind() == reflect.Pointer || in.Kind() == reflect.Map {
		switch {
		case in.Kind() == reflect.Slice:
			s = s.Items
		case in.Kind() == reflect.Map && in.Elem().Kind() != reflect.Pointer:
			s = s.AdditionalProperties
		}
		in = in.Elem()
	}
	if own[in] != nil || in.Kind() != reflect.Struct {
		return
	}
	s.Required = nil
	texts := comments(t, in)
	for _, f := range reflect.VisibleFields(in) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" { // embedded, or not in the file
			delete(s.Properties, f.Name)
			s.PropertyOrder = without(s.PropertyOrder, f.Name)
			continue
		}
		p := s.Properties[name]
		describe(t, p, f.Type)
		demand(t, s, p, name, f.Tag)
		from := texts
		if len(f.Index) > 1 {
			from = comments(t, in.FieldByIndex(f.Index[:len(f.Index)-1]).Type)
		}
		p.Description = link.ReplaceAllString(from[f.Name], "$1")
	}
}

// demand adds what the tags of a field demand of its value, as package jsonfile checks it: "" and 0 are the same as a
// field that is left out. Boards' options have theirs in boards.Options.
func demand(t *testing.T, of, p *jsonschema.Schema, name string, tag reflect.StructTag) {
	t.Helper()
	is := strings.Fields(tag.Get("is"))
	with := strings.Fields(tag.Get("with"))
	if slices.Contains(is, "required") && len(with) == 0 {
		of.Required = append(of.Required, name)
	}
	// Several fields of "with", values of theirs, "either" and "key" are the decoder's to check.
	needed := strings.Fields(tag.Get("needs"))
	if len(with) == 1 && !strings.Contains(with[0], "=") {
		needed = append(needed, with...)
	}
	if len(needed) > 0 {
		if of.DependentRequired == nil {
			of.DependentRequired = map[string][]string{}
		}
		of.DependentRequired[name] = needed
	}
	if form := jsonfile.Forms[tag.Get("keys")]; form.Pattern != nil {
		p.PropertyNames = &jsonschema.Schema{Pattern: form.Pattern.String()}
	}
	field := p
	for p.Items != nil {
		p = p.Items
	}
	if p.AdditionalProperties != nil && tag.Get("keys") != "" {
		p = p.AdditionalProperties
	}
	if len(p.AnyOf) > 0 { // a number, or its text in hexadecimal
		p = p.AnyOf[0]
	}

	isOptional := p == field && !slices.Contains(is, "required")
	for _, rule := range is {
		least, most, isRange := strings.Cut(rule, "..")
		form, isForm := jsonfile.Forms[rule]
		choices := strings.Split(strings.Trim(rule, "|"), "|")
		number := func(text string) *float64 {
			n, err := strconv.ParseFloat(text, 64)
			must(t, err)
			return &n
		}
		switch {
		case isForm && form.Pattern != nil && p.Pattern == "":
			p.Pattern = form.Pattern.String()
			if isOptional {
				p.Pattern = "^$|" + p.Pattern
			}
		case isRange:
			p.Minimum, p.Maximum = number(least), number(most)
			if isOptional {
				*p.Minimum = min(*p.Minimum, 0)
			}
		case rule[0] == '/':
			p.MultipleOf = number(rule[1:])
		case strings.Contains(rule, "|") && rule[0] != '.':
			if isOptional {
				choices = append(choices, map[string]string{"integer": "0"}[p.Type])
			}
			for _, choice := range choices {
				var value any = choice
				if p.Type == "integer" {
					value = *number(choice)
				}
				p.Enum = append(p.Enum, value)
			}
		}
	}
}

// requiredOfBoard returns the fields that the loader of board files misses in one without a parent. The memory map is
// not among them: a process has none.
func requiredOfBoard(t *testing.T) (names []string) {
	t.Helper()
	_, err := boards.Find(board(t, `{"templates": ["own"], "link": {"kind": "process"}}`), nil)
	if err == nil {
		t.Fatal("a board without fields is loaded")
	}
	list, _, ok := strings.Cut(err.Error(), ": missing")
	if !ok {
		t.Fatal(err)
	}
	_, list, _ = strings.Cut(list, ":1: ")
	names = []string{"templates"}
	for name := range strings.SplitSeq(list, ", ") {
		name, _, _ = strings.Cut(name, ".")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// board returns the path of a board file with a text.
func board(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "boards", "own.json")
	testkit.WriteFile(t, name, text)
	return name
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// comments returns the comments of a struct's fields, by the fields' names.
func comments(t *testing.T, in reflect.Type) map[string]string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", filepath.FromSlash(strings.TrimPrefix(in.PkgPath(), module+"/")))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	texts := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != in.Name() {
				return true
			}
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range f.Names {
					texts[name.Name] = strings.Join(strings.Fields(f.Doc.Text()+f.Comment.Text()), " ")
				}
			}
			return false
		})
	}
	return texts
}

// pages are those with a table of the fields of a kind of file.
var pages = map[string]string{
	"board.json": "board.md", "boardsmith.json": "command-line.md",
	"library.json": "templates.md", "model.json": "c-models.md", "template.json": "templates.md",
}

// TestPages checks that the tables of fields are those of the types and their comments. -update writes them.
func TestPages(t *testing.T) {
	for _, k := range kinds {
		if pages[k.schema] == "" {
			continue
		}
		text := "\n| field | meaning |\n|---|---|\n"
		texts := comments(t, k.in)
		for _, f := range reflect.VisibleFields(k.in) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous {
				maps.Copy(texts, comments(t, f.Type))
			}
			if name == "" || name == "-" {
				continue
			}
			name += "`"
			if f.Tag.Get("merge") == "append" {
				name += " +"
			}
			name += " | "
			if slices.Contains(strings.Fields(f.Tag.Get("is")), "required") {
				name += "required: "
			}
			text += "| `" + name + texts[f.Name] + " |\n"
		}
		const how = "go test ./targets/internal/schemas -update"
		page := filepath.Join("..", "..", "..", "docs", pages[k.schema])
		testkit.Section(t, page, "<!-- begin of "+k.schema+": "+how+" -->\n", text+"\n", how, *update)
	}
}

// link is one of a page.
var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// TestSchemas checks that the schemas are those of the types. "go test ./targets/internal/schemas -update" writes them.
func TestSchemas(t *testing.T) {
	for _, k := range kinds {
		want := generated(t, k.title, k.in)
		if *update {
			must(t, os.WriteFile(k.schema, want, 0o644))
		}
		got, err := fs.ReadFile(schemas.FS, k.schema)
		if !*update && (err != nil || !bytes.Equal(got, want)) {
			t.Errorf("%s is not up to date (%v): go test ./targets/internal/schemas -update", k.schema, err)
		}
	}
}

func read(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	data, err := fs.ReadFile(schemas.FS, name)
	must(t, err)
	s := new(jsonschema.Schema)
	must(t, json.Unmarshal(data, s))
	resolved, err := s.Resolve(nil)
	must(t, err)
	return resolved
}

// files returns the texts of the files that a pattern means, by their names.
func files(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	if strings.HasPrefix(pattern, "{") {
		return map[string][]byte{"the example": []byte(pattern)}
	}
	names, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(pattern)))
	must(t, err)
	if len(names) == 0 {
		t.Errorf("there is no %s", pattern)
	}
	texts := map[string][]byte{}
	for _, name := range names {
		texts[name] = testkit.ReadFile(t, name)
	}
	return texts
}

// TestFilesMatch checks every file of the repository against its schema. With a field that is not known, or with a
// value of another type, it does not match.
func TestFilesMatch(t *testing.T) {
	for _, k := range kinds {
		schema := read(t, k.schema)
		for _, pattern := range k.examples {
			for name, text := range files(t, pattern) {
				var value map[string]any
				must(t, json.Unmarshal(text, &value))
				if err := schema.Validate(value); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for field, old := range value {
					value[field] = 3.5
					if schema.Validate(value) == nil {
						t.Errorf("%s: %s may be 3.5", name, field)
					}
					value[field] = old
				}
				value["no_field"] = true
				if schema.Validate(value) == nil {
					t.Errorf("%s: an unknown field is accepted", name)
				}
			}
		}
	}
}

// TestRequired: a schema marks the fields that are required, and so do the loaders; a file that inherits need not have
// them.
func TestRequired(t *testing.T) {
	const template = `"build": ["make"], "elf": "build/a.elf", "map": "build/a.map"`
	const output = `"arguments": [{"output": "y", "dtype": "int8", "shape": [1]}]`
	const process = `"templates": ["own"], "link": {"kind": "process"}, "flash": {"programmer": "none"}`
	for _, c := range []struct {
		schema, text string
		ok           bool
	}{
		{"template.json", "{" + template + "}", true},
		{"template.json", `{"inherits": "minimal"}`, true},
		{"template.json", `{"doc": "a"}`, false},
		{"template.json", "{" + strings.Replace(template, `"map"`, `"doc"`, 1) + "}", false},
		{"board.json", `{"inherits": "cpu/native", ` + process + `}`, true},
		{"board.json", "{" + process + "}", false},
		{"model.json", `{"name": "net", "headers": ["net.h"], ` + output + `, "function": "net"}`, true},
		{"model.json", `{"headers": ["net.h"], ` + output + `, "function": "net"}`, false},
		{"model.json", `{"name": "net", "include": ["net.h"], ` + output + `, "function": "net"}`, true}, // of a library
		{"model.json", `{"name": "net", "headers": ["net.h"], ` + output + `}`, false},
		{"library.json", `{"licence": "MIT"}`, true},
		{"library.json", `{"doc": "filters"}`, false},
	} {
		var value map[string]any
		must(t, json.Unmarshal([]byte(c.text), &value))
		testkit.WantErrorIf(t, !c.ok, read(t, c.schema).Validate(value), "")
		var err error
		folder := t.TempDir()
		testkit.WriteFile(t, filepath.Join(folder, c.schema), c.text)
		switch c.schema {
		case "template.json":
			_, err = new(project.Builder).FindTemplate(t.Context(), project.Spec{Template: folder}, nil)
		case "board.json":
			_, err = boards.Find(board(t, c.text), nil)
		case "model.json":
			testkit.WriteFile(t, filepath.Join(folder, "net.h"), "")
			_, err = modelfile.Pack(os.DirFS(folder), c.schema, c.schema)
		case "library.json":
			_, err = library.Read(folder, "own")
		}
		testkit.WantErrorIf(t, !c.ok, err, "")
	}
}
