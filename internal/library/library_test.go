package library

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
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
			if err == nil || !strings.Contains(err.Error(), want) || failure.Of(err) != failure.Config {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.Resolved, " "); got != "src/a.c src/b.c" {
			t.Error(got)
		}
		if !l.HasHeader("k.h") || l.HasHeader("a.c") || !l.Mentions("kiln_fire") || l.Mentions("helper") ||
			l.Mentions("kiln") || !l.Mentions("kiln_fire(int)") || !l.Mentions("kiln::kiln_fire(int)") ||
			l.Mentions("elsewhere") {
			t.Error("the library has other headers and functions")
		}
		if err := l.RunsOn("cortex-m3"); err != nil {
			t.Error(err)
		}
	}
	dir := t.TempDir()
	write(t, dir, File, `{"licence": "MIT", "cores": ["cpu/cortex-m*"]}`)
	if l, err := Read(dir, "ab"); err != nil || l.RunsOn("cortex-m3") != nil || l.RunsOn("rv32") == nil {
		t.Errorf("cores as in inherits: %v", err)
	}
	if _, err := Read(dir, "a-b"); err == nil || !strings.Contains(err.Error(), "name consists of") ||
		!strings.Contains(failure.Next(err), "rename the folder") {
		t.Error(err)
	}
	write(t, dir, "kernels.a", "!<arch>\n")
	write(t, dir, File, `{"licence": "MIT", "sources": ["kernels.a"]}`)
	if _, err := Read(dir, "ab"); failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "none of .c") {
		t.Errorf("compiled: %v", err)
	}
	_, err := Read(filepath.Join(dir, "kernels.a"), "ab")
	if !strings.Contains(failure.Next(err), "objects of the model") {
		t.Errorf("compiled: %v: %s", err, failure.Next(err))
	}
	if _, err := Read(filepath.Join(dir, "none"), "none"); failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Error(err)
	}
}

// TestCheck: static and weak symbols may occur in several libraries, and in them and an object, others may not. A weak
// symbol of an object may not be the one that is linked.
func TestCheck(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("cc is not installed")
	}
	dir := t.TempDir()
	archive := func(name, text string) string {
		source := write(t, dir, name+"_with_a_name_of_more_than_sixteen_bytes.c", text)
		object, file := strings.TrimSuffix(source, ".c")+".o", filepath.Join(dir, name+".a")
		for _, args := range [][]string{{"cc", "-c", "-o", object, source}, {"ar", "rcsD", file, object}} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", args, err, out)
			}
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
		data, err := os.ReadFile(filepath.Join(dir, name+"_with_a_name_of_more_than_sixteen_bytes.o"))
		if err != nil {
			t.Fatal(err)
		}
		objects[name] = Object{Name: name + ".o", Data: data}
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
	if err := (Link{Archives: twice}).Check(); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(data); n += 41 {
		if err := os.WriteFile(c, data[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		_ = (Link{Archives: map[string]string{"c": c}}).Check() // must not panic
	}
	if err := os.WriteFile(c, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Link{Archives: map[string]string{"c": c}}).Check(); failure.Of(err) != failure.Link {
		t.Errorf("of half an archive: %v", err)
	}
}
