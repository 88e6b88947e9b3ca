package projectapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cp "github.com/otiai10/copy"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// uses are the functions of testdata/interop/interop.py, and the example.
var uses = []string{
	"session", "archive", "tensors", "time_evaluator", "reset", "host_graph_executor", "device_graph_executor",
	oursAlone, "aot_executor", "usmp_constant_pool", "tvmc", "autotvm_conv2d", "example",
}

// oursAlone is a use with which TVM's template does not fail but waits without end.
const oursAlone = "device_graph_long"

// example is the user's script that TestInterop runs, too.
const example = "../../examples/tvm-python/run.py"

// TestInterop uses exported templates from an unmodified TVM, and TVM's own template where it has one for the same
// device. It writes the time of each use to build/report/tvm.md. A use that fails with TVM's own template is not our
// failure.
func TestInterop(t *testing.T) {
	tvm := tvmFor(t)
	if !drawn.InFull() {
		t.Skip("takes minutes; run by full tests")
	}
	server := executable(t)
	export := func(board, template string) string {
		dir := t.TempDir() + "/template"
		must(t, (Export{Board: board, Template: template, Executable: server}).Write(dir))
		return dir
	}
	for _, board := range boards.List(nil) {
		b, err := boards.Find(board, nil)
		must(t, err)
		if board != "host" && b.Link.Kind != "qemu" {
			continue
		}
		t.Run(board, func(t *testing.T) {
			needTools(t, board)
			if b.Flash.Programmer != "none" {
				keepertest.Use(t)
				defer func() { // its processes would outlive the test
					d := &device.Desk{Probes: emulated.Probes(), StateDir: tvm.home + "/state"}
					_, err := d.StopEmulated(context.Background(), b)
					must(t, err)
				}()
			}
			dir := export(board, "")
			for _, use := range usesOf(board) {
				t.Run(use, func(t *testing.T) {
					tvm.use(t, use, "ours", board, dir)
					if board == "host" && use != oursAlone {
						tvm.use(t, use, "TVM's", "", tvm.built+"/microtvm_template_projects/crt")
					}
				})
			}
			if board == "host" {
				t.Run("metaschedule", func(t *testing.T) { tvm.metaSchedule(t, dir) })
				t.Run("test_crt_aot", tvm.aotTests)
			}
		})
	}
	t.Run("zephyr", func(t *testing.T) {
		if os.Getenv("ZEPHYR_BASE") == "" {
			t.Skip("ZEPHYR_BASE names no Zephyr")
		}
		dir := export("zephyr/mps2_an521", "")
		for _, use := range uses {
			t.Run(use, func(t *testing.T) { tvm.use(t, use, "ours", "zephyr/mps2_an521", dir) })
		}
	})
	if !t.Failed() {
		writeFile(t, "../../build/report/tvm.md", "# Templates under TVM's own Python\n\n"+
			"Each use is one run of Python, with TVM's imports, its compiler and its search. Times are seconds of wall time,\n"+
			"then those of all processors.\n\n"+
			"| use | board | template | time |\n|---|---|---|---|\n"+strings.Join(measuredUses, ""))
	}
}

// measuredUses are the rows of the table of TestInterop.
var measuredUses []string

// A tvmPython is a Python that has TVM with its compiler, from a source tree.
type tvmPython struct {
	python string // the interpreter itself
	source string // the tree
	built  string // has the library and TVM's templates
	home   string // BOARDSMITH_HOME of what it runs
}

// whereTVM prints the fields of a tvmPython.
const whereTVM = `import os, sys, tvm, pytest
print(sys.executable)
print(os.path.realpath(os.path.join(os.path.dirname(tvm.__file__), "..", "..")))
print(tvm._ffi.libinfo.find_lib_path()[0])`

// tvmFor returns what the variable names, and skips the test if it names none.
func tvmFor(t *testing.T) tvmPython {
	t.Helper()
	python := os.Getenv(tvmVariable)
	if python == "" {
		t.Skip(tvmVariable + " names no Python that has TVM with its micro part")
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", whereTVM).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) < 3 {
		t.Skipf("%s=%s has no TVM with pytest: %v", tvmVariable, python, err)
	}
	lines = lines[len(lines)-3:]
	lib := lines[2]
	if _, err := os.Stat(lines[1] + "/tests"); err != nil || filepath.Base(lib) != "libtvm.so" {
		t.Skipf("%s=%s has no compiler, or no tests beside it: %s, %v", tvmVariable, python, lib, err)
	}
	return tvmPython{python: lines[0], source: lines[1], built: filepath.Dir(lib), home: t.TempDir()}
}

// command returns a command with TVM's package. TVM looks for its library and its templates in the folder library.
func (p tvmPython) command(ctx context.Context, t *testing.T, library string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, p.python, append([]string{"-B"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), p.env(library)...)
	return cmd
}

// env returns what a Python with TVM needs, with a library folder.
func (p tvmPython) env(library string) []string {
	return []string{"PYTHONPATH=" + p.packages(), "TVM_LIBRARY_PATH=" + library, "BOARDSMITH_HOME=" + p.home}
}

// packages returns PYTHONPATH with the tree's packages, of which its tests are one.
func (p tvmPython) packages(more ...string) string {
	return strings.Join(append(more, p.source+"/python", p.source), string(os.PathListSeparator))
}

