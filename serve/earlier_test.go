//go:build linux

package serve_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// earlier is the variable of TVM 0.14.
const earlier = "BOARDSMITH_TVM_PYTHON"

// TestEarlierTuners uses an emulated Cortex-M4 by the compiler and the tuners of unmodified TVM 0.14, through its
// tracker: operators in C and as objects.
func TestEarlierTuners(t *testing.T) {
	needCompiler(t)
	trials := "2"
	if drawn.InFull() {
		trials = "8"
	}
	for _, c := range []struct{ use, target string }{
		{"connect", targetC},
		{"connect", llvmTargets["mps2_an386"]},
		{"upload", targetC},
		{"upload", llvmTargets["mps2_an386"]},
		{"loader", `{"kind": "c", "model": "host"}`}, // as tvm.target.target.micro has it
		{"metaschedule", targetC},
		{"metaschedule", llvmTargets["mps2_an386"]},
	} {
		kind := "c"
		if strings.Contains(c.target, "llvm") {
			kind = "llvm"
		}
		t.Run(c.use+"/"+kind, func(t *testing.T) {
			const board = "mps2_an386"
			t.Log(runTVM(t, earlier, "testdata/earlier.py", c.use, serveBoard(t, earlier, board), board, c.target, trials))
		})
	}
}

// needCompiler skips the test if TVM 0.14 is not there, or has its runtime only.
func needCompiler(t *testing.T) {
	t.Helper()
	out := runTVM(t, earlier, "-c", "import tvm; print(tvm._ffi.libinfo.find_lib_path()[0])")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if library := lines[len(lines)-1]; filepath.Base(library) != "libtvm.so" {
		t.Skipf("%s has no compiler: its library is %s", earlier, library)
	}
}
