package targets

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, configName), `{
	"board": "bench", "model": "models/a.tar", "path": ["."],
	"options": {"packet_bytes": 1024, "arena_kib": 64, "log_level": "warn"},
	"targets": {"x": {"board": "b/x.json", "model": "/abs/x.tar", "project": "out"}}
}`)
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := findConfig(deep)
	if err != nil {
		t.Fatal(err)
	}
	if c.Board != "bench" || c.Model != filepath.Join(dir, "models", "a.tar") || c.Path[0] != dir {
		t.Errorf("got %+v", c)
	}
	if want := (optionList{"arena_kib=64", "log_level=warn", "packet_bytes=1024"}); !reflect.DeepEqual(c.Options, want) {
		t.Errorf("options %q, want %q", c.Options, want)
	}
	x, err := c.target("x")
	if err != nil || x.Board != filepath.Join(dir, "b", "x.json") || x.Model != "/abs/x.tar" || x.Project != filepath.Join(dir, "out") {
		t.Errorf("target x: %+v, %v", x, err)
	}
	if _, err := c.target("y"); failure.Of(err) != failure.Config || !strings.Contains(failure.Next(err), "x") {
		t.Errorf("target y: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{\n\"bord\": \"host\"}", `f:2: field "bord" is not known; did you mean "board"?`},
		{"{\n\"targets\": {\"a\": {\n\"mdoel\": \"x\"}}}", `f:3: field "mdoel" is not known; did you mean "model"?`},
		{"{\n\"board\": 3}", `f:2: "board" cannot be a number`},
		{"{\n\"options\": [1]}", "options are an object"},
		{"{\n\"options\": {\"a\": [1]}}", `option "a" is neither`},
		{"{\n\"board\": }", "f:2: invalid character"},
		{"{", "f:1: the file ends too early"},
		{"", "f:1: the file ends too early"},
		{"{} {}", "something follows"},
		{"[]", "f:1:"},
	} {
		_, err := parseConfig("f", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || failure.Of(err) != failure.Config {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"board": "host", "targets": {"a": {"options": {"arena_kib": 64}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig("f", data)
		if err != nil && failure.Of(err) != failure.Config {
			t.Errorf("class %s: %v", failure.Of(err), err)
		}
		if err == nil && c == nil {
			t.Error("neither a config nor an error")
		}
	})
}

// TestPrecedence asks for each input in the four places that can have it.
func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, configName), `{"board": "fileboard", "model": "f.tar", "options": {"arena_kib": 1},
		"timeout": "5s", "targets": {"t": {"board": "targetboard", "options": {"arena_kib": 2}}}}`)
	project := &made{board: "madeboard", model: "m.tar", options: boards.Options{ArenaKiB: 3}}
	for _, c := range []struct {
		name          string
		env           map[string]string
		made          *made
		board         string
		model         string
		arena         int
		project       string
		boardAsked    bool
		timeout       time.Duration
		optionsOfUser bool
	}{
		{
			name: "nothing asked", board: "fileboard", model: filepath.Join(dir, "f.tar"), arena: 1,
			project: filepath.Join("build", "fileboard", "f"), boardAsked: true, timeout: 5 * time.Second,
		},
		{
			name: "project over file", env: map[string]string{"PROJECT": "p"}, made: project, board: "madeboard", model: "m.tar",
			arena: 3, project: "p", timeout: 5 * time.Second,
		},
		{
			name: "new project", env: map[string]string{"PROJECT": "p"}, board: "fileboard", model: filepath.Join(dir, "f.tar"),
			arena: 1, project: "p", timeout: 5 * time.Second,
		},
		{
			name: "environment over all", env: map[string]string{"PROJECT": "p", "BOARD": "envboard", "MODEL": "e.tar", "OPTIONS": " arena_kib=9  log_level=warn ", "TIMEOUT": "7"},
			made: project, board: "envboard", model: "e.tar", arena: 9, project: "p", boardAsked: true, timeout: 7 * time.Second, optionsOfUser: true,
		},
		{
			name: "target over project", env: map[string]string{"PROJECT": "p", "TARGET": "t"}, made: project, board: "targetboard", model: "m.tar",
			arena: 2, project: "p", boardAsked: true, timeout: 5 * time.Second, optionsOfUser: true,
		},
		{
			name: "environment over target", env: map[string]string{"BOARD": "envboard", "TARGET": "t"}, board: "envboard", model: filepath.Join(dir, "f.tar"),
			arena: 2, project: filepath.Join("build", "envboard", "f"), boardAsked: true, timeout: 5 * time.Second, optionsOfUser: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := func(name string) string { return c.env[name] }
			in, err := resolve(env, dir, func(string) (*made, error) { return c.made, nil })
			if err != nil {
				t.Fatal(err)
			}
			if in.board.value != c.board || in.model.value != c.model || in.options.ArenaKiB != c.arena || in.project != c.project {
				t.Errorf("board %q, model %q, options %v, project %q", in.board.value, in.model.value, in.options, in.project)
			}
			if in.board.asked != c.boardAsked || in.optioned != c.optionsOfUser || in.timeout != c.timeout {
				t.Errorf("board asked %v, options asked %v, timeout %v", in.board.asked, in.optioned, in.timeout)
			}
		})
	}
}

