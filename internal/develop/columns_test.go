package develop

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/console"
)

func TestTooLong(t *testing.T) {
	long, most := strings.Repeat("ä", 121), strings.Repeat("ä", 120)
	for _, c := range []struct {
		name, text string
		want       []int
	}{
		{"a.c", most + "\n" + long + "\r\n" + long, []int{2, 3}},
		{"a.c", "// https://example.org/" + long + "\n| " + long + "\n", []int{2}},
		{"a.go", "package a\n// " + long + "\nconst b = \"" + long + "\"\n", []int{2, 3}},
		{
			"a.go", "package a\nconst b = `" + long + "` // `\nconst c = `\n" + long + "\n" + long + "`\n// " + long + "\n",
			[]int{6},
		},
		{"a.go", "package a\nconst b = `" + long + "` + \"" + most + "\"\n", []int{2}},
		{"a.md", "| " + long + " |\n```\n" + long + "\n```\n" + long + "\n", []int{5}},
	} {
		if got := tooLong(c.name, c.text); !slices.Equal(got, c.want) {
			t.Errorf("tooLong(%s, %.20q…) = %v, want %v", c.name, c.text, got, c.want)
		}
	}
}

// TestLongLines checks which files of a folder are checked.
func TestLongLines(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 121) + "\n"
	for _, name := range []string{
		"Makefile", "a/b.c", "a/d.go", "a/testdata/c.h", // checked
		"a/testdata/d.json", "a/build/e.c", ".git/f.c", "docs/report/README.md", "docs/boards-x-archives.md", "g.bin",
	} {
		writeFile(t, filepath.Join(dir, name), long)
	}
	r := &repository{&console.Console{Dir: dir}}
	found, err := r.longLines(t.Context())
	if want := "Makefile:1\na/b.c:1\na/d.go:1\na/testdata/c.h:1\n"; found != want || err == nil {
		t.Errorf("found %q, %v; want %q and an error", found, err, want)
	}
}
