package project

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/ndarray"
)

// denseInput and denseOutput are of examples/c-model, sessionInputs and sessionOutput of session.json.
var (
	denseInput    = []ndarray.Named{{Name: "features", Array: array(float32Type, []int64{1, 4}, 1, 2, 3, 4)}}
	denseOutput   = []ndarray.Named{{Name: "scores", Array: array(float32Type, []int64{1, 3}, 7.75, 9, 0.25)}}
	sessionInputs = []ndarray.Named{
		{Name: "image", Array: array(int8Type, []int64{2, 3}, 1, 2, 3, -4, 5, 6)},
		{Name: "gain", Array: array(float32Type, []int64{}, 2.5)},
	}
	sessionOutput = []ndarray.Named{{Name: "sums", Array: array(int16Type, []int64{2, 3}, 12, 42, 92, -38, 102, 182)}}
)

// The types of elements of these tensors.
var (
	float32Type = ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}
	int16Type   = ndarray.DType{Code: ndarray.Int, Bits: 16, Lanes: 1}
	int32Type   = ndarray.DType{Code: ndarray.Int, Bits: 32, Lanes: 1}
	int8Type    = ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
)

func array(d ndarray.DType, shape []int64, values ...float64) *ndarray.Array {
	a := &ndarray.Array{DType: d, Shape: shape}
	for _, v := range values {
		switch d {
		case float32Type:
			a.Data = binary.LittleEndian.AppendUint32(a.Data, math.Float32bits(float32(v)))
		case int16Type:
			a.Data = binary.LittleEndian.AppendUint16(a.Data, uint16(int16(v)))
		default:
			a.Data = append(a.Data, byte(int8(v)))
		}
	}
	return a
}

const (
	denseModel   = "../examples/c-model/dense.json"
	sessionModel = "../internal/testdata/modelfile/session.json"
)

// A plainRun is a model in plain C on one board.
type plainRun struct {
	board, model string
	in, out      []ndarray.Named
}

// TestPlainC runs models in plain C over RPC and as standalone firmware: a function with a pointer for each tensor, and
// a vendor's interface with a struct of buffers, memory from the caller, an init function and status codes. Each runs
// twice, so that a second call of init changes the outputs.
func TestPlainC(t *testing.T) {
	t.Parallel()
	runs := []plainRun{
		{"host", sessionModel, sessionInputs, sessionOutput}, {"mps2_an386", denseModel, denseInput, denseOutput},
	}
	var more []plainRun
	for _, board := range []string{"mps2_an386", "qemu_riscv32", "microbit"} {
		more = append(more, plainRun{board, denseModel, denseInput, denseOutput},
			plainRun{board, sessionModel, sessionInputs, sessionOutput})
	}
	for _, r := range append(runs, drawn.Of(t, "plain C on boards", more, 1)...) {
		t.Run(r.board+"/"+filepath.Base(r.model), func(t *testing.T) { runPlain(t, r) })
	}
	t.Run("standalone", func(t *testing.T) {
		f := startAlone(t, Spec{Board: "host", Model: sessionModel})
		for range 2 {
			comparePlain(t, f.model, sessionInputs, sessionOutput)
		}
	})
}

func runPlain(t *testing.T, r plainRun) {
	t.Helper()
	e := openPlain(t, r.board, r.model)
	for range 2 {
		comparePlain(t, e, r.in, r.out)
	}
	must(t, e.Close(t.Context()))
}

// openPlain builds a model in plain C and opens it, until the test ends.
func openPlain(t *testing.T, name, model string, libraries ...string) executor.Executor {
	t.Helper()
	p := generated(t, Spec{Board: name, Model: model, Libraries: libraries})
	s := running(t, p)
	if len(p.Board().Memory) > 0 && model == denseModel {
		part := partOf(usageOf(t, p), "parameters")
		if slices.Max(part.In) != (12+3)*4 {
			t.Errorf("weights and biases of 60 bytes: %+v", part)
		}
	}
	return opened(t, p, s)
}

