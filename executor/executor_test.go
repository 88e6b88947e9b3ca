package executor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

var (
	must      = testkit.Must
	wantError = testkit.WantError
)

// builds is a folder with the compiled runtime, which the firmware of all tests has.
var builds string

func TestMain(m *testing.M) {
	code := m.Run()
	if builds != "" {
		_ = os.RemoveAll(builds)
	}
	os.Exit(code)
}

// compiledRuntime compiles the host board's runtime, once.
var compiledRuntime = sync.OnceValues(func() (string, error) {
	var err error
	if builds, err = os.MkdirTemp("", "executor-test"); err != nil {
		return "", err
	}
	return builds, build("", builds, filepath.Join(builds, "runtime.a"))
})

// build runs the template's make.
func build(model, folder string, targets ...string) error {
	make := exec.Command("make", append([]string{
		"-j2", "-C", "../templates/baremetal", "CRT=../../crt", "SRC=../firmware", "MODEL=" + model,
		"BUILD=" + folder,
	}, targets...)...)
	if out, err := make.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", make.Args, err, out)
	}
	return nil
}

// open builds the host board's firmware of an archive without package project, starts it and opens a session.
func open(t *testing.T, a *mlf.Archive) (context.Context, *rpc.Session) {
	t.Helper()
	return openOver(t, a, func(link rpc.Transport) rpc.Transport { return link })
}

// openOver is open with a link that wraps the device's.
func openOver(t *testing.T, a *mlf.Archive, between func(rpc.Transport) rpc.Transport) (context.Context, *rpc.Session) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the host board's port needs POSIX")
	}
	testkit.Need(t, "make", "cc")
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	for _, f := range a.Files {
		testkit.WriteFile(t, filepath.Join(model, filepath.FromSlash(f.Name)), string(f.Data))
	}
	compiled, err := compiledRuntime()
	must(t, err)
	folder := filepath.Join(dir, "build")
	must(t, os.CopyFS(folder, os.DirFS(compiled)))
	must(t, build(model, folder))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	link, err := transport.StartProcess(ctx, transport.ProcessConfig{Path: filepath.Join(folder, "firmware.elf")})
	must(t, err)
	session, err := transport.Dial(ctx, link, transport.SessionOptions{})
	must(t, err)
	s := rpc.New(between(session), rpc.Options{})
	t.Cleanup(func() { must(t, s.Close(context.Background())) })
	return ctx, s
}

// opened opens an executor of a session's model.
func opened(t *testing.T, ctx context.Context, s *rpc.Session, m *mlf.Model) executor.Executor {
	t.Helper()
	e, err := executor.Open(ctx, s, m)
	must(t, err)
	return e
}

// wantNotOpened reports an executor that is opened, or another error than one with these texts.
func wantNotOpened(
	t *testing.T, ctx context.Context, s *rpc.Session, m *mlf.Model, class failure.Class, texts ...string,
) {
	t.Helper()
	_, err := executor.Open(ctx, s, m)
	wantError(t, err, class, texts...)
}

// square returns an input of the graph's model.
func square(data ...byte) *ndarray.Array {
	return &ndarray.Array{DType: ndarray.DType{Bits: 8, Lanes: 1}, Shape: []int64{2, 2}, Data: data}
}

