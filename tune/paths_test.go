//go:build linux

package tune_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
)

// TestRelativePathsSurviveChdir opens runs with relative paths of a board, a template and libraries, and changes the
// working folder before candidates are built.
func TestRelativePathsSurviveChdir(t *testing.T) {
	for _, from := range drawn.Of(t, "relative paths", []string{"host", "mps2_an385"}, 1) {
		t.Run(from, func(t *testing.T) {
			elsewhere, home, root := t.TempDir(), filepath.Join(t.TempDir(), "by a link"), testkit.Root(t)
			must(t, os.Symlink(t.TempDir(), home))
			t.Chdir(home)
			board := readFile(t, filepath.Join(root, "boards", from+".json"))
			writeFile(t, "own boards/boards/mine.json", string(board))
			must(t, os.CopyFS("own/baremetal/templates/baremetal", os.DirFS(filepath.Join(root, "templates", "baremetal"))))
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
			result := measured(t, r, c)
			wantFailure(t, result, "")
			confirmed := confirm(t, r, 1)
			if len(confirmed) != 1 || confirmed[0].Failure != nil {
				t.Fatalf("%+v, %+v", confirmed, confirmed[0].Failure)
			}
			must(t, r.Close())

			_, again, err := tune.Reproduce(t.Context(), filepath.Join(home, "runs/one of them"), "twice@flash", desk, "",
				tune.Options{Builder: builder})
			must(t, err)
			if again.Failure != nil {
				t.Errorf("%+v", again.Failure)
			}
			if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
				t.Errorf("files in the other working folder: %v, %v", left, err)
			}
		})
	}
}