// TestOwnNames: functions and variables of a model, and of a library that it calls, whose names the C library has, too,
// are their own on host: neither the runtime nor the C library uses them.
func TestOwnNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{
		"m.json": `{"name": "m", "sources": ["m.c", "n.c"], "headers": ["m.h"], "function": "m_run", "arguments": [
			{"input": "x", "dtype": "float32", "shape": [1]}, {"output": "y", "dtype": "float32", "shape": [1]}]}`,
		"m.h": "void m_run(const float* x, float* y);\n",
		"m.c": `#include <own.h>
#include "m.h"
extern float write[2];
float index(float x);
void* malloc(int bytes);
int environ;
__attribute__((weak)) float poll(void) { return 30; }
void* malloc(int bytes) { return bytes ? &environ : 0; }
void m_run(const float* x, float* y) { y[0] = index(x[0]) + write[1] + poll() + own_sum() + (malloc(0) ? 1 : 0); }
`,
		"n.c":              "float write[2] = {1, 20};\nfloat index(float x);\nfloat index(float x) { return x; }\n",
		"own/library.json": `{"doc": "own", "headers": ["."], "sources": ["*.c"], "licence": "0BSD"}`,
		"own/own.h":        "int own_sum(void);\nint read(void);\n",
		"own/own.c":        "#include \"own.h\"\nint time[1] = {400};\nint own_sum(void) { return time[0] + read(); }\n",
		"own/read.c":       "#include \"own.h\"\nint read(void) { return 5000; }\n",
	})
	e := openPlain(t, "host", filepath.Join(dir, "m.json"), filepath.Join(dir, "own"))
	comparePlain(t, e, []ndarray.Named{{Name: "x", Array: array(float32Type, []int64{1}, 1)}},
		[]ndarray.Named{{Name: "y", Array: array(float32Type, []int64{1}, 5451)}})
	must(t, e.Close(t.Context()))
}

func comparePlain(t *testing.T, e executor.Executor, in, out []ndarray.Named) {
	t.Helper()
	for i, got := range answer(t, e, in...) {
		if want := out[i]; !got.Array.Equal(want.Array) || got.Name != want.Name {
			t.Errorf("output %s: %v, want %s: %v", got.Name, got.Array, want.Name, want.Array)
		}
	}
}

// TestPlainObjects links a model's object, and a library with it, in place of its source, from a folder and from a tar.
// An object for another core is refused before the build, a status of the model is an error of the run.
func TestPlainObjects(t *testing.T) {
	t.Parallel()
	need(t, "cc", "ar", "make")
	dir := t.TempDir()
	folder := filepath.Dir(sessionModel)
	writeIn(t, dir, "session.h", readFile(t, folder+"/session.h"))
	tool(t, folder, "cc", "-O1", "-c", "session.c", "-o", dir+"/session.o")
	tool(t, dir, "ar", "rcs", "session.a", "session.o")
	for _, object := range []string{"session.o", "session.a"} {
		writeIn(t, dir, "model.json", strings.Replace(readFile(t, sessionModel), `"sources": ["session.c"]`,
			`"objects": ["`+object+`"]`, 1))
		runPlain(t, plainRun{"host", dir, sessionInputs, sessionOutput})
	}
	tool(t, filepath.Dir(dir), "tar", "-cf", "session.tar", "-C", filepath.Dir(dir), filepath.Base(dir)+"/model.json",
		filepath.Base(dir)+"/session.h", filepath.Base(dir)+"/session.a")
	packed := filepath.Join(filepath.Dir(dir), "session.tar")
	generated(t, Spec{Model: packed})
	_, err := generate(t, Spec{Board: "microbit", Model: packed})
	wantError(t, err, failure.Config, "session")
}