// TestModelsOfEachKindRun runs one archive of each kind twice, and times it. Package project's tests run all archives.
func TestModelsOfEachKindRun(t *testing.T) {
	for _, name := range []string{
		"sine.graph", "dscnn_i8.graph_linked", "digits_i8.graph_llvm_x86_64", "digits_i8.aot_packed", "twoin.aot_packed",
		"matmul_17",
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "x86_64") && (runtime.GOARCH != "amd64" || runtime.GOOS != "linux") {
				t.Skip("objects for x86-64 Linux")
			}
			path := mlftest.Path(t, name)
			a, m := mlftest.Open(t, path)
			ctx, s := open(t, a)
			e := opened(t, ctx, s, m)
			in, out := mlftest.Arrays(path)
			want := mlftest.Read(t, out)
			must(t, executor.SetInputs(ctx, e, mlftest.Read(t, in)))
			for range 2 {
				must(t, e.Run(ctx))
				testkit.Equal(t, "outputs", len(e.Outputs()), len(want))
				for i, w := range want {
					got, err := e.Output(ctx, i)
					must(t, err)
					must(t, measure.Rule{Abs: 1e-5, Rel: 1e-5}.Compare(got, w.Array))
				}
				samples, err := e.Time(ctx, rpc.TimeOptions{Number: 1, Repeat: 3})
				if err != nil || len(samples) != 3 || slices.Min(samples) < 0 || slices.Max(samples) > 10 {
					t.Errorf("times %v, %v", samples, err)
				}
				if _, err := e.Output(ctx, 0); err == nil {
					t.Error("an output after timing, without a run")
				}
			}
			if g, ok := e.(*executor.Graph); ok {
				times, err := g.Debug(ctx, rpc.TimeOptions{Number: 1})
				if err != nil || len(times) == 0 {
					t.Fatalf("times by operator: %v, %v", times, err)
				}
				for _, op := range times {
					if !m.Has(op.Name) || op.Node == "" || len(op.Samples) != 1 {
						t.Errorf("time by operator: %+v", op)
					}
				}
			}
			must(t, e.Close(ctx))
		})
	}
}

// sample returns the repository's sample archive.
var sample = "../examples/samples/digits_i8.aot_packed.tar"

func TestWrongInputNamesRightOne(t *testing.T) {
	a, m := mlftest.Open(t, sample)
	ctx, s := open(t, a)
	e := opened(t, ctx, s, m)
	i8 := ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	array := func(d ndarray.DType, shape ...int64) *ndarray.Array {
		a, err := ndarray.New(d, shape...)
		must(t, err)
		return a
	}
	good := array(i8, 1, 1, 8, 8)
	float := array(ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}, 1, 1, 8, 8)
	for _, c := range []struct {
		name       string
		a          *ndarray.Array
		want, next string
	}{
		{"imag", good, `no input "imag"; its inputs are: image int8 (1, 1, 8, 8)`, `did you mean "image"?`},
		{"image", array(i8, 64), `input "image" must be int8 (1, 1, 8, 8), not int8 (64,)`, "reshape((1, 1, 8, 8))"},
		{"image", float, `must be int8 (1, 1, 8, 8), not float32 (1, 1, 8, 8)`, `astype("int8")`},
		{"image", &ndarray.Array{DType: i8, Shape: good.Shape, Data: good.Data[:1]}, "must have 64 bytes, not 1", ""},
	} {
		wantError(t, e.SetInput(ctx, c.name, c.a), "", c.want, c.next)
	}
	wantError(t, e.Run(ctx), "", "have not been set: image int8")
	if _, err := e.Output(ctx, 0); err == nil {
		t.Error("an output without a run")
	}
	must(t, e.SetInput(ctx, "image", good))
	must(t, e.Run(ctx))
	if _, err := e.Output(ctx, 1); err == nil {
		t.Error("an output too many")
	}
}

// TestOtherModelIsRejected opens an archive on firmware that was built from another.
func TestOtherModelIsRejected(t *testing.T) {
	a, m := mlftest.Open(t, sample)
	ctx, s := open(t, a)
	other := *m
	other.Inputs = []mlf.Tensor{m.Inputs[0]}
	other.Inputs[0].Shape = []int64{64}
	wantNotOpened(t, ctx, s, &other, "", "another model")
	other.Name, other.Inputs = "kws", m.Inputs
	wantNotOpened(t, ctx, s, &other, "")
	graph := mlf.Model{Name: "g", Executor: mlf.Graph, ABI: mlf.ABIPacked, Graph: []byte(tinyGraph("tvmgen_g_missing", 1))}
	wantNotOpened(t, ctx, s, &graph, "", "tvmgen_g_missing")
	ffi := *m
	ffi.ABI = mlf.ABITVMFFI
	wantNotOpened(t, ctx, s, &ffi, failure.Config)
	must(t, opened(t, ctx, s, m).Close(ctx))
}

