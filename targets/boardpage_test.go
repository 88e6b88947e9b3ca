package targets

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/internal/modelfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
)

// TestPagesNameEveryField checks that the page of a kind of file names every field of it, also those of its structs,
// which are not in the tables that are written from the types.
func TestPagesNameEveryField(t *testing.T) {
	for _, kind := range []struct {
		page string
		of   reflect.Type
	}{
		{"board.md", reflect.TypeFor[boards.Board]()},
		{"templates.md", reflect.TypeOf((*project.Builder).FindTemplate).Out(0).Elem()},
		{"templates.md", reflect.TypeFor[library.Library]()},
		{"c-models.md", reflect.TypeFor[modelfile.Description]()},
	} {
		doc := readDoc(t, kind.page)
		for _, field := range jsonFields(kind.of) {
			if !strings.Contains(doc, "`"+field+"`") && !strings.Contains(doc, `"`+field+`"`) {
				t.Errorf("docs/%s does not describe %s", kind.page, field)
			}
		}
	}
}

// TestFilesOfPages checks that the template of docs/templates.md is read, and that docs/c-models.md has the example's
// description.
func TestFilesOfPages(t *testing.T) {
	folder := t.TempDir()
	text := fenced(readDoc(t, "templates.md"), "json")[0]
	testkit.WriteFile(t, filepath.Join(folder, "template.json"), text)
	if _, err := new(project.Builder).FindTemplate(t.Context(), project.Spec{Template: folder}, nil); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	example := testkit.ReadFile(t, "../examples/c-model/dense.json")
	page := readDoc(t, "c-models.md")
	testkit.Equal(t, "docs/c-models.md", fenced(page, "json")[0], string(example))
	before, _, _ := strings.Cut(string(example), `{"input": "features"`)
	want := fmt.Sprintf("dense.json: argument 1, features:%d:5: error: ", 1+strings.Count(before, "\n"))
	testkit.WantText(t, page, want)
}

// jsonFields returns the JSON names of a struct's fields and of those of its structs.
func jsonFields(of reflect.Type) []string {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		switch {
		case of.Field(i).Anonymous && name == "":
			names = append(names, jsonFields(of.Field(i).Type)...)
		case name != "" && name != "-":
			names = append(append(names, name), jsonFields(of.Field(i).Type)...)
		}
	}
	return names
}

// TestChipPageNamesEveryUART checks that the table of drivers lists every file, and that every named file exists.
func TestChipPageNamesEveryUART(t *testing.T) {
	chip := readDoc(t, "chip.md")
	doc := chip + readDoc(t, "board.md")
	drivers, err := filepath.Glob("../templates/baremetal/port/uart/*.c")
	if err != nil || len(drivers) == 0 {
		t.Fatal(drivers, err)
	}
	for _, d := range drivers {
		testkit.WantText(t, chip, "| `port/uart/"+filepath.Base(d)+"` |")
	}
	folders := map[string]string{
		"port": "../templates/baremetal/port", "chip": "../boards/chip", "cpu": "../boards/cpu",
		"boards": "../boards",
	}
	named := regexp.MustCompile("`(port|chip|cpu|boards)/([a-z0-9_./-]+\\.(?:c|S|h|json))`").FindAllStringSubmatch(doc, -1)
	if len(named) < 10 {
		t.Fatalf("only %d files are named", len(named))
	}
	for _, m := range named {
		file := filepath.Join(folders[m[1]], m[2])
		if _, err := os.Stat(file); err != nil && m[2] != "desk_sensor.c" { // of examples/own-repo
			t.Errorf("docs/board.md or docs/chip.md names %s/%s: %v", m[1], m[2], err)
		}
	}
}

// TestBoardOfPage loads the board that the page shows, also with each further block of fields merged into it.
func TestBoardOfPage(t *testing.T) {
	blocks := fenced(readDoc(t, "board.md"), "json")
	if len(blocks) < 3 {
		t.Fatalf("%d blocks of JSON", len(blocks))
	}
	dir := t.TempDir()
	for i, b := range blocks {
		text := strings.TrimSpace(b)
		if !strings.HasPrefix(text, "{") { // some fields of a file
			text = merged(t, blocks[0], text)
		}
		file := filepath.Join(dir, "kiln.json")
		testkit.WriteFile(t, file, text)
		if _, err := boards.Find(file, nil); err != nil {
			t.Errorf("block %d of JSON: %v", i+1, err)
		}
	}
}

// TestBoardOfPageBuilds builds the bundled sample for the board that the page shows first.
func TestBoardOfPageBuilds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kiln.json")
	testkit.WriteFile(t, file, fenced(readDoc(t, "board.md"), "json")[0])
	builder := &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}}
	p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), project.Spec{
		Board: file, Model: "../examples/samples/" + samples.Name,
	})
	testkit.Must(t, err)
	defer p.Close()
	if _, err := p.Build(t.Context()); failure.Of(err) == failure.ToolMissing {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// merged returns a JSON object with more fields.
func merged(t *testing.T, object, fields string) string {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, text := range []string{object, "{" + fields + "}"} {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	data, err := json.Marshal(all)
	testkit.Must(t, err)
	return string(data)
}

// TestBoardPageNamesEveryKind: the page explains each kind of link and each programmer, and so does PROGRAMMER.
func TestBoardPageNamesEveryKind(t *testing.T) {
	all := pages(t)
	kinds, _ := reflect.TypeFor[boards.Link]().FieldByName("Kind")
	for kind := range strings.SplitSeq(kinds.Tag.Get("is"), "|") {
		testkit.WantText(t, all["board.md"], "\n* `"+kind+"`: ")
	}
	for _, name := range boards.Programmers() {
		for _, page := range []string{"board.md", "command-line.md"} {
			testkit.WantText(t, all[page], "`"+name+"`")
		}
	}
}