// TestPlainFPU builds a model with an object, alone or in a library, for the double-precision FPU of a Cortex-M7 on a
// Cortex-M4, which a linker accepts: it is refused before. One for the board's FPU is linked.
func TestPlainFPU(t *testing.T) {
	t.Parallel()
	m := newCompiledModel(t)
	for _, object := range []string{"net.o", "net.a"} {
		m.compile("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16")
		name := "codegen/host/lib/" + strings.Replace(object, "net.a", "net.a_1_net.o", 1)
		err := m.build(object)
		wantError(t, err, "", name, "FPv5-D16 of double precision, but board mps2_an386 needs VFPv4-D16 of single")
		if !errors.Is(err, fit.ErrTarget) {
			t.Errorf("an object for another FPU: %v", err)
		}
		m.compile(m.board.CFlags...)
		must(t, m.build(object))
	}
}

// TestPlainArchives builds models with libraries of which one object does not fit: the error names both. The linker
// reports other sizes of enums.
func TestPlainArchives(t *testing.T) {
	drawn.OnlyInFull(t, "of another FPU, TestPlainFPU")
	t.Parallel()
	m := newCompiledModel(t)
	board := strings.Join(m.board.CFlags, " ")
	const is = "net.a_2_more.o is for arm 32-bit little-endian "
	for _, c := range []struct{ archiver, flags, want, next string }{
		{"rcs", "-mcpu=cortex-m4 -mthumb -mfloat-abi=soft", is + "soft-float", "choose"},
		{"rcs", "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard", is + "hard-float instruction set v8.1-m", "choose"},
		{"rcsT", board, "net.a: a thin library", "correct the description"},
		{"rcs", board + " -fno-short-enums", "net.a_2_more.o uses 32-bit enums", "compile it with -fshort-enums"},
	} {
		m.compile(m.board.CFlags...)
		more := strings.Fields(c.flags)
		tool(t, m.dir, m.board.Toolchain.CC, append(more, "-O1", "-c", "more.c", "-o", "more.o")...)
		must(t, os.Remove(filepath.Join(m.dir, "net.a")))
		tool(t, m.dir, m.board.Toolchain.AR, c.archiver, "net.a", "net.o", "more.o")
		wantError(t, m.build("net.a"), "", c.want, c.next)
	}
}

// A compiledModel is a model for a Cortex-M4, of whose C only an object is in the description.
type compiledModel struct {
	t     *testing.T
	dir   string
	board *boards.Board
}

func newCompiledModel(t *testing.T) *compiledModel {
	t.Helper()
	board := findBoard(t, "mps2_an386")
	needCompiler(t, board)
	m := &compiledModel{t, t.TempDir(), board}
	putFiles(t, m.dir, map[string]string{
		"net.h":  "void net_run(const double* x, double* y);\n",
		"net.c":  "#include \"net.h\"\nvoid net_run(const double* x, double* y) { *y = *x * 2; }\n",
		"more.c": "enum shade { DARK = 1, LIGHT };\nenum shade more;\nfloat net_more(float x) { return x * 2; }\n",
	})
	return m
}

// compile makes an object, and a library of it.
func (m *compiledModel) compile(flags ...string) {
	m.t.Helper()
	tool(m.t, m.dir, m.board.Toolchain.CC, slices.Concat(flags, []string{"-O1", "-c", "net.c", "-o", "net.o"})...)
	must(m.t, os.RemoveAll(filepath.Join(m.dir, "net.a"))) // which may be thin
	tool(m.t, m.dir, m.board.Toolchain.AR, "rcs", "net.a", "net.o")
}

// build builds the model with an object or a library.
func (m *compiledModel) build(object string) error {
	m.t.Helper()
	text := `{"name": "net", "objects": ["` + object + `"], "headers": ["net.h"], "function": "net_run", "arguments": [
{"input": "x", "dtype": "float64", "shape": []}, {"output": "y", "dtype": "float64", "shape": []}]}`
	writeFile(m.t, filepath.Join(m.dir, "model.json"), text)
	p, err := generate(m.t, Spec{Board: m.board.Name, Model: m.dir})
	if err == nil {
		err = buildError(m.t, p)
	}
	return err
}

