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
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/search"
	"github.com/boardsmith/boardsmith/tune/space"
)

// linkedFolder returns a symbolic link to a new folder, with a space in its name.
func linkedFolder(t *testing.T) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "by a link")
	must(t, os.Symlink(t.TempDir(), link))
	return link
}

// write writes a file with its folders.
func write(t *testing.T, name, text string) {
	t.Helper()
	writeFile(t, name, text)
}

// pathsSpace is a kernel with one knob, and an argument in a file.
const pathsSpace = `{
  "entry": "twice",
  "kernel": ["kernel.c"],
  "knobs": [{"name": "STEP", "define": [1, 2]}],
  "args": [
    {"dtype": "int32", "shape": [4], "data": {"file": "in.npz", "array": "in"}},
    {"dtype": "int32", "shape": [4]}
  ]
}`

// TestRelativePathsSurviveChdir opens runs with relative paths of a board, a template and libraries, and changes the
// working folder before candidates are built.
func TestRelativePathsSurviveChdir(t *testing.T) {
	for _, from := range drawn.Of(t, "relative paths", []string{"host", "mps2_an385"}, 1) {
		t.Run(from, func(t *testing.T) {
			elsewhere, home, root := t.TempDir(), linkedFolder(t), testkit.Root(t)
			t.Chdir(home)
			board := readFile(t, filepath.Join(root, "boards", from+".json"))
			write(t, "own boards/boards/mine.json", string(board))
			must(t, os.CopyFS("own/baremetal/templates/baremetal", os.DirFS(filepath.Join(root, "templates", "baremetal"))))
			write(t, "own/two/library.json", `{"doc": "2", "headers": ["."], "sources": ["two.c"], "licence": "0BSD"}`)
			write(t, "own/two/two.h", "int two(void);\n")
			write(t, "own/two/two.c", "#include \"two.h\"\nint two(void) { return 2; }\n")
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
			if result.Failure != nil || result.Tier != tune.RAM {
				t.Fatalf("%+v, %+v", result, result.Failure)
			}
			confirmed, err := r.Confirm(t.Context(), 1)
			must(t, err)
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

// TestRelativeSpaceSurvivesChdir changes the working folder between reading a space and searching it.
func TestRelativeSpaceSurvivesChdir(t *testing.T) {
	elsewhere := t.TempDir()
	t.Chdir(linkedFolder(t))
	write(t, "a space/space.json", pathsSpace)
	c := operator("", "for (int i = 0; i < 4; i += STEP) for (int j = i; j < i + STEP; j++) out[j] = in[j] * 2;")
	write(t, "a space/kernel.c", string(c.Operators.Files[0].Data))
	in, err := ndarray.New(c.Args[0].DType, 4)
	must(t, err)
	must(t, ndarray.WriteNPZ("a space/in.npz", []ndarray.Named{{Name: "in", Array: in}}))
	s, err := space.Read("a space/space.json")
	must(t, err)
	r, err := tune.OpenRun(t.Context(), "a run", &device.Desk{}, []string{"host"}, tune.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	t.Chdir(elsewhere)
	for trial, err := range search.Measure(t.Context(), r, s, s.Grid(), 2) {
		must(t, err)
		if trial.Result.Failure != nil {
			t.Errorf("%+v", trial.Result.Failure)
		}
	}
}
