//go:build linux

package tune_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/tarfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/tune"
)

// tvmModules returns the modules of testdata/modules, which TVM 0.27 compiled, by name.
func tvmModules(t *testing.T) map[string][]byte {
	t.Helper()
	f, err := os.Open("testdata/modules/modules.tar.gz")
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	all := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		all[strings.TrimSuffix(h.Name, ".tar")] = data
	}
}

// packed packs a module of C.
func packed(t *testing.T, name, source string) []byte {
	t.Helper()
	data, err := tarfile.Of([]tarfile.File{{Name: name, Data: []byte(source)}})
	must(t, err)
	return data
}

// A boardOperator is an operator of the modules with its reference.
type boardOperator struct {
	shapes    [][]int64 // the last is the output's
	reference func(in [][]float32) []float32
}

var boardOperators = map[string]boardOperator{
	"matmul": {[][]int64{{12, 12}, {12, 12}, {12, 12}}, func(in [][]float32) []float32 {
		out := make([]float32, 144)
		for i := range out {
			for k := range 12 {
				out[i] += in[0][i/12*12+k] * in[1][k*12+i%12]
			}
		}
		return out
	}},
	"conv2d": {[][]int64{{1, 4, 8, 8}, {6, 4, 3, 3}, {1, 6, 8, 8}}, func(in [][]float32) []float32 {
		out := make([]float32, 6*8*8)
		for i := range out {
			filter, row, column := i/64, i/8%8, i%8
			for tap := range 36 {
				channel, y, x := tap/9, row+tap/3%3-1, column+tap%3-1
				if y >= 0 && y < 8 && x >= 0 && x < 8 {
					out[i] += in[0][channel*64+y*8+x] * in[1][filter*36+tap]
				}
			}
		}
		return out
	}},
	"exp": {[][]int64{{8}, {8}}, func(in [][]float32) []float32 {
		out := make([]float32, 8)
		for i, x := range in[0] {
			out[i] = float32(math.Exp(float64(x)))
		}
		return out
	}},
}

var float32Type = ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}

func floats(data []byte) []float32 {
	all := make([]float32, len(data)/4)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return all
}

// openBoard opens a board and a session with it.
func openBoard(t *testing.T, dir, name string, o tune.Options) (serve.Place, *rpc.Session) {
	t.Helper()
	b, err := tune.OpenBoard(t.Context(), dir, &device.Desk{}, name, o)
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	session, err := b.Open(t.Context())
	must(t, err)
	return b, session
}

// load loads a module of C.
func load(t *testing.T, b serve.Place, source string) rpc.Module {
	t.Helper()
	loaded, err := b.Load(t.Context(), packed(t, "lib0.c", source))
	must(t, err)
	return loaded
}

func function(t *testing.T, m rpc.Module, name string) rpc.Function {
	t.Helper()
	f, err := m.Function(t.Context(), name)
	must(t, err)
	return f
}

// free returns how many bytes of RAM a board has for modules.
func free(t *testing.T, b serve.Place) uint64 {
	t.Helper()
	session, err := b.Open(t.Context())
	must(t, err)
	windows, err := session.Windows(t.Context())
	must(t, err)
	return windows[0].Bytes
}

// runModule calls a module's main with random inputs, checks its outputs against the reference, and times it.
func runModule(t *testing.T, loaded rpc.Module, o boardOperator) {
	t.Helper()
	ctx := t.Context()
	var args []any
	var inputs [][]float32
	for i, shape := range o.shapes {
		array, err := ndarray.Fill(float32Type, shape, uint64(i+1))
		must(t, err)
		tensor, err := loaded.Session().NewArray(ctx, array)
		must(t, err)
		defer func() { must(t, tensor.Free(ctx)) }()
		args, inputs = append(args, tensor), append(inputs, floats(array.Data))
	}
	f := function(t, loaded, "main")
	_, err := f.Call(ctx, args...)
	must(t, err)
	out, err := args[len(args)-1].(*rpc.Tensor).Array(ctx)
	must(t, err)
	want := o.reference(inputs)
	for i, got := range floats(out.Data) {
		if math.Abs(float64(got-want[i])) > 1e-4*(1+math.Abs(float64(want[i]))) {
			t.Fatalf("output %d: %v, want %v", i, got, want[i])
		}
	}
	samples, err := loaded.Time(ctx, "__tvm_main__", rpc.TimeOptions{Number: 1, Repeat: 2}, args...)
	if err != nil || len(samples) != 2 {
		t.Errorf("timing: %v, %v", samples, err)
	}
	_, err = f.Call(ctx, args[0])
	wantError(t, err, "", "TypeError: Expected ")
}