func tool(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	output(t, cmd)
}

// changedSession returns a copy of sessionModel with another text.
func changedSession(t *testing.T, old, text string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(sessionModel))))
	editFile(t, dir+"/session.json", old, text)
	return dir + "/session.json"
}

// TestPlainMismatch builds a model whose description differs from its header: the error names the argument and its
// line. A status of the function is an error of the run.
func TestPlainMismatch(t *testing.T) {
	t.Parallel()
	for _, board := range []string{"host", "mps2_an386"} {
		t.Run(board, func(t *testing.T) {
			model := changedSession(t, `"input": "image", "dtype": "int8"`, `"input": "image", "dtype": "int16"`)
			err := buildError(t, generated(t, Spec{Board: board, Model: model}))
			wantError(t, err, failure.Compile, "member image, image:11:")
		})
	}
	f := startAlone(t, Spec{Board: "host", Model: changedSession(t, `{"value": "12"}`, `{"value": "8"}`)})
	wantStatus(t, f.model, "returned the error 1 (0x1)")
}

// wantStatus runs a model of session.json, which fails.
func wantStatus(t *testing.T, e executor.Executor, want string) {
	t.Helper()
	for _, a := range sessionInputs {
		must(t, e.SetInput(t.Context(), a.Name, a.Array))
	}
	for range 2 {
		wantError(t, e.Run(t.Context()), "", want)
	}
}

// TestPlainStatus is of a function and of an init that fail. The error of a session's run names which.
func TestPlainStatus(t *testing.T) {
	t.Parallel()
	for _, change := range []struct{ old, now, want string }{
		{`{"value": "12"}`, `{"value": "8"}`, "session_init returned 1, not 7"},
		{`"returns": {"status": 7},
  "init"`, `"returns": {"status": -3},
  "init"`, "session_run returned 7, not -3"},
	} {
		for _, board := range []string{"host", "mps2_an386", "qemu_riscv32"} {
			t.Run(board, func(t *testing.T) {
				t.Parallel()
				wantStatus(t, openPlain(t, board, changedSession(t, change.old, change.now)), change.want)
			})
		}
	}
}

// boundsC has an access outside of each kind of argument: the input x is the number of the access.
const boundsC = `#include <string.h>
#include "net.h"
static volatile int table[4];
void net_run(const float x[2], float y[3], void* work, const struct net_io* io) {
  static volatile float* kept;
  float* w = work;
  const int n = (int)x[0];
  for (int i = 0; i < (n == 1 ? 11 : 10); i++) w[i] = 1;
  if (n == 2) memset(work, 0, 41);
  if (n == 3) y[0] = x[2];
  if (n == 4) y[-1] = 1;
  if (n == 5) io->sum[1] = 1;
  if (n == 6) y[0] = (float)table[n - 2];
  if (n == 7) y[0] = *kept;
  kept = w;
  y[0] = y[1] = y[2] = io->sum[0] = x[0];
}
`

