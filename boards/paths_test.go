package boards

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestRelativeFolders finds a board by a relative path and in a relative folder: its files are found from every working
// folder, while messages name the file as the user does.
func TestRelativeFolders(t *testing.T) {
	home := filepath.Join(t.TempDir(), "by a link")
	must(t, os.Symlink(t.TempDir(), home))
	t.Chdir(home)
	const text = `{"inherits": "chip/mps2_an385", "arena_kib": 64, "stack_bytes": 4096, "templates": ["baremetal"],
		"sources": ["a.c"], "include": ["."],
		"libraries": ["./two"], "post_link": ["{board}/sign", "{elf}", "{out.bin}"],
		"link": {"kind": "qemu", "program": "q", "install": "q", "args": ["{board}/q.cfg"]}, "flash": {"programmer": "none"}}`
	testkit.WriteFile(t, "my own/boards/mine.json", text)
	want := filepath.Join(home, "my own", "boards")
	for _, name := range []string{"mine", "my own/boards/mine.json", "./my own/boards/mine"} {
		b, err := Find(name, []string{"my own"})
		must(t, err)
		dirs := []string{
			b.Dir, b.Sources[len(b.Sources)-1].Dir, b.Include[0].Dir, b.Libraries[0].Dir, b.PostLink.Dir, b.Link.Dir,
		}
		testkit.Equal(t, name, dirs, slices.Repeat([]string{want}, len(dirs)))
		testkit.Equal(t, name, b.Files[len(b.Files)-1], filepath.FromSlash("my own/boards/mine.json"))
	}
	for name, absolute := range map[string]string{
		"mine": "", "zephyr/any": "", "": "", "my own/boards/mine.json": filepath.Join(want, "mine.json"),
		"mine.json": filepath.Join(home, "mine.json"),
	} {
		_, got := Locate(name, []string{"my own"})
		testkit.Equal(t, name, got, absolute)
	}
}