// tinyGraph is a graph of two inputs x and p0, a node n that calls a function, and a node that does nothing. The
// storage of n's output is given: 1 is p0's.
func tinyGraph(function string, storage int) string {
	return fmt.Sprintf(`{"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "p0", "inputs": []},
		{"op": "tvm_op", "name": "n", "attrs": {"func_name": %q, "num_inputs": "2", "num_outputs": "1", "flatten_data": "1"}, "inputs": [[0, 0, 0], [1, 0, 0]]},
		{"op": "tvm_op", "name": "r", "attrs": {"func_name": "__nop", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}, "inputs": [[2, 0, 0]]}],
		"arg_nodes": [0, 1], "heads": [[3, 0, 0], [1, 0, 0]], "node_row_ptr": [0, 1, 2, 3, 4],
		"attrs": {"dltype": ["list_str", ["int8", "int8", "int8", "int8"]], "storage_id": ["list_int", [0, 1, %d, %d]], "shape": ["list_shape", [[2, 2], [2, 2], [2, 2], []]]}}`,
		function, storage, storage)
}

// graphOperators is C code of the operator, and of a linked parameter if LINKED is defined.
const graphOperators = `#include <boardsmith/boardsmith.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/module.h>
static int add(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* res) {
  (void)codes; (void)out; (void)out_code; (void)res;
  DLTensor* a = args[0].v_handle; DLTensor* b = args[1].v_handle; DLTensor* c = args[2].v_handle;
  if (n != 3 || a->ndim != 1 || a->shape[0] != 4 || c->ndim != 1) { TVMAPISetLastError("not flat"); return -1; }
  for (int i = 0; i < 4; i++) { ((int8_t*)c->data)[i] = (int8_t)(((int8_t*)a->data)[i] + ((int8_t*)b->data)[i]); }
  return 0;
}
static const int8_t linked[4] = {10, 20, 30, 40};
static int lookup(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* res) {
  static boardsmith_window_t window;
  (void)codes; (void)n; (void)res;
  boardsmith_window_add(&window, (void*)(uintptr_t)linked, sizeof linked, 0);
  out->v_handle = (args[0].v_int64 == 1) ? (void*)(uintptr_t)linked : (void*)0;
  *out_code = (args[0].v_int64 == 1) ? 3 : 4;
  return 0;
}
static const TVMBackendPackedCFunc functions[] = {add, lookup};
static const TVMFuncRegistry _tvm_func_registry = {
    "\0%o\000tvmgen_g_add\000%s", functions,
};
static const TVMModule lib = {&_tvm_func_registry};
const TVMModule* TVMSystemLibEntryPoint(void) {
  return &lib;
}
`

// graphArchive is a model whose n adds x and p0; p0 comes from the archive or is linked in.
func graphArchive(t *testing.T, linked bool, storage int) *mlf.Archive {
	source := strings.Replace(strings.Replace(graphOperators, `%o`, "01", 1), "%s", "", 1)
	var params []ndarray.Named
	if linked {
		source = strings.Replace(strings.Replace(graphOperators, `%o`, "02", 1), "%s", `_lookup_linked_param\000`, 1)
	} else {
		params = []ndarray.Named{{Name: "p0", Array: square(10, 20, 30, 40)}}
	}
	blob, err := mlftest.EncodeParams(params)
	must(t, err)
	file := func(name, text string) mlf.File { return mlf.File{Name: name, Data: []byte(text)} }
	return mlftest.Parse(t, file("metadata.json",
		`{"version": 7, "modules": {"g": {"style": "full-model", "executors": ["graph"], "target": ["c"], "memory": {}}}}`),
		file("codegen/host/src/g_lib0.c", source), file("parameters/g.params", string(blob)),
		file("executor-config/graph/g.graph", tinyGraph("tvmgen_g_add", storage)))
}