// TestAddressSanitizer checks that a build with -fsanitize=address reports each access outside of an argument with the
// argument, and the place in the model; without such an access, the outputs are the same. Without the flag, the model
// runs with most of them.
func TestAddressSanitizer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("AddressSanitizer's report is read on Linux")
	}
	dir := t.TempDir()
	probe := exec.Command("cc", "-fsanitize=address", "-x", "c", "-", "-o", filepath.Join(dir, "probe"))
	probe.Stdin = strings.NewReader("int main(void) { return 0; }")
	if err := probe.Run(); err != nil {
		t.Skipf("the compiler has no AddressSanitizer: %v", err)
	}
	putFiles(t, dir, map[string]string{
		"net.c": boundsC,
		"net.h": "struct net_io { float* sum; };\nvoid net_run(const float*, float*, void*, const struct net_io*);\n",
		"net.json": `{"name": "net", "sources": ["net.c"], "headers": ["net.h"], "function": "net_run", "arguments": [
{"input": "x", "dtype": "float32", "shape": [2]},
{"output": "y", "dtype": "float32", "shape": [3]},
{"arena": "work", "bytes": 40, "align": 64},
{"struct": "struct net_io", "members": [
{"member": "sum", "output": "sum", "dtype": "float32", "shape": []}]}]}`,
	})
	f := startAlone(t, Spec{
		Board: "host", Model: filepath.Join(dir, "net.json"),
		Options: boards.Options{OperatorFlags: "-fsanitize=address"},
	})
	run := func(number float64) error {
		x := array(float32Type, []int64{2}, number, 0)
		must(t, f.model.SetInput(t.Context(), "x", x))
		return f.model.Run(t.Context())
	}
	for i, want := range []string{
		"net.json:4: Check failed: net.c:8 writes byte 40 of arena work, which has 40 bytes",
		"net.json:4: Check failed: net.c:9 writes byte 40 of arena work, which has 40 bytes",
		"net.json:2: Check failed: net.c:10 reads byte 8 of input x, which has 8 bytes",
		"net.json:3: Check failed: net.c:11 writes byte -4 of output y, which has 12 bytes",
		"net.json:6: Check failed: net.c:12 writes byte 4 of output sum, which has 4 bytes",
		"net.json:1: Check failed: net.c:13: global-buffer-overflow",
	} {
		wantError(t, run(float64(i+1)), failure.Fault, want)
	}
	for range 2 {
		must(t, run(8))
	}
	for i, n := range []int64{3, 1} {
		got, err := f.model.Output(t.Context(), i)
		must(t, err)
		if want := array(float32Type, nil, slices.Repeat([]float64{8}, int(n))...); string(got.Data) != string(want.Data) {
			t.Errorf("output %d: %v", i, got)
		}
	}
	wantError(t, run(7), "", "net.c:14: heap-use-after-free")
}

// numberRow matches a row of the table of numbers: expression, operands, and a result for each kind of processor.
var numberRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| (\\S+) \\| (\\S+) \\| (\\S+) \\| (\\S+) \\|$")

// TestNumbers compares the table of results that C does not define, in docs/c-models.md, with host and emulated boards.
func TestNumbers(t *testing.T) {
	t.Parallel()
	page := readFile(t, "../docs/c-models.md")
	rows := numberRow.FindAllStringSubmatch(page, -1)
	if len(rows) < 10 {
		t.Fatalf("%d rows", len(rows))
	}

	// The model computes one row: x is its number.
	source := "#include <math.h>\n#include <stdint.h>\nvoid net_run(const int8_t* x, int64_t* y) {\n"
	for i, row := range rows {
		source += fmt.Sprintf("if (*x == %d) { volatile %s; *y = %s; }\n", i, row[2], row[1])
	}
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{
		"net.c": source + "}\n",
		"net.h": "#include <stdint.h>\nvoid net_run(const int8_t*, int64_t*);\n",
		"net.json": `{"name": "net", "sources": ["net.c"], "headers": ["net.h"], "function": "net_run", "arguments": [
{"input": "x", "dtype": "int8", "shape": []}, {"output": "y", "dtype": "int64", "shape": []}]}`,
	})

	type kind struct {
		board  string
		column int
	}
	kinds := []kind{
		{"mps2_an385", 5},
		{"qemu_riscv32", 6},
		{"microbit", 4},
		{"mps2_an386", 5},
		{"mps2_an521", 5},
		{"mps3_an547", 5},
		{"sifive_e", 6},
		{"qemu_riscv64", 6},
	}
	for _, k := range append(drawn.Of(t, "numbers", kinds, 3), kind{"host", 3}) {
		t.Run(k.board, func(t *testing.T) {
			t.Parallel()
			e := openNumbers(t, k.board, filepath.Join(dir, "net.json"))
			for i, row := range rows {
				must(t, e.SetInput(t.Context(), "x", array(int8Type, nil, float64(i))))
				err := e.Run(t.Context())
				got := "fault"
				if err == nil {
					y, err := e.Output(t.Context(), 0)
					must(t, err)
					got = fmt.Sprint(int64(binary.LittleEndian.Uint64(y.Data)))
				} else if !strings.Contains(err.Error(), fmt.Sprintf("net.c:%d", i+4)) {
					t.Errorf("%s of %s: the fault names another line: %v", row[1], row[2], err)
				}
				if got != row[k.column] {
					t.Errorf("%s of %s: %s, not %s", row[1], row[2], got, row[k.column])
				}
			}
		})
	}
}

