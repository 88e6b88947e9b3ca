package boardsmithjson

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	text := `{
	"board": "desk", "model": "models/a.tar", "path": ["."],
	"options": {"packet_bytes": 1024, "arena_kib": 64, "log_level": "warn"},
	"targets": {"x": {"board": "b/x.json", "model": "/abs/x.tar", "project": "out"}}
}`
	if err := os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := Find(deep)
	if err != nil {
		t.Fatal(err)
	}
	if c.Board != "desk" || c.Model != filepath.Join(dir, "models", "a.tar") || c.Path[0] != dir {
		t.Errorf("got %+v", c)
	}
	if want := (OptionList{"arena_kib=64", "log_level=warn", "packet_bytes=1024"}); !reflect.DeepEqual(c.Options, want) {
		t.Errorf("options %q, want %q", c.Options, want)
	}
	x, err := c.Target("x")
	if err != nil || x.Board != filepath.Join(dir, "b", "x.json") || x.Model != "/abs/x.tar" ||
		x.Project != filepath.Join(dir, "out") {
		t.Errorf("target x: %+v, %v", x, err)
	}
	if _, err := c.Target("y"); failure.Of(err) != failure.Config || !strings.Contains(failure.Next(err), "x") {
		t.Errorf("target y: %v", err)
	}
}

// TestMissingPath: a folder of path that is not there is an error, with its line. One of a git
// repository is not looked up.
func TestMissingPath(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{\"path\": [\".\",\n\"./nope\"]}":          `boardsmith.json:2: path: "./nope" is no folder`,
		"{\n\n\"path\": [\"boardsmith.json\"]}":     `boardsmith.json:3: path: "boardsmith.json" is no folder`,
		`{"path": ["https://h.example/k@v1", "."]}`: "",
	} {
		if err := os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Find(dir)
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) || failure.Of(err) != failure.Config {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{\n\"bord\": \"host\"}", `f:2: field "bord" is not known; did you mean "board"?`},
		{"{\n\"targets\": {\"a\": {\n\"mdoel\": \"x\"}}}", `f:3: field "targets.a.mdoel" is not known; did you mean "targets.a.model"?`},
		{"{\n\"board\": 3}", `f:2: board: a number, where a text belongs`},
		{"{\n\"options\": [1]}", "options are an object"},
		{"{\n\"options\": {\"a\": [1]}}", `option "a" is neither`},
		{"{\n\"board\": }", "f:2: invalid character"},
		{"{", "f:1: the file is truncated"},
		{"", "f:1: the file is truncated"},
		{"{} {}", "text after the closing brace"},
		{"[]", "f:1:"},
	} {
		_, err := parse("f", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || failure.Of(err) != failure.Config {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"board": "host", "targets": {"a": {"options": {"arena_kib": 64}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse("f", data)
		if err != nil && failure.Of(err) != failure.Config {
			t.Errorf("class %s: %v", failure.Of(err), err)
		}
		if err == nil && c == nil {
			t.Error("neither a config nor an error")
		}
	})
}
