package library

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	testkit.WriteFile(t, file, text)
	return file
}

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"doc": "d", "headers": ["include"], "sources": ["src/*.c", "src/a.c", "include/x.c",
			"!include/*.c"], "licence": "MIT"}`: "",
		"{\"doc\": \"d\",\n\"source\": []}":                 `library.json:2: field "source" is not known; did you mean "sources"?`,
		"{\"doc\": \"d\",\n\"sources\": 1}":                 "library.json:2",
		`{"doc": "d"`:                                       "library.json:1",
		`{"sources": ["src/a.c"]}`:                          "library.json: licence: missing",
		`{"sources": ["none/*.c"], "licence": "MIT"}`:       `nothing matches "none/*.c"`,
		`{"sources": ["../out.c"], "licence": "MIT"}`:       `nothing matches "../out.c"`,
		`{"sources": ["src/n.txt"], "licence": "MIT"}`:      "is none of .c, .cpp, .S",
		`{"sources": ["src/a b.c"], "licence": "MIT"}`:      "is not a text that make and a shell take",
		`{"headers": ["inc"], "licence": "MIT"}`:            `no folder "inc"`,
		`{"headers": [".."], "licence": "MIT"}`:             `no folder ".."`,
		`{"flags": ["-DX=$(shell id)"], "licence": "MIT"}`:  "is not a text that make and a shell take",
		`{"cores": ["["], "sources": [], "licence": "MIT"}`: "library.json:1: cores[0]: \"[\" is not a valid pattern",
	} {
		dir := filepath.Join(t.TempDir(), "kiln")
		write(t, dir, File, text)
		write(t, filepath.Dir(dir), "out.c", "")
		for _, name := range []string{"src/a.c", "src/b.c", "src/a b.c", "src/n.txt", "include/k.h", "include/x.c"} {
			if name != "src/a b.c" || strings.Contains(text, name) {
				write(t, dir, name, "int kiln_fire(int a);\nint kiln_fire(int a) { return helper(a); }\n"+
					"int elsewhere(int a);\nint twice(void) {\n  elsewhere(1);\n}\n")
			}
		}
		l, err := Read(dir, "kiln")
		if want != "" {
			testkit.WantError(t, err, failure.Config, want)
			continue
		}
		must(t, err)
		if got := strings.Join(l.Resolved, " "); got != "src/a.c src/b.c" {
			t.Error(got)
		}
		if !l.HasHeader("k.h") || l.HasHeader("a.c") || !l.Mentions("kiln_fire") || l.Mentions("helper") ||
			l.Mentions("kiln") || !l.Mentions("kiln_fire(int)") || !l.Mentions("kiln::kiln_fire(int)") ||
			l.Mentions("elsewhere") {
			t.Error("the library has other headers and functions")
		}
		must(t, l.RunsOn("cortex-m3"))
	}
	dir := t.TempDir()
	write(t, dir, File, `{"licence": "MIT", "cores": ["cpu/cortex-m*"]}`)
	if l, err := Read(dir, "ab"); err != nil || l.RunsOn("cortex-m3") != nil || l.RunsOn("rv32") == nil {
		t.Errorf("cores as in inherits: %v", err)
	}
	_, err := Read(dir, "a-b")
	testkit.WantError(t, err, "", "name consists of", "rename the folder")
	write(t, dir, "kernels.a", "!<arch>\n")
	write(t, dir, File, `{"licence": "MIT", "sources": ["kernels.a"]}`)
	_, err = Read(dir, "ab")
	testkit.WantError(t, err, failure.Config, "none of .c")
	_, err = Read(filepath.Join(dir, "kernels.a"), "ab")
	testkit.WantError(t, err, "", "objects of the model")
	if _, err := Read(filepath.Join(dir, "none"), "none"); failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Error(err)
	}
}

// TestCheck: static and weak symbols may occur in several libraries, and in them and an object, others may not. A weak
// symbol of an object may not be the one that is linked.
func TestCheck(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "cc")
	dir := t.TempDir()
	archive := func(name, text string) string {
		source := write(t, dir, name+"_with_a_name_of_more_than_sixteen_bytes.c", text)
		object, file := strings.TrimSuffix(source, ".c")+".o", filepath.Join(dir, name+".a")
		for _, args := range [][]string{{"cc", "-c", "-o", object, source}, {"ar", "rcsD", file, object}} {
			testkit.Output(t, exec.Command(args[0], args[1:]...))
		}
		return file
	}
	a := archive("a", "int f(void); static int s; "+
		"__attribute__((weak)) int w(void) { return s; } int f(void) { return 1; }")
	b := archive("b", "int f(void); static int s; __attribute__((weak)) int w(void) { return s + f(); }")
	c := archive("c", "int f(void); int f(void) { return 2; }")
	if err := (Link{Archives: map[string]string{"a": a, "b": b}}).Check(); err != nil {
		t.Error(err)
	}
	err := (Link{Archives: map[string]string{"a": a, "b": b, "c": c}}).Check()
	if err == nil || err.Error() != "library a and library c both define f" || failure.Of(err) != failure.Link {
		t.Error(err)
	}
	objects := map[string]Object{}
	archive("w", "int f(void); __attribute__((weak)) int f(void) { return 3; }")
	for _, name := range []string{"a", "b", "c", "w"} {
		file := filepath.Join(dir, name+"_with_a_name_of_more_than_sixteen_bytes.o")
		objects[name] = Object{Name: name + ".o", Data: testkit.ReadFile(t, file)}
	}
	if err := (Link{Archives: map[string]string{"a": a}, Objects: []Object{objects["b"]}}).Check(); err != nil {
		t.Error(err)
	}
	err = (Link{Archives: map[string]string{"a": a}, Objects: []Object{objects["c"]}}).Check()
	if err == nil || err.Error() != "c.o and library a both define f" || failure.Of(err) != failure.Link {
		t.Error(err)
	}
	w := Link{Archives: map[string]string{"c": c}, Objects: []Object{objects["w"]}}
	taken := false
	w.Taken = func(library, member string) bool {
		return taken && library == "c" && member == "c_with_a_name_of_more_than_sixteen_bytes.o"
	}
	if err := w.Check(); err == nil || failure.Of(err) != failure.Link ||
		err.Error() != "library c defines f, but the weak definition in w.o is linked" {
		t.Error(err)
	}
	taken = true
	if err := w.Check(); err != nil {
		t.Errorf("a weak definition was replaced: %v", err)
	}
	const lto = "char __gnu_lto_slim; "
	twice := map[string]string{"d": archive("d", lto), "e": archive("e", lto)}
	must(t, (Link{Archives: twice}).Check())
	data := string(testkit.ReadFile(t, a))
	for n := 0; n < len(data); n += 41 {
		testkit.WriteFile(t, c, data[:n])
		_ = (Link{Archives: map[string]string{"c": c}}).Check() // must not panic
	}
	testkit.WriteFile(t, c, data[:len(data)/2])
	if err := (Link{Archives: map[string]string{"c": c}}).Check(); failure.Of(err) != failure.Link {
		t.Errorf("of half an archive: %v", err)
	}
}
