package templates_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// copyRuntime returns a copy of crt/ for a stranger's program, in a folder of that name.
func copyRuntime(t *testing.T, name string) string {
	t.Helper()
	crt := filepath.Join(t.TempDir(), name)
	for _, folder := range []string{"include", "src"} {
		must(t, os.CopyFS(filepath.Join(crt, folder), os.DirFS("../crt/"+folder)))
	}
	for _, file := range []string{"CMakeLists.txt", "Makefile", "boardsmith_crt-config.cmake"} {
		testkit.WriteFile(t, filepath.Join(crt, file), readText(t, "../crt/"+file))
	}
	return crt
}

// TestRuntimeAlone builds the program of examples/crt-alone in a folder of its own, with make and with CMake, which
// takes the runtime as a subfolder or as a package, and has it add. make's names of files have no spaces.
func TestRuntimeAlone(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for i := range 64 {
		fmt.Fprintf(&want, "%d ", int8(3*i))
	}
	for _, way := range drawn.Of(t, "builds of the runtime", []string{"make", "subfolder", "package"}, 1) {
		t.Run(way, func(t *testing.T) {
			program, crt, model, separator := "make", "crt", "model", ""
			if way != "make" {
				program, crt, model, separator = "cmake", "the crt", "a model", "-D"
			}
			crt, model = copyRuntime(t, crt), filepath.Join(t.TempDir(), model)
			runHere(t, "", "mkdir", model)
			runHere(t, "", "tar", "xzf", "../internal/testdata/archives/add.aot_packed.tar.gz", "-C", model)
			dir := filepath.Join(t.TempDir(), "my program")
			must(t, os.CopyFS(dir, os.DirFS("../examples/crt-alone")))
			if way == "package" {
				runHere(t, dir, "sed", "-i", `s/^add_subdirectory(.*/find_package(boardsmith_crt REQUIRED PATHS "${CRT}")/`,
					"CMakeLists.txt")
			}
			argv := []string{program, separator + "CRT=" + crt}
			if program == "cmake" {
				argv = append(argv, ".")
			}
			failsHere(t, dir, "is not an unpacked archive", append(slices.Clone(argv), separator+"MODEL=none")...)
			if program == "make" {
				failsHere(t, dir, "make takes a folder without spaces", append(slices.Clone(argv), "MODEL=a model")...)
			}
			argv = append(argv, separator+"MODEL="+model)
			if program == "cmake" {
				runHere(t, dir, "mv", "crt_config.h", "other.h")
				failsHere(t, dir, "is not the folder with your crt_config.h", argv...)
				runHere(t, dir, "mv", "other.h", "crt_config.h")
			}
			runHere(t, dir, argv...)
			if program == "cmake" {
				runHere(t, dir, "cmake", "--build", ".")
			}
			got := runHere(t, dir, filepath.Join(dir, "alone"))
			testkit.Equal(t, way, strings.TrimSpace(got), strings.TrimSpace(want.String()))
		})
	}
}

// TestPkgConfig builds the same program with the library of the runtime and the flags of pkg-config, from folders with
// a space.
func TestPkgConfig(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "pkg-config")
	crt, dir := copyRuntime(t, "the crt"), filepath.Join(t.TempDir(), "my program")
	must(t, os.CopyFS(dir, os.DirFS("../examples/crt-alone")))
	runHere(t, "", "tar", "xzf", "../internal/testdata/archives/add.aot_packed.tar.gz", "-C", dir)
	argv := []string{"make", "-C", crt, "CRT_CONFIG=" + dir}
	spaced := append(slices.Clone(argv), "BUILD="+filepath.Join(dir, "build"))
	failsHere(t, dir, "choose a folder without spaces", spaced...)
	runHere(t, dir, argv...)
	runHere(t, dir, "sh", "-c", `eval cc -o alone main.c codegen/host/src/*.c -Icodegen/host/include `+
		`$(PKG_CONFIG_PATH='`+filepath.Join(crt, "build")+`' pkg-config --cflags --libs boardsmith_crt) -lm`)
	if got := runHere(t, dir, filepath.Join(dir, "alone")); !strings.HasPrefix(got, "0 3 6 9 ") {
		t.Errorf("the program printed %s", got)
	}
}

// inFolder is a run of a program in a folder. It skips the test if the program is not installed.
func inFolder(t *testing.T, dir string, argv []string) *exec.Cmd {
	t.Helper()
	testkit.Need(t, argv[0])
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	return cmd
}

// runHere runs a program in a folder, and returns what it printed.
func runHere(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	return testkit.Output(t, inFolder(t, dir, argv))
}

// failsHere runs a program in a folder, which must fail and print a text, between whatever spaces.
func failsHere(t *testing.T, dir, text string, argv ...string) {
	t.Helper()
	out, err := inFolder(t, dir, argv).CombinedOutput()
	if words := strings.Join(strings.Fields(string(out)), " "); err == nil || !strings.Contains(words, text) {
		t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}