// openNumbers opens the model. A process runs it standalone, because tensors do not survive a fault.
func openNumbers(t *testing.T, board, model string) executor.Executor {
	t.Helper()
	if board != "host" {
		return openPlain(t, board, model)
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the table has the faults of x86-64")
	}
	f := startAlone(t, Spec{Board: board, Model: model})
	return f.model
}

// A style is C as a kind of generator writes it: files, and the fields of the description besides the name.
type style struct {
	name, header, source, description string
}

// styles compute y = 2x + 1 of four numbers. That of onnx2c has no header.
var styles = []style{
	{
		"onnx2c", "", `#include <string.h>
static const float tensor_two[1] = {2.0F};
union tensor_union_0 { float tensor_h[1][4]; };
static union tensor_union_0 tu0;
static inline void node_mul(const float a[1][4], float c[1][4]) {
  for (unsigned i = 0; i < 4; i++) { c[0][i] = a[0][i] * tensor_two[0]; }
}
static inline void node_add(const float a[1][4], float c[1][4]) {
  for (unsigned i = 0; i < 4; i++) { c[0][i] = a[0][i] + 1.0F; }
}
void entry(const float tensor_x[1][4], float tensor_y[1][4]) {
  node_mul(tensor_x, tu0.tensor_h);
  node_add(tu0.tensor_h, tensor_y);
}
`, `"headers": ["net.c"], "include": ["net.c"], "function": "entry", "arguments": [
    {"input": "x", "dtype": "float32", "shape": [1, 4], "pass": "array"},
    {"output": "y", "dtype": "float32", "shape": [1, 4], "pass": "array"}]`,
	},
	{
		"a context and a scratch buffer, as in kernel libraries",
		`#include <stdint.h>
typedef struct { void *buf; int32_t size; } net_context;
typedef struct { int32_t n, h, w, c; } net_dims;
typedef enum { NET_SUCCESS = 0, NET_ARG_ERROR = -1 } net_status;
net_status net_run(const net_context *ctx, const net_dims *dims, const float *input, float *output);
`, `#include "net.h"
net_status net_run(const net_context *ctx, const net_dims *dims, const float *input, float *output) {
  float *scratch = ctx->buf;
  if (ctx->size < 4 * (int32_t)sizeof(float) || dims->c != 4) return NET_ARG_ERROR;
  for (int i = 0; i < dims->c; i++) scratch[i] = 2 * input[i];
  for (int i = 0; i < dims->c; i++) output[i] = scratch[i] + 1;
  return NET_SUCCESS;
}
`, `"sources": ["net.c"], "headers": ["net.h"], "function": "net_run", "arguments": [
    {"struct": "net_context", "members": [
      {"member": "buf", "arena": "scratch", "bytes": 16}, {"member": "size", "value": "16"}]},
    {"struct": "net_dims", "members": [{"member": "n", "value": "1"}, {"member": "c", "value": "4"}]},
    {"input": "x", "dtype": "float32", "shape": [1, 4]}, {"output": "y", "dtype": "float32", "shape": [1, 4]}],
    "returns": {"status": 0}`,
	},
	{
		"tables of buffers, a handle and an init function, as in vendors' tools",
		`#include <stdint.h>
typedef void *ai_handle;
typedef struct { uint16_t n_batches; ai_handle data; } ai_buffer;
typedef struct { float two; } ai_network;
int32_t ai_network_create(ai_network *network, const ai_handle weights[]);
int32_t ai_network_run(ai_network *network, const ai_buffer *input, ai_buffer *output);
extern const float ai_weights[1];
`, `#include "net.h"
const float ai_weights[1] = {2.0F};
int32_t ai_network_create(ai_network *network, const ai_handle weights[]) {
  network->two = *(const float *)weights[0];
  return 0;
}
int32_t ai_network_run(ai_network *network, const ai_buffer *input, ai_buffer *output) {
  const float *x = input->data;
  float *y = output->data;
  for (int i = 0; i < 4; i++) y[i] = network->two * x[i] + 1;
  return input->n_batches;
}
`, `"sources": ["net.c"], "headers": ["net.h"], "function": "ai_network_run", "arguments": [
    {"state": "network", "ctype": "ai_network"},
    {"struct": "ai_buffer", "members": [{"member": "n_batches", "value": "1"},
      {"member": "data", "input": "x", "dtype": "float32", "shape": [1, 4]}]},
    {"struct": "ai_buffer", "members": [{"member": "n_batches", "value": "1"},
      {"member": "data", "output": "y", "dtype": "float32", "shape": [1, 4]}]}],
    "returns": {"status": 1},
    "init": {"function": "ai_network_create", "returns": {"status": 0}, "arguments": [
      {"state": "network", "ctype": "ai_network"},
      {"struct": "ai_handle", "members": [{"member": "[0]", "value": "(void*)ai_weights"}]}]}`,
	},
	{
		"global buffers, with a function around them",
		`void net_call(const float *x, float *y);
`, `#include "net.h"
#include <string.h>
static float net_inputs[4], net_outputs[4];
static void net_predict(void) { for (int i = 0; i < 4; i++) net_outputs[i] = 2 * net_inputs[i] + 1; }
void net_call(const float *x, float *y) {
  memcpy(net_inputs, x, sizeof(net_inputs));
  net_predict();
  memcpy(y, net_outputs, sizeof(net_outputs));
}
`, `"sources": ["net.c"], "headers": ["net.h"], "function": "net_call", "arguments": [
    {"input": "x", "dtype": "float32", "shape": [1, 4]}, {"output": "y", "dtype": "float32", "shape": [1, 4]}]`,
	},
	{
		"a header-only function with a length, which returns an error",
		`#pragma once
static inline int net_infer(const float *values, int length, float *out, int out_length) {
  for (int i = 0; i < length && i < out_length; i++) { out[i] = 2 * values[i] + 1; }
  return length == out_length ? 0 : -2;
}
`, "", `"headers": ["net.h"], "function": "net_infer", "arguments": [
    {"input": "x", "dtype": "float32", "shape": [1, 4]}, {"value": "4"},
    {"output": "y", "dtype": "float32", "shape": [1, 4]}, {"value": "4"}], "returns": {"status": 0}`,
	},
}

// TestPlainStyles runs C in the styles of several generators.
func TestPlainStyles(t *testing.T) {
	t.Parallel()
	in := []ndarray.Named{{Name: "x", Array: array(float32Type, []int64{1, 4}, 1, -2, 0.5, 3)}}
	out := []ndarray.Named{{Name: "y", Array: array(float32Type, []int64{1, 4}, 3, -3, 2, 7)}}
	for _, s := range drawn.Of(t, "styles of C", styles, 1) {
		for _, board := range []string{"host", "mps2_an386"} {
			t.Run(s.name+"/"+board, func(t *testing.T) {
				dir := t.TempDir()
				for name, text := range map[string]string{
					"net.h": s.header, "net.c": s.source, "model.json": `{"name": "net", ` + s.description + `}`,
				} {
					if text != "" {
						writeFile(t, filepath.Join(dir, name), text)
					}
				}
				runPlain(t, plainRun{board, dir, in, out})
			})
		}
	}
}
