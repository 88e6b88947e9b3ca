package measure_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/measure"
)

var (
	must      = testkit.Must
	wantError = testkit.WantError
)

// relaxVariable names the environment variable with the path of a Python that has Apache TVM 0.26 or later, and onnx.
// Without it, that of setup is used.
const relaxVariable = "BOARDSMITH_RELAX_PYTHON"

// TestRelax exports networks with TVM's compiler for Relax, and validates them with the outputs of ONNX's reference
// evaluator: on this computer, and on an emulated board.
func TestRelax(t *testing.T) {
	t.Parallel()
	script := filepath.Join(testkit.Root(t), "python", "tests", "networks.py")
	text := testkit.ReadFile(t, script)
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^def (\w+)\(\) -> onnx.ModelProto:`).FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	if len(all) < 10 {
		t.Fatalf("%s has only the networks %q", script, all)
	}
	names, boards := drawn.Of(t, "networks of Relax", all, 1), []string{"host", "mps2_an386"}
	if drawn.InFull() {
		names = drawn.Of(t, "networks of Relax", all, 2)
	}
	folder := t.TempDir()
	relaxPython(t, append([]string{script, folder}, names...)...)
	for _, name := range names {
		for _, board := range drawn.Of(t, "boards of Relax", boards, 1) {
			t.Run(name+"/"+board, func(t *testing.T) {
				t.Parallel()
				rule := "abs=1e-5"
				if strings.HasPrefix(name, "int8_") {
					rule = "abs=1" // one unit of the integers
				}
				equals(t, board, filepath.Join(folder, name), rule)
			})
		}
	}
}

// TestPyTorch exports a network of PyTorch, where there is one, and validates it with PyTorch's own outputs.
func TestPyTorch(t *testing.T) { validateScript(t, "pytorch.py", "torch") }

// TestLite exports a network of TensorFlow Lite in float32, where there is its interpreter, whose outputs are expected.
func TestLite(t *testing.T) { validateScript(t, "lite.py", "lite_float32") }

// validateScript runs a script that exports networks, if it finds their framework.
func validateScript(t *testing.T, script string, names ...string) {
	t.Helper()
	t.Parallel()
	folder, names := t.TempDir(), drawn.Of(t, "networks of "+script, names, 1)
	args := []string{filepath.Join(testkit.Root(t), "python", "tests", script), folder}
	output := relaxPython(t, append(args, names...)...)
	for _, name := range names {
		base, rule := filepath.Join(folder, name), "abs=1e-5"
		if _, err := os.Stat(base + ".tar"); err != nil {
			t.Skip(output)
		}
		for _, board := range drawn.Of(t, "boards of "+script, []string{"host", "mps2_an386"}, 1) {
			t.Run(name+"/"+board, func(t *testing.T) {
				t.Parallel()
				equals(t, board, base, rule)
			})
		}
	}
}

// equals validates a model with one sample.
func equals(t *testing.T, board, base, rule string) {
	t.Helper()
	files := measure.Files{Inputs: base + ".inputs.npz", Expected: base + ".outputs.npz"}
	r := validated(t, board, base+".tar", files, rule)
	if err := r.Err(); err != nil || r.Outputs.Samples != 1 || r.Outputs.Equal != 1 {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestKeywordSpotting exports MLPerf Tiny's network, of weights in its archive of TVM 0.14. As int8 it takes at most
// half of the instructions of that archive on a Cortex-M4, and no more workspace.
func TestKeywordSpotting(t *testing.T) {
	t.Parallel()
	archives := mlftest.Archives(t)
	i := slices.IndexFunc(archives, func(path string) bool { return mlftest.Name(path) == "kws.aot_c" })
	if i < 0 || !drawn.InFull() {
		t.Skip("BOARDSMITH_ARCHIVES names no mlperf_tiny, or this is not the full test")
	}
	folder := t.TempDir()
	relaxPython(t, filepath.Join(testkit.Root(t), "python", "tests", "kws.py"), archives[i], folder)
	run := func(model, inputs, outputs, rule string) *measure.Result {
		r := validated(t, "mps2_an386", model, measure.Files{Inputs: inputs, Expected: outputs}, rule)
		if err := r.Err(); err != nil {
			t.Errorf("%s: %v", model, err)
		}
		return r
	}
	in, out := mlftest.Arrays(archives[i])
	before := run(archives[i], in, out, "exact")
	for name, rule := range map[string]string{"kws_int8": "abs=1", "kws_float": "abs=1e-5"} {
		base := filepath.Join(folder, name)
		r := run(base+".tar", base+".inputs.npz", base+".outputs.npz", rule)
		ratio := r.Cost.Median / before.Cost.Median
		t.Logf("%s: %.2f of the instructions, %d bytes of workspace for %d", name, ratio, workspace(r),
			workspace(before))
		if workspace(r) > workspace(before) || name == "kws_int8" && ratio > 0.5 {
			t.Errorf("%s takes more than the archive of TVM 0.14", name)
		}
	}
}

// workspace returns the bytes of standalone firmware's workspace.
func workspace(r *measure.Result) int64 {
	i := slices.IndexFunc(r.Parts, func(p fit.Share) bool { return p.Name == "workspace" })
	return r.Parts[i].RAM
}

// TestExporter runs the exporter's own tests. Most of them compile networks with TVM, a second or more for each: a
// plain run draws one, and some of ONNX's own, a full one runs all.
func TestExporter(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(testkit.Root(t), "python", "tests")
	args := []string{"-m", "unittest", "discover", "-s", folder}
	if drawn.InFull() {
		relaxPython(t, args...)
		return
	}

	var all []string
	for _, file := range []string{"test_check.py", "test_export.py", "test_lite.py"} {
		text := testkit.ReadFile(t, filepath.Join(folder, file))
		for _, m := range regexp.MustCompile(`(?m)^    def (test_\w+)\(`).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
	}
	if len(all) < 50 {
		t.Fatalf("%s has only the tests %q", folder, all)
	}
	args = append(args, "-k", "test_cases") // which draws ONNX's own
	for _, name := range drawn.Of(t, "tests of the exporter", all, 1) {
		args = append(args, "-k", name)
	}
	relaxPython(t, args...)
}

// pythonWith returns the Python that a variable names, or else setup's, if it has packages with these programs.
func pythonWith(t *testing.T, variable string, programs ...string) string {
	t.Helper()
	if python := os.Getenv(variable); python != "" {
		return python
	}
	var folder string
	for _, name := range programs {
		tool, err := testkit.FindTool(name)
		if err != nil || folder != "" && filepath.Dir(tool) != folder {
			t.Skipf("%s is not set, and setup has installed no %s: %v", variable, name, err)
		}
		folder = filepath.Dir(tool)
	}
	return filepath.Join(folder, "python")
}

// relaxPython runs Python with our package, and returns its output.
func relaxPython(t *testing.T, args ...string) string {
	t.Helper()
	python := pythonWith(t, relaxVariable, "check-model", "tvm-ffi-config")

	cmd := exec.CommandContext(testkit.Context(t), python, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(testkit.Root(t), "python"), "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return out.String()
}