// TestGraphs runs what TVM's archives do not have: flat tensors, a scalar, a parameter that is an output, parameters
// linked in, and memory of a parameter that the model overwrites.
func TestGraphs(t *testing.T) {
	for _, c := range []struct {
		name    string
		linked  bool
		storage int
		second  []byte // the second output is p0's memory
	}{
		{"parameters", false, 2, []byte{10, 20, 30, 40}},
		{"linked", true, 2, []byte{10, 20, 30, 40}},
		{"overwritten", false, 1, []byte{11, 22, 33, 44}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := graphArchive(t, c.linked, c.storage)
			ctx, s := open(t, a)
			e := opened(t, ctx, s, a.Models[0])
			testkit.Equal(t, "tensors", fmt.Sprint(e.Inputs(), e.Outputs()),
				"[x int8 (2, 2)] [output0 int8 () output1 int8 (2, 2)]")
			x := square(1, 2, 3, 4)
			must(t, e.SetInput(ctx, "x", x))
			x.Data[0] = 99 // the caller may change its own array
			for range 3 {
				must(t, e.Run(ctx))
				first, err := e.Output(ctx, 0)
				if err != nil || first.Int(0) != 11 || len(first.Shape) != 0 {
					t.Errorf("the scalar is %+v, %v", first, err)
				}
				second, err := e.Output(ctx, 1)
				must(t, err)
				testkit.Equal(t, "the second output", second.Data, c.second)
				_, err = e.Time(ctx, rpc.TimeOptions{})
				must(t, err)
			}
			must(t, errors.Join(e.Close(ctx), e.Close(ctx)))
		})
	}
}

