package targets

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// TestPortingNamesEveryField holds docs/PORTING.md to what a board file may say.
func TestPortingNamesEveryField(t *testing.T) {
	doc := readDoc(t, "PORTING.md")
	for _, field := range jsonFields(reflect.TypeFor[boards.Board]()) {
		if !strings.Contains(doc, "`"+field+"`") && !strings.Contains(doc, `"`+field+`"`) {
			t.Errorf("docs/PORTING.md does not say what %s is", field)
		}
	}
}

// jsonFields are the names of a struct's fields in JSON, and of the structs' in it.
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
		if name != "" && name != "-" {
			names = append(append(names, name), jsonFields(of.Field(i).Type)...)
		}
	}
	return names
}

// TestPortingNamesEveryUART holds the table of drivers to the files there are, and each file that is named to exist.
func TestPortingNamesEveryUART(t *testing.T) {
	doc := readDoc(t, "PORTING.md")
	drivers, err := filepath.Glob("../templates/baremetal/port/uart/*.c")
	if err != nil || len(drivers) == 0 {
		t.Fatal(drivers, err)
	}
	for _, d := range drivers {
		if !strings.Contains(doc, "| `port/uart/"+filepath.Base(d)+"` |") {
			t.Errorf("docs/PORTING.md does not list %s", d)
		}
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
			t.Errorf("docs/PORTING.md names %s/%s: %v", m[1], m[2], err)
		}
	}
}

// TestPortingsBoard loads the board that the page shows, and merges the memory map that it shows into it.
func TestPortingsBoard(t *testing.T) {
	doc := readDoc(t, "PORTING.md")
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(doc, -1)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks of JSON", len(blocks))
	}
	dir := t.TempDir()
	for i, b := range blocks {
		text := strings.TrimSpace(b[1])
		if !strings.HasPrefix(text, "{") { // some fields of a file
			text = merged(t, blocks[0][1], text)
		}
		file := filepath.Join(dir, "kiln.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := boards.Find(file, nil); err != nil {
			t.Errorf("block %d of JSON: %v", i+1, err)
		}
	}
}

// merged is a JSON object with some more fields.
func merged(t *testing.T, object, fields string) string {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, text := range []string{object, "{" + fields + "}"} {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
