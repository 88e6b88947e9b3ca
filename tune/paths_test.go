//go:build linux

package tune_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
)

// TestRelativePathsSurviveChdir opens runs with relative paths of a board, a template and libraries, and changes the
// working folder before candidates are built.
func TestRelativePathsSurviveChdir(t *testing.T) {
	onOneOf(t, "relative paths", []string{"host", "mps2_an385"}, func(t *testing.T, from string) {
		elsewhere, home, root := t.TempDir(), t.TempDir()+"/by a link", testkit.Root(t)
		must(t, os.Symlink(t.TempDir(), home))
		t.Chdir(home)
		board := readFile(t, filepath.Join(root, "boards", from+".json"))
		writeFile(t, "own boards/boards/mine.json", string(board))
		must(t, os.CopyFS("own/baremetal/templates/baremetal", os.DirFS(root+"/templates/baremetal")))
		writeFile(t, "own/two/library.json", `{"doc": "2", "headers": ["."], "sources": ["two.c"], "licence": "0BSD"}`)
		writeFile(t, "own/two/two.h", "int two(void);\n")
		writeFile(t, "own/two/two.c", "#include \"two.h\"\nint two(void) { return 2; }\n")
		builder := &project.Builder{Host: device.Host{Cache: cache.New("the cache", cache.Options{})}}
		desk := &device.Desk{StateDir: "state", LeaseDir: "leases"}
		o := tune.Options{Builder: builder, Template: "own/baremetal/templates/baremetal", Libraries: []string{"own/two"}}

		r, err := tune.OpenRun(t.Context(), "runs/one of them", desk, []string{"own boards/boards/mine.json"}, o)
		must(t, err)
		t.Cleanup(func() { must(t, r.Close()) })
		t.Chdir(elsewhere)
		c := operator("twice", "for (int i = 0; i < 4; i++) out[i] = in[i] * two();")
		c.Operators.Files[0].Data = append([]byte("#include <two.h>\n"), c.Operators.Files[0].Data...)
		wantFailure(t, measured(t, r, c), "")
		confirm(t, r, 1)
		must(t, r.Close())

		_, again, err := tune.Reproduce(t.Context(), home+"/runs/one of them", "twice@flash", desk, "",
			tune.Options{Builder: builder})
		must(t, err)
		wantFailure(t, again, "")
		if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
			t.Errorf("files in the other working folder: %v, %v", left, err)
		}
	})
}
