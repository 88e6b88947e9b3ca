package templates_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// TestRuntimeAlone builds the program of examples/crt-alone in a folder of its own, with make and with CMake, and has
// it add.
func TestRuntimeAlone(t *testing.T) {
	t.Parallel()
	crt, err := filepath.Abs("../crt")
	if err != nil {
		t.Fatal(err)
	}
	model := t.TempDir()
	runHere(t, "", "tar", "xzf", "../internal/testdata/archives/add.aot_packed.tar.gz", "-C", model)
	var want strings.Builder
	for i := range 64 {
		fmt.Fprintf(&want, "%d ", int8(3*i))
	}
	builds := map[string][][]string{
		"make":  {{"make", "MODEL=" + model, "CRT=" + crt}},
		"cmake": {{"cmake", "-DMODEL=" + model, "-DCRT=" + crt, "."}, {"cmake", "--build", "."}},
	}
	for _, name := range drawn.Of(t, "builds of the runtime", []string{"make", "cmake"}, 1) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("../examples/crt-alone")); err != nil {
				t.Fatal(err)
			}
			without := map[string]string{"make": "MODEL=none", "cmake": "-DMODEL=none"}[name]
			cmd := exec.Command(name, append(slices.Clone(builds[name][0][1:]), without)...) // the last one counts
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if words := strings.Join(strings.Fields(string(out)), " "); err == nil ||
				!strings.Contains(words, "is not an unpacked archive") {
				t.Errorf("without a model: %v\n%s", err, out)
			}
			for _, argv := range builds[name] {
				runHere(t, dir, argv...)
			}
			if got := runHere(t, dir, filepath.Join(dir, "alone")); strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
				t.Errorf("the program printed %s", got)
			}
		})
	}
}

// TestPkgConfig builds the same program with the library of the runtime and the flags of pkg-config.
func TestPkgConfig(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"pkg-config", "make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/crt-alone")); err != nil {
		t.Fatal(err)
	}
	runHere(t, "", "tar", "xzf", "../internal/testdata/archives/add.aot_packed.tar.gz", "-C", dir)
	runHere(t, "", "make", "-C", "../crt", "CRT_CONFIG="+dir, "BUILD="+filepath.Join(dir, "build"))
	runHere(t, dir, "sh", "-c", `cc -o alone main.c codegen/host/src/*.c -Icodegen/host/include `+
		`$(PKG_CONFIG_PATH=build pkg-config --cflags --libs boardsmith_crt) -lm`)
	if got := runHere(t, dir, filepath.Join(dir, "alone")); !strings.HasPrefix(got, "0 3 6 9 ") {
		t.Errorf("the program printed %s", got)
	}
}

// runHere runs a program in a folder, and returns what it printed.
func runHere(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	if cmd.Err != nil {
		t.Skipf("%s is not installed", argv[0])
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}