// TestExecutorsRunConcurrently runs one session's model from two goroutines, each with its own executor, in a full run
// under the race detector.
func TestExecutorsRunConcurrently(t *testing.T) {
	a := graphArchive(t, false, 2)
	ctx, s := open(t, a)
	var all sync.WaitGroup
	for k := range byte(2) {
		all.Go(func() {
			e, err := executor.Open(ctx, s, a.Models[0])
			if err != nil {
				t.Error(err)
				return
			}
			x := square(10*k, 2, 3, 4)
			for range 20 {
				if err := errors.Join(e.SetInput(ctx, "x", x), e.Run(ctx)); err != nil {
					t.Error(err)
					return
				}
				if out, err := e.Output(ctx, 0); err != nil || out.Data[0] != 10*k+10 {
					t.Errorf("executor %d: %+v, %v", k, out, err)
					return
				}
			}
			if err := errors.Join(e.Close(ctx), e.Close(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestOneAOTExecutor checks that opening a second executor of an ahead-of-time model fails, and that its advice
// helps.
func TestOneAOTExecutor(t *testing.T) {
	a, m := mlftest.Open(t, sample)
	ctx, s := open(t, a)
	for range 2 {
		e := opened(t, ctx, s, m)
		wantNotOpened(t, ctx, s, m, failure.Config, "can have one at a time", "close the other executor")
		must(t, errors.Join(e.Close(ctx), e.Close(ctx)))
	}
}

func TestGraphWithoutParameters(t *testing.T) {
	a := graphArchive(t, false, 2)
	ctx, s := open(t, a)
	m := *a.Models[0]
	m.Params = nil
	wantNotOpened(t, ctx, s, &m, "", `"p0" is neither in the archive nor linked`)
	m = *a.Models[0]
	m.Graph = []byte(strings.Replace(tinyGraph("tvmgen_g_add", 2), "[0, 1, 2, 2]", "[0, 1, 2, 3]", 1))
	wantNotOpened(t, ctx, s, &m, "", "different storage ids")
}

// A flaky link damages some copies to the device, which reports them as damaged.
type flaky struct {
	rpc.Transport
	damage func(copy int) bool // counted from 0
	copies int
	hit    bool
}

func (f *flaky) Lossy() bool { return true }

func (f *flaky) Send(ctx context.Context, parts ...[]byte) error {
	f.hit = false
	if tvmrpc.Code(parts[0][8]) == tvmrpc.CodeCopyToRemote {
		f.hit = f.damage(f.copies)
		f.copies++
	}
	if f.hit {
		parts[1] = slices.Clone(parts[1])
		parts[1][0] ^= 0x55
	}
	return f.Transport.Send(ctx, parts...)
}

func (f *flaky) Recv(ctx context.Context) ([]byte, error) {
	msg, err := f.Transport.Recv(ctx)
	if err != nil || !f.hit {
		return msg, err
	}
	refusal := tvmrpc.Packet{Code: tvmrpc.CodeException, Args: []tvmrpc.Value{tvmrpc.Text("boardsmith: damaged copy")}}
	return refusal.AppendHead(nil), nil
}

// TestDamagedCopyNeverYieldsWrongOutput damages each copy of a session in turn, then all copies from one on: outputs
// are right, or Run fails.
func TestDamagedCopyNeverYieldsWrongOutput(t *testing.T) {
	a := graphArchive(t, false, 1) // parameter, input, and the parameter again before each run
	bad := -1
	var link *flaky
	ctx, s := openOver(t, a, func(under rpc.Transport) rpc.Transport {
		link = &flaky{Transport: under, damage: func(n int) bool { return n == bad }}
		return link
	})
	session := func() error {
		link.copies = 0
		e, err := executor.Open(ctx, s, a.Models[0])
		if err != nil {
			return err
		}
		defer e.Close(ctx)
		if err := e.SetInput(ctx, "x", square(1, 2, 3, 4)); err != nil {
			return err
		}
		if err := e.Run(ctx); err != nil {
			return err
		}
		if got, err := e.Output(ctx, 1); err != nil || !slices.Equal(got.Data, []byte{11, 22, 33, 44}) {
			t.Errorf("copy %d damaged: %+v, %v", bad, got, err)
		}
		return nil
	}
	if err := session(); err != nil || link.copies != 3 {
		t.Fatalf("%d copies, %v", link.copies, err)
	}
	for bad = range 3 {
		if err := session(); err != nil {
			t.Errorf("copy %d damaged: %v", bad, err)
		}
	}
	for from := range 3 {
		link.damage = func(n int) bool { return n >= from }
		if err := session(); !errors.Is(err, rpc.ErrDamagedCopy) {
			t.Errorf("every copy from %d on damaged: %v", from, err)
		}
		must(t, s.AcknowledgeDamage(ctx))
	}
}

// TestInputNamesMatchInC: a description in the model's code may have the model's own names, as in "x:0", or those of C.
// An archive with another name is refused with both.
func TestInputNamesMatchInC(t *testing.T) {
	a, _ := mlftest.Open(t, mlftest.Path(t, "sine.aot_packed"))
	files := slices.Clone(a.Files)
	for i, f := range files {
		text := strings.ReplaceAll(string(f.Data), `"x" /* name*/`, `"x:0" /* name*/`)
		files[i].Data = []byte(strings.ReplaceAll(strings.ReplaceAll(text, `"x": {`, `"x:0": {`), "%x", "%x:0"))
	}
	raw := mlftest.Parse(t, files...)
	ctx, s := open(t, raw)
	testkit.Equal(t, "input", raw.Models[0].Inputs[0].Name, "x:0")
	must(t, opened(t, ctx, s, raw.Models[0]).Close(ctx))
	other := *raw.Models[0]
	other.Inputs = slices.Clone(other.Inputs)
	other.Inputs[0].Name = "y:0"
	wantNotOpened(t, ctx, s, &other, "", `its inputs are ["x:0"], the archive has "y:0"`)
}

// TestErrorWithoutText: an operator that returns a number and sets no text is named, with the number.
func TestErrorWithoutText(t *testing.T) {
	failing := strings.Replace(mlftest.TinyOperator, "return 0;", "return -1;", 1)
	a, _ := mlftest.Open(t, mlftest.Operator(t, failing))
	ctx, s := open(t, a)
	e := opened(t, ctx, s, a.Models[0])
	in := e.Inputs()[0]
	zeros := &ndarray.Array{DType: in.DType, Shape: in.Shape, Data: make([]byte, 16)}
	must(t, e.SetInput(ctx, in.Name, zeros))
	wantError(t, e.Run(ctx), failure.Fault, "operator twice: ",
		"the function returned the error -1 (0xffffffff), without a text", "look into its C")
}
