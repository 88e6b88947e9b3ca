package fit

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// inclusionsOf is the top of a map of GNU ld 2.40: malloc, called by a model, needs the system call sbrk.
const inclusionsOf = `Archive member included to satisfy reference by file (symbol)

lib.a(a.o)                    (--whole-archive)
short.a(b.o)                  build/a b/model.o (pow)
/usr/lib x/libc.a(lib_a-malloc.o)
                              build/a b/model.o (malloc)
/usr/lib x/libc.a(lib_a-mallocr.c.obj)
                              /usr/lib x/libc.a(lib_a-malloc.o) (_malloc_r)
/usr/lib x/libc.a(lib_a-sbrkr.o)
                              /usr/lib x/libc.a(lib_a-mallocr.c.obj) (_sbrk_r)

Discarded input sections

 .text          0x0        0x4 c.a(z.o) (no)
`

// TestLinked lists what the linker took: not the members in other lists, nor shared libraries.
func TestLinked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.map")
	spaced := strings.Repeat("d", inclusionColumn-1) + " e/l.a(m.o)"
	thin := "\n\ns/f.o                         short.a(b.o) (f)\n" + spaced + "\n                              s/f.o (g)\n"
	testkit.WriteFile(t, file, strings.Replace(inclusionsOf, "\n\n", thin, 1)+
		"Allocating common symbols\ncommon  0x4  c.a(z.o)\n\nLinker script and memory map\n\n"+
		"LOAD build/a b/model.o\nSTART GROUP\nLOAD lib.a\nLOAD x/y.c.obj\nLOAD /lib/libc.so.6\nEND GROUP\n")
	objects, members, err := Linked(file)
	testkit.Must(t, err)
	testkit.Equal(t, "objects", strings.Join(objects, ", "), "s/f.o, build/a b/model.o, x/y.c.obj")
	if got := strings.Join(members, ", "); got != spaced+", lib.a(a.o), short.a(b.o), /usr/lib x/libc.a(lib_a-malloc.o), "+
		"/usr/lib x/libc.a(lib_a-mallocr.c.obj), /usr/lib x/libc.a(lib_a-sbrkr.o)" {
		t.Error(got)
	}
	testkit.WriteFile(t, file, "no map")
	for _, name := range []string{file, file + "x"} {
		_, _, err := Linked(name)
		testkit.WantError(t, err, failure.Config)
	}
}

// TestCaller names the object of the build that causes a library's function to be linked, and what it calls.
func TestCaller(t *testing.T) {
	all, err := Inclusions(strings.NewReader(inclusionsOf))
	if err != nil || len(all) != 4 {
		t.Fatalf("%q, %v", all, err)
	}
	circle := []Inclusion{{"a(a.o)", "a(b.o)", "f"}, {"a(b.o)", "a(a.o)", "g"}}
	for _, c := range []struct {
		in             []Inclusion
		function       string
		object, called string
	}{
		{all, "_sbrk_r", "build/a b/model.o", "malloc"},
		{all, "malloc", "build/a b/model.o", "malloc"},
		{all, "free", "", ""},
		{nil, "malloc", "", ""},
		{circle, "f", "", ""},
		{slices.Concat(all, []Inclusion{{"x(y.o)", "gone(z.o)", "h"}}), "h", "", ""},
	} {
		if object, called := Caller(c.in, c.function); object != c.object || called != c.called {
			t.Errorf("%s: %q calls %q, want %q and %q", c.function, object, called, c.object, c.called)
		}
	}
}