// TestBoard loads modules of TVM 0.27, C and objects of its LLVM, into RAM and in firmware.
func TestBoard(t *testing.T) {
	t.Parallel()
	modules := tvmModules(t)
	onOneOf(t, "boards of TVM's modules", []string{"host", "mps2_an386", "qemu_riscv32"}, func(t *testing.T, name string) {
		t.Parallel()
		b, session := openBoard(t, t.TempDir(), name, tune.Options{})
		for _, form := range []string{"c", name} {
			if form == "host" && runtime.GOARCH != "amd64" {
				t.Logf("the objects of host are for amd64, not %s", runtime.GOARCH)
				continue
			}
			for operator, o := range boardOperators {
				loaded, err := b.Load(t.Context(), modules[operator+"_"+form])
				must(t, err)
				if loaded.Session() != session {
					t.Errorf("%s, %s: another session", operator, form)
				}
				runModule(t, loaded, o)
			}
		}
		refuseModules(t, b, modules)
		failAtLength(t, b)
		loaded := load(t, b, packedModule)
		for _, entry := range []string{"main", "default_function", "__tvm_main__"} {
			expectNumber(t, loaded, entry, 41)
		}
		inFlash := load(t, b, largeModule)
		if inFlash.Session() == session {
			t.Error("the module does not fit into RAM, but the session is the same")
		}
		expectNumber(t, inFlash, "main", 77)
		expectNumber(t, inFlash, "f", 5)
		loadModel(t, b)
		stopModule(t, b)
	})
}