// use runs one use and logs how long it took.
func (p tvmPython) use(t *testing.T, use, whose, board, template string) {
	t.Helper()
	script, args := "testdata/interop/interop.py", []string{use, template, board}
	if use == "example" {
		script, args = example, []string{template, board}
	}
	script, err := filepath.Abs(script)
	must(t, err)
	p.run(t, measuredUse{use, whose, cmp.Or(board, "host")}, p.built, append([]string{script}, args...)...)
}

// usesOf returns what is tried on a board: of emulated ones, all on one, tensors on each, and tuning on one with flash.
func usesOf(board string) []string {
	var of []string
	switch board {
	case "host", "mps2_an385":
		of = slices.Clone(uses)
	case "microbit":
		of = []string{"tensors", "autotvm_conv2d"}
	default:
		return []string{"tensors"}
	}
	if drawn.InSoak() && board != "mps2_an385" {
		of[slices.Index(of, "autotvm_conv2d")] = "autotvm_conv2d_64"
	}
	return of
}

// A measuredUse is one row of the table.
type measuredUse struct{ use, whose, board string }

// run runs a Python script under testdata/interop/measured.py and adds a row to the table.
func (p tvmPython) run(t *testing.T, m measuredUse, library string, args ...string) {
	t.Helper()
	measured, err := filepath.Abs("testdata/interop/measured.py")
	must(t, err)
	ctx := testkit.Context(t)
	cmd := p.command(ctx, t, library, append([]string{measured, p.python, "-B"}, args...)...)
	cmd.WaitDelay = 10 * time.Second // what it started may keep the output open
	timed := filepath.Dir(measured) + "/timed"
	cmd.Env = append(cmd.Env, "INTEROP_TIMES="+cmd.Dir+"/times",
		"PYTHONPATH="+p.packages(timed))
	said, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	times, ok := strings.CutPrefix(lines[len(lines)-1], "measured ")
	result := strings.Join(strings.Fields(times), ", ")
	switch {
	case err == nil && ok:
	case m.whose == "ours":
		t.Fatalf("%s with our template on %s: %v\n%s", m.use, m.board, err, said)
	default:
		result = "fails"
		if len(lines) > 1 {
			t.Logf("TVM's template: %s", strings.Join(lines[max(0, len(lines)-4):], "\n"))
		}
	}
	for _, l := range lines {
		if note, ok := strings.CutPrefix(l, "note: "); ok {
			result += "; " + note
		}
	}
	slices.Reverse(lines)
	if _, wear, ok := strings.Cut(strings.Join(lines, "\n"), " wear: "); ok { // the last one
		wear, _, _ = strings.Cut(wear, "\n")
		result += "; " + wear
	}
	t.Logf("%s with %s template on %s: %s", m.use, m.whose, m.board, result)
	measuredUses = append(measuredUses, fmt.Sprintf("| %s | %s | %s | %s |\n", m.use, m.board, m.whose, result))
}

// metaSchedule runs TVM's own test of its micro runner, with our template and TVM's, and with a runner that answers at
// once.
func (p tvmPython) metaSchedule(t *testing.T, template string) {
	script, err := filepath.Abs("testdata/interop/instant.py")
	must(t, err)
	test := p.source + "/tests/python/unittest/test_micro_ms_tuning.py"
	pytest := []string{"-q", "-p", "no:cacheprovider", test}
	ours := p.libraryWith(t, template)
	p.run(t, measuredUse{"metaschedule", "ours", "host"}, ours, append([]string{"-m", "pytest"}, pytest...)...)
	p.run(t, measuredUse{"metaschedule_instant", "ours", "host"}, ours, append([]string{script}, pytest...)...)
	p.run(t, measuredUse{"metaschedule", "TVM's", "host"}, p.built, append([]string{"-m", "pytest"}, pytest...)...)
}

// aotTests runs test_crt_aot.py, TVM's tests of generated code, with our headers and archive in place of TVM's runtime,
// and with that.
func (p tvmPython) aotTests(t *testing.T) {
	script, err := filepath.Abs("testdata/interop/aot.py")
	must(t, err)
	test := p.source + "/tests/python/relay/aot/test_crt_aot.py"
	library := t.TempDir()
	for _, name := range []string{"libtvm.so", "microtvm_template_projects"} {
		must(t, os.Symlink(p.built+"/"+name, library+"/"+name))
	}
	standalone := library + "/standalone_crt"
	err = cp.Copy("../../crt/include", standalone+"/include")
	for _, source := range []string{"memory/stack_allocator.c", "common/crt_backend_api.c"} { // compiled by TVM's makefile
		file := standalone + "/src/runtime/crt/" + filepath.FromSlash(source)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte("typedef int in_the_archive;\n"), 0o644))
	}
	must(t, err)
	build := library + "/crt"
	config := p.built + "/microtvm_template_projects/crt/crt_config"
	said, err := exec.CommandContext(t.Context(), "make", "-C", "../../crt", "lib", "CRT_CONFIG="+config,
		"BUILD="+build).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	pytest := []string{"-q", "-p", "no:cacheprovider", test}
	with := func(archive string) []string { return append([]string{script, archive}, pytest...) }
	p.run(t, measuredUse{"test_crt_aot", "ours", "host"}, library, with(build+"/libcrt.a")...)
	p.run(t, measuredUse{"test_crt_aot", "TVM's", "host"}, p.built, with("")...)
}