func TestBadInputs(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"REPEAT", "0"},
		{"REPEAT", "-1"},
		{"REPEAT", "many"},
		{"REPEAT", "1000001"},
		{"TIMEOUT", "0"},
		{"TIMEOUT", "-1s"},
		{"TIMEOUT", "soon"},
		{"TIMEOUT", "NaN"},
		{"TARGET", "none"},
	} {
		env := func(name string) string { return map[string]string{c.name: c.value}[name] }
		_, err := resolve(env, t.TempDir(), func(string) (*made, error) { return nil, nil })
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), c.value) {
			t.Errorf("%s=%s: got %v", c.name, c.value, err)
		}
	}
}

func TestArchiveName(t *testing.T) {
	for in, want := range map[string]string{"": "digits_i8.aot_packed", "a/kws.tar": "kws", "kws.tar.gz": "kws", "kws.tgz": "kws", "kws": "kws"} {
		if got := archiveName(in); got != want {
			t.Errorf("archiveName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRunsHere(t *testing.T) {
	in := &inputs{board: input{value: "host"}}
	if err := runsHere("linux", in); err != nil {
		t.Errorf("linux: %v", err)
	}
	for _, system := range []string{"darwin", "windows"} {
		err := runsHere(system, in)
		if failure.Of(err) != failure.Config || !strings.Contains(failure.Next(err), "QEMU") {
			t.Errorf("%s: %v", system, err)
		}
	}
}

// TestModule asks for one of an archive's models.
func TestModule(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, configName), `{"model": "f.tar", "module": "first"}`)
	for _, c := range []struct {
		env             map[string]string
		made            *made
		module, project string
		asked           bool
	}{
		{nil, nil, "first", "f.first", false},
		{map[string]string{"MODULE": "second"}, nil, "second", "f.second", true},
		{map[string]string{"MODEL": "g.tar"}, nil, "", "g", false},
		{map[string]string{"MODEL": "g.tar", "MODULE": "one"}, nil, "one", "g.one", true},
		{map[string]string{"PROJECT": "p"}, &made{board: "host", model: "m.tar", module: "third"}, "third", "p", false},
		{map[string]string{"PROJECT": "p"}, nil, "first", "p", false},
	} {
		in, err := resolve(func(name string) string { return c.env[name] }, dir, func(string) (*made, error) { return c.made, nil })
		if err != nil {
			t.Fatal(err)
		}
		if in.module.value != c.module || in.module.asked != c.asked || filepath.Base(in.project) != c.project {
			t.Errorf("%v: module %+v in %s, want %q (asked: %v) in %s", c.env, in.module, in.project, c.module, c.asked, c.project)
		}
	}
}