// loadModel loads an archive as AutoTVM's module loader uploads it.
func loadModel(t *testing.T, b serve.Place) {
	t.Helper()
	loaded, err := b.Load(t.Context(), readFile(t, mlftest.Path(t, "matmul_00")))
	must(t, err)
	var args []any
	var out *rpc.Tensor
	specs := matmuls(t)[0].Args
	for _, a := range specs {
		out, err = loaded.Session().Empty(t.Context(), a.DType, a.Shape)
		must(t, err)
		if a.Data != nil {
			must(t, out.Write(t.Context(), a.Data))
		}
		args = append(args, out)
	}
	_, err = function(t, loaded, "__tvm_main__").Call(t.Context(), args...)
	must(t, err)
	if got, err := out.Array(t.Context()); err != nil || !bytes.Equal(got.Data, specs[len(specs)-1].Want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestBoardWithoutRAM loads modules into firmware, because none fits into the RAM for code.
func TestBoardWithoutRAM(t *testing.T) {
	t.Parallel()
	modules := tvmModules(t)
	onOneOf(t, "firmware", []string{"host", "mps2_an386", "qemu_riscv32"}, func(t *testing.T, name string) {
		t.Parallel()
		small := map[string]boards.Options{"": {UploadKiB: 1}}
		b, _ := openBoard(t, t.TempDir(), name, tune.Options{Memory: small})
		for _, module := range []string{"conv2d_" + name, "exp_" + name, "conv2d_c"} {
			if name == "host" && runtime.GOARCH != "amd64" {
				module = "exp_c" // the objects of host are for amd64
			}
			loaded, err := b.Load(t.Context(), modules[module])
			must(t, err)
			operator, _, _ := strings.Cut(module, "_")
			runModule(t, loaded, boardOperators[operator])
			again, err := b.Load(t.Context(), modules[module])
			must(t, err)
			if again.Session() != loaded.Session() {
				t.Errorf("%s: the same firmware was started again", module)
			}
		}
		expectNumber(t, load(t, b, packedByVariables), "main", 43)
	})
}

// TestFFICandidate measures a candidate with the ABI of TVM 0.21, in RAM and in firmware, and reads it from the run.
func TestFFICandidate(t *testing.T) {
	t.Parallel()
	r, dir := opened(t, tune.Options{}, "host")
	c := operator("ffi", "")
	c.Operators.ABI = mlf.ABITVMFFI
	c.Operators.Files[0].Data = []byte(ffiHead + `
int32_t __tvm_ffi_twice(void* self, void* args, int32_t num_args, void* result) {
  const int32_t* in = ((DLTensor*)((TVMFFIAny*)args)[0].v_ptr)->data;
  int32_t* out = ((DLTensor*)((TVMFFIAny*)args)[1].v_ptr)->data;
  for (int i = 0; i < 4; i++) out[i] = 2 * in[i];
  return 0;
}
`)
	result := measured(t, r, c)
	wantTime(t, result, true)
	confirm(t, r, 1)
	testkit.Equal(t, "ABI", stored(t, dir, result).Operators.ABI, mlf.ABITVMFFI)
	c.ID, c.Operators.ABI = "packed", mlf.ABIPacked
	result = measured(t, r, c)
	if result.Failure == nil || result.Failure.Class != failure.Link && result.Failure.Class != failure.Compile {
		t.Errorf("as a packed function: %+v", result)
	}
	c.ID, c.Operators.ABI = "unknown", mlf.ABIUnpacked
	wantFailure(t, measured(t, r, c), failure.Config)
}

// packedModule is as TVM 0.14 writes modules of one operator.
const packedModule = `#include "tvm/runtime/c_runtime_api.h"
TVM_DLL int32_t main(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  ((TVMValue*)out_ret_value)->v_int64 = 41;
  *out_ret_tcode = kTVMArgInt;
  return 0;
}
// CodegenC: NOTE: Auto-generated entry function
TVM_DLL int32_t __tvm_main__(void* args, int* arg_type_ids, int num_args, void* out_ret_value, int* out_ret_tcode, void* resource_handle) {
  return main(args, arg_type_ids, num_args, out_ret_value, out_ret_tcode, resource_handle);
}
`

// packedByVariables calls the runtime as objects of TVM's LLVM do up to 0.20.
const packedByVariables = `#include "tvm/runtime/c_runtime_api.h"
__attribute__((weak)) void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
__attribute__((weak)) int (*__TVMBackendFreeWorkspace)(int, int, void*);
extern void no_such_hook(void) __attribute__((weak));
static const volatile uint8_t table[4096] = {[1] = 43};
TVM_DLL int32_t main(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  void* w = __TVMBackendAllocWorkspace(1, 0, 64, 2, 8);
  if (no_such_hook != NULL) no_such_hook();
  if (w == NULL || __TVMBackendFreeWorkspace(1, 0, w) != 0) return -1;
  ((TVMValue*)out_ret_value)->v_int64 = table[1];
  *out_ret_tcode = kTVMArgInt;
  return 0;
}
TVM_DLL int32_t __tvm_main__(void* args, int* arg_type_ids, int num_args, void* out_ret_value, int* out_ret_tcode, void* resource_handle) {
  return main(args, arg_type_ids, num_args, out_ret_value, out_ret_tcode, resource_handle);
}
`

// ffiHead begins C modules of TVM 0.21 and later.
const ffiHead = `#include "tvm/ffi/c_api.h"
void* __tvm_ffi__library_ctx = NULL;
#define RESULT (*(TVMFFIAny*)result)
`

// ffiMain returns the function of such a module, with its body.
func ffiMain(body string) string {
	return "int32_t __tvm_ffi_main(void* self, void* args, int32_t num_args, void* result) {\n" + body + "\n}\n"
}

// largeModule does not fit into the RAM for code, has two operators, and an error of its own.
const largeModule = ffiHead + `static const volatile uint8_t table[200000] = {[1] = 77};
int32_t __tvm_ffi_main(void* self, void* args, int32_t num_args, void* result) {
  RESULT.type_index = kTVMFFIInt;
  RESULT.v_int64 = table[1];
  return 0;
}
int32_t __tvm_ffi_f(void* self, void* args, int32_t num_args, void* result) {
  RESULT.type_index = kTVMFFIInt;
  RESULT.v_int64 = table[2] + 5;
  return 0;
}
`

func expectNumber(t *testing.T, loaded rpc.Module, entry string, want int64) {
	t.Helper()
	got, err := function(t, loaded, entry).Call(t.Context())
	must(t, err)
	testkit.Equal(t, entry, got, any(want))
}

// failAtLength calls functions with long errors: a text ends after a word.
func failAtLength(t *testing.T, b serve.Place) {
	t.Helper()
	for text, want := range map[string]string{
		strings.Repeat("word ", 70) + "end":         "device: ValueError: " + strings.Repeat("word ", 70) + "end",
		strings.Repeat("longer words ", 30) + "end": "device: ValueError: " + strings.Repeat("longer words ", 28) + "...",
	} {
		loaded := load(t, b, ffiHead+ffiMain(`TVMFFIErrorSetRaisedFromCStr("ValueError", "`+text+`"); return -1;`))
		if _, err := function(t, loaded, "main").Call(t.Context()); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// refuseModules loads modules that cannot be built. The board can be used after each.
func refuseModules(t *testing.T, b serve.Place, modules map[string][]byte) {
	t.Helper()
	operator := func(body string) []byte {
		return packed(t, "lib0.c", ffiHead+"int no_such_function(void);\n"+ffiMain(body))
	}
	for _, c := range []struct {
		module []byte
		class  failure.Class
		text   string
	}{
		{operator("return no_such_function();"), failure.Link, "no_such_function"},
		{operator("return 0"), failure.Compile, "lib0.c"},
		{modules["matmul_soft"], "", "lib0.o"}, // config where the board's file has the processor, else link
		{[]byte("no tar"), failure.Config, "not a tar"},
	} {
		_, err := b.Load(t.Context(), c.module)
		class := failure.Of(err)
		if err == nil || class != c.class && (c.class != "" || class != failure.Config && class != failure.Link) ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("class %q: %v, want %q with %q", class, err, c.class, c.text)
		}
		if _, err := b.Open(t.Context()); err != nil {
			t.Fatalf("after %v: %v", err, err)
		}
	}
}

// stopModule ends a call of a module that does not return, and releases the board, which has all its RAM again.
func stopModule(t *testing.T, b serve.Place) {
	t.Helper()
	must(t, b.Release(t.Context()))
	before := free(t, b)
	f := function(t, load(t, b, ffiHead+ffiMain("for (volatile int i = 0;; i++) {}")), "main")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := f.Call(ctx); err == nil {
		t.Error("a call that does not return has ended without an error")
	}
	must(t, b.Release(t.Context()))
	testkit.Equal(t, "bytes of RAM after Release", free(t, b), before)
	expectFree(t, b)
}

// TestOperatorsLeaveNoState: what an operator's code changes besides its results, another operator does not get: the
// floating-point mode, masked interrupts, and a process's signal mask, working folder and mask of files.
func TestOperatorsLeaveNoState(t *testing.T) {
	t.Parallel()
	names := []string{"mps2_an386", "qemu_riscv32", "mps2_an385", "mps3_an547"}
	for _, name := range append([]string{"host"}, drawn.Of(t, "boards with a state", names, 1)...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, session := openBoard(t, t.TempDir(), name, tune.Options{})
			call := func(body string) any {
				t.Helper()
				loaded := load(t, b, processorState+ffiMain(body))
				got, err := function(t, loaded, "main").Call(t.Context())
				must(t, err)
				if loaded.Session() != session {
					t.Error("the board was restarted")
				}
				return got
			}
			const read = "RESULT.type_index = kTVMFFIInt;\nRESULT.v_int64 = state();\nreturn 0;\n"
			before := call(read)
			for range 2 {
				if changed := call("change();\n" + read); changed == before {
					t.Errorf("the operator changes nothing: %#x", changed)
				}
			}
			testkit.Equal(t, "state", call(read), before)
		})
	}
}

// processorState begins a module with functions that read the state and change all of it.
const processorState = ffiHead + `
static int64_t numbers(void) { // a third, rounded, and whether a number without leading one is 0
  volatile float one = 1, three = 3, tiny = 1e-40f;
  volatile float third = one / three, sum = tiny + tiny;
  int32_t bits[2];
  __builtin_memcpy(&bits[0], (const void*)&third, 4);
  __builtin_memcpy(&bits[1], (const void*)&sum, 4);
  return bits[0] + (bits[1] == 0);
}
#if defined(__thumb__)
#ifdef __ARM_ARCH_6M__
#define FOR_ALL(X) X(primask) X(control)
#else
#define FOR_ALL(X) X(primask) X(basepri) X(faultmask) X(control)
#endif
#define FPDSCR *(volatile uint32_t*)0xE000EF3C
#define READ(name) __asm__ volatile("mrs %0, " #name : "=r"(value)); all = all * 31 + (value & ~4);
static int64_t state(void) {
  int64_t all = numbers();
  int32_t value;
  FOR_ALL(READ)
#ifdef __ARM_FP
  all = all * 31 + FPDSCR;
#endif
  return all;
}
static void change(void) {
#ifdef __ARM_FP
  __asm__ volatile("vmsr fpscr, %0" ::"r"(0x03c00000));
  FPDSCR = 0x03c00000; // the mode of new contexts
#endif
#ifndef __ARM_ARCH_6M__
  __asm__ volatile("msr basepri, %0\n cpsid f" ::"r"(0x40));
#endif
  __asm__ volatile("cpsid i");
}
#elif defined(__riscv)
static int64_t state(void) {
  uintptr_t status;
  __asm__ volatile("csrr %0, mstatus" : "=r"(status));
  return numbers() * 31 + (status & 8);
}
static void change(void) {
#ifdef __riscv_flen
  __asm__ volatile("csrw fcsr, %0" ::"r"(0x7f));
#endif
  __asm__ volatile("csrci mstatus, 8");
}
#else
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
static int64_t state(void) {
  char folder[1024] = "";
  sigset_t signals;
  const mode_t mask = umask(0);
  int64_t all = numbers() * 31 + mask;
  umask(mask);
  sigprocmask(SIG_SETMASK, 0, &signals);
  for (const char* at = getcwd(folder, sizeof folder); at != 0 && *at != 0; at++) all = all * 31 + *at;
  return all * 31 + sigismember(&signals, SIGALRM);
}
static void change(void) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, 0);
  if (chdir("/") != 0) __builtin_trap();
  umask(077);
#ifdef __x86_64__
  const uint32_t mode = 0x1f80 | 0x6000 | 0x8040;
  __asm__ volatile("ldmxcsr %0" ::"m"(mode));
#endif
}
#endif
`

// TestMuteBoard: a board that is alive and does not reply any more, at the end of a client's use or between two, is
// restarted within seconds, and has the memory of the client before.
func TestMuteBoard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/mute board"
	name := drawn.Of(t, "mute board", []string{"host", "mps2_an386"}, 1)[0]
	b, s := openBoard(t, dir, name, tune.Options{})
	_, err := s.Alloc(t.Context(), 1<<14, 8)
	must(t, err)
	for _, use := range []func() error{
		func() error { return b.Release(t.Context()) },
		func() error { must(t, b.Release(t.Context())); stopProcesses(t, dir); return nil },
	} {
		stopProcesses(t, dir)
		must(t, use())
		_, err := b.Open(testkit.Context(t))
		must(t, err)
		expectFree(t, b)
	}
}

