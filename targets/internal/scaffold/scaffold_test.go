package scaffold

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/templates"
)

// TestBoardOfEveryBoard makes a board from each shipped one: it loads, and differs in name and doc only.
func TestBoardOfEveryBoard(t *testing.T) {
	folder := t.TempDir()
	for _, from := range boards.List(nil) {
		if strings.Contains(from, "/") {
			_, err := Board(folder, "x", from, nil)
			testkit.WantError(t, err, failure.Config)
			continue
		}
		files, err := Board(folder, "new_"+from, from, nil)
		if err != nil || len(files) != 1 {
			t.Errorf("%s: %v, %v", from, files, err)
			continue
		}
		copied, err := boards.Find(files[0], nil)
		testkit.Must(t, err)
		old, err := boards.Find(from, nil)
		testkit.Must(t, err)
		testkit.Equal(t, "doc", copied.Doc, "new_"+from+", from "+from)
		if copied.Link.Kind != old.Link.Kind || len(copied.Sources) != len(old.Sources) || copied.ArenaKiB != old.ArenaKiB ||
			len(copied.Memory) != len(old.Memory) {
			t.Errorf("%s: %+v differs from %+v", from, copied, old)
		}
	}
}

// TestBoardWithSources copies the sources that lie beside the board file, and overwrites nothing.
func TestBoardWithSources(t *testing.T) {
	shelf := boardstest.Shelf(t, map[string]string{
		"mine.json": `{"inherits": "cpu/native", "templates": ["baremetal"], "sources": ["port/process.c", "own/a.c"],
			"link": {"kind": "process"}, "flash": {"programmer": "none"}}`,
		"own/a.c": "int a;\n",
	})
	folder := t.TempDir()
	files, err := Board(folder, "yours", "mine", []string{shelf})
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	testkit.Equal(t, "a.c", string(testkit.ReadFile(t, filepath.Join(folder, "boards", "own", "a.c"))), "int a;\n")
	b, err := boards.Find(files[0], nil)
	testkit.Must(t, err)
	testkit.Equal(t, "doc", b.Doc, "yours, from mine")
	testkit.WriteFile(t, files[1], "int b;\n")
	if _, err := Board(folder, "third", "mine", []string{shelf}); failure.Of(err) != failure.Config {
		t.Errorf("a file that is there: %v", err)
	}
	for _, name := range []string{"", "../x", "a b", "x.json", "mine"} {
		if _, err := Board(folder, name, "mine", []string{shelf}); failure.Of(err) != failure.Config {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

// TestBoardWithOwnFiles: the copy has all files that the board names, and loads without the original.
func TestBoardWithOwnFiles(t *testing.T) {
	shelf := boardstest.Shelf(t, map[string]string{
		"mine.json": `{"inherits": "chip/mps2_an386", "arena_kib": 64, "linker_script": "own/a.ld", "startup": "own/s.S",
			"include": ["inc"], "libraries": ["./dsp", "named"], "sources": ["own/a.c"],
			"post_link": ["{board}/sign", "{bin}", "{out.bin}"], "flash": {"programmer": "none"},
			"link": {"kind": "qemu", "program": "q", "args": ["file={board}/boot.hex,addr=0"]}}`,
		"own/a.c": "", "own/a.ld": "", "own/s.S": "", "inc/deep/a.h": "", "inc/a.txt": "", "dsp/library.json": "",
		"dsp/x.c": "", "sign": "", "boot.hex": "", "other.c": "",
	})
	testkit.Must(t, os.Chmod(filepath.Join(shelf, "boards", "sign"), 0o755))
	if err := os.Symlink("deep/a.h", filepath.Join(shelf, "boards", "inc", "link.h")); err != nil {
		t.Skip(err)
	}
	files, err := Board(t.TempDir(), "yours", "mine", []string{shelf})
	testkit.Must(t, err)
	if info, err := os.Stat(filepath.Join(filepath.Dir(files[0]), "sign")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the copy of a program is none: %v", err)
	}
	for i, name := range []string{
		"yours.json", "own/a.c", "own/a.ld", "own/s.S", "sign", "boot.hex", "inc/deep/a.h", "inc/link.h",
		"dsp/library.json", "dsp/x.c",
	} {
		if i >= len(files) || !strings.HasSuffix(filepath.ToSlash(files[i]), "/boards/"+name) {
			t.Errorf("no %s in %q", name, files)
		}
	}
	testkit.Equal(t, "files", len(files), 10)
}

// TestTemplate copies a template, byte for byte, to an empty folder only, with a board that builds with it.
func TestTemplate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "mine")
	template, board, err := Template(folder, "baremetal")
	if err != nil || template != "mine" {
		t.Fatal(template, err)
	}
	n := 0
	err = fs.WalkDir(templates.FS, "baremetal", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		want, err := fs.ReadFile(templates.FS, name)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(folder, "templates", "mine", strings.TrimPrefix(name, "baremetal/")))
		testkit.Equal(t, name, string(got), string(want))
		return err
	})
	if err != nil || n < 5 {
		t.Errorf("%d files, %v", n, err)
	}
	if b, err := boards.Find(board, []string{folder}); err != nil || len(b.Templates) != 1 || b.Templates[0] != "mine" {
		t.Errorf("%+v, %v", b, err)
	}
	_, _, err = Template(folder, "baremetal")
	testkit.WantError(t, err, failure.Config)
	for _, from := range []string{"", "firmware", "..", "baremetal/port"} {
		_, _, err := Template(t.TempDir(), from)
		testkit.WantError(t, err, failure.Config)
	}
	_, _, err = Template(filepath.Join(t.TempDir(), "a b"), "baremetal")
	testkit.WantError(t, err, failure.Config)
}