// TestSlowBoard: a board whose replies take long is not restarted at the end of a client's use.
func TestSlowBoard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/slow board"
	b, _ := openBoard(t, dir, "host", tune.Options{OnEvent: func(e tune.Event) {
		if e.Err != nil {
			t.Errorf("%s: %v", e.Text, e.Err)
		}
	}})
	for _, use := range []func() error{
		func() error { _, err := b.Open(t.Context()); return err },
		func() error { return b.Release(t.Context()) },
	} {
		for _, pid := range stopProcesses(t, dir) {
			time.AfterFunc(1500*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		}
		must(t, use())
	}
}

// stopProcesses stops the processes of a folder, as a debugger does: they are alive and mute.
func stopProcesses(t *testing.T, dir string) []int {
	t.Helper()
	stopped := signalled(t, dir, "", syscall.SIGSTOP)
	if len(stopped) == 0 {
		t.Fatalf("no process of %s", dir)
	}
	return stopped
}

// signalled signals the processes whose command line has a folder and a program.
func signalled(t *testing.T, dir, program string, signal syscall.Signal) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, name := range all {
		line, _ := os.ReadFile(name) // it may have ended
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && bytes.Contains(line, []byte(dir)) && bytes.Contains(line, []byte(program)) &&
			syscall.Kill(pid, signal) == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestInterruptedLoads ends loads at any moment. The board has all its RAM again after each Release.
func TestInterruptedLoads(t *testing.T) {
	t.Parallel()
	b, _ := openBoard(t, t.TempDir(), "host", tune.Options{})
	modules := [][]byte{packed(t, "lib0.c", packedModule), packed(t, "lib1.c", packedModule)}
	for _, m := range modules { // later loads link nothing
		_, err := b.Load(t.Context(), m)
		must(t, err)
		must(t, b.Release(t.Context()))
	}
	all := free(t, b)
	begun := time.Now()
	_, err := b.Load(t.Context(), modules[0])
	must(t, err)
	took := time.Since(begun)
	random := drawn.Rand(t, "moments")
	for range drawn.Count(15, 400) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(2*took))))
		for _, m := range modules {
			_, _ = b.Load(ctx, m)
		}
		cancel()
		must(t, b.Release(t.Context()))
		testkit.Equal(t, "bytes of RAM after Release", free(t, b), all)
	}
	expectFree(t, b)
}

// expectFree loads a small module.
func expectFree(t *testing.T, b serve.Place) {
	t.Helper()
	expectNumber(t, load(t, b, packedModule), "main", 41)
}
