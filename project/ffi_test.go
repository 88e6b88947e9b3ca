package project

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// ffiOperators are operators with TVM 0.21's ABI, as its code generators write them. The weak variables are as in
// objects of its LLVM.
const ffiOperators = `#define TVM_EXPORTS
#include "tvm/ffi/extra/c_env_api.h"
#include "tvm/runtime/base.h"
#include "tvm/runtime/c_backend_api.h"
#include "tvm/ffi/c_api.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>
void* __tvm_ffi__library_ctx = NULL;
#define FFI(name) \
  TVM_DLL int32_t __tvm_ffi_##name(void* self_handle, void* args, int32_t num_args, void* result); \
  TVM_DLL int32_t __tvm_ffi_##name(void* self_handle, void* args, int32_t num_args, void* result)
#define ARG(i) (((TVMFFIAny*)args)[i])
#define RESULT (*(TVMFFIAny*)result)
__attribute__((weak)) void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
__attribute__((weak)) int (*__TVMBackendFreeWorkspace)(int, int, void*);
__attribute__((weak)) int (*__TVMBackendParallelLaunch)(FTVMParallelLambda, void*, int);
__attribute__((weak)) int (*__TVMFFIEnvModLookupFromImports)(void*, const char*, void**);
__attribute__((weak)) int (*__TVMFFIHandleInitOnce)(void**, int (*)(void**));
FFI(types) {  // the types of all arguments, as digits
  RESULT.v_int64 = 0;
  for (int i = 0; i < num_args; i++) {
    if (ARG(i).zero_padding != 0) return -1;
    RESULT.v_int64 = RESULT.v_int64 * 10 + ARG(i).type_index;
  }
  RESULT.type_index = kTVMFFIInt;
  return 0;
}
FFI(both) {  // a tensor, a number, a float and a text
  const DLTensor* t = ARG(0).v_ptr;
  RESULT.type_index = kTVMFFIFloat;
  RESULT.v_float64 = ((float*)t->data)[1] + (double)ARG(1).v_int64 + ARG(2).v_float64 + (double)strlen(ARG(3).v_c_str);
  return 0;
}
FFI(truth) { RESULT.type_index = kTVMFFIBool; RESULT.v_int64 = 1; return 0; }
FFI(text) { RESULT.type_index = kTVMFFIRawStr; RESULT.v_c_str = "a text"; return 0; }
FFI(nothing) { return 0; }
FFI(object) { RESULT.type_index = kTVMFFITensor; RESULT.v_ptr = args; return 0; }
FFI(silent) { return -1; }
FFI(seven) { return 7; }
extern void no_such_hook(void) __attribute__((weak));
extern int no_such_number __attribute__((weak));
FFI(hooks) {  // weak symbols that nothing defines are 0
  if (no_such_hook != NULL) no_such_hook();
  RESULT.type_index = kTVMFFIInt;
  RESULT.v_int64 = (&no_such_number == NULL) ? 3 : no_such_number;
  return 0;
}
FFI(refuses) {
  const char* parts[3] = {"Mismatched ", "a", ".ndim on argument #0"};
  TVMFFIErrorSetRaisedFromCStrParts("ValueError", parts, 3);
  return -1;
}
FFI(refuses_once) { TVMFFIErrorSetRaisedFromCStr("TypeError", "only tensors"); return -1; }
FFI(workspace) {
  uint8_t* w = __TVMBackendAllocWorkspace(1, 0, 100ULL, 2, 8);
  if (w == NULL) return -1;
  w[99] = 7;
  RESULT.type_index = kTVMFFIInt;
  RESULT.v_int64 = w[99];
  return __TVMBackendFreeWorkspace(1, 0, w);
}
FFI(huge) { return (__TVMBackendAllocWorkspace(1, 0, 1ULL << 40, 2, 8) == NULL) ? -1 : 0; }
static int task(int id, TVMParallelGroupEnv* env, void* data) {
  *(int64_t*)data += 10 * (id + 1) + env->num_task;
  return TVMBackendParallelBarrier(id, env);
}
FFI(parallel) { RESULT.type_index = kTVMFFIInt; return __TVMBackendParallelLaunch(task, &RESULT.v_int64, 4); }
static void* handle;
static int look_up(void** out) { return __TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, "other.f", out); }
FFI(calls) {
  if (__TVMFFIHandleInitOnce(&handle, look_up) != 0) return -1;
  return TVMFFIFunctionCall(handle, args, num_args, result);
}
`

// TestFFIOperators calls operators with TVM 0.21's ABI, of two files that both define TVM's variable.
func TestFFIOperators(t *testing.T) {
	t.Parallel()
	for _, board := range []string{"host", "mps2_an386", "qemu_riscv32"} {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			s, l, _ := openRAM(t, board)
			entries := []string{
				"types", "both", "truth", "text", "nothing", "object", "silent", "seven", "refuses", "refuses_once", "workspace",
				"huge", "parallel", "calls", "hooks", "other",
			}
			m := uploaded(t, s, l, Operators{ABI: mlf.ABITVMFFI, Entries: entries, Files: []mlf.File{
				{Name: "lib0.c", Data: []byte(ffiOperators)},
				{Name: "lib1.c", Data: []byte(strings.ReplaceAll(ffiOperators[:strings.Index(ffiOperators, "FFI(types)")],
					"static", "") + "FFI(other) { return 0; }\n")},
			}})
			tensor, err := s.NewArray(t.Context(), array(float32Type, []int64{2}, 0, 10))
			must(t, err)
			many := slices.Repeat([]any{1}, 25)
			for _, c := range []struct {
				name string
				args []any
				want any    // or
				err  string // contained in the error
			}{
				{"types", []any{tensor, 1, 1.5, "text", []byte("bytes"), nil}, int64(713890), ""},
				{"types", many[:18], int64(111111111111111111), ""},
				{"types", many, nil, "too many arguments"},
				{"types", []any{m}, nil, "an argument is a function, a module or an object"},
				{"both", []any{tensor, int64(-3), 0.25, "four"}, 11.25, ""},
				{"truth", nil, int64(1), ""},
				{"text", nil, "a text", ""},
				{"nothing", nil, nil, ""},
				{"other", nil, nil, ""},
				{"object", nil, nil, "object: returned an object of TVM"},
				{"silent", nil, nil, "silent: failed without an error text"},
				{"seven", nil, nil, "seven: failed without an error text"},
				{"refuses", nil, nil, "ValueError: Mismatched a.ndim on argument #0"},
				{"refuses_once", nil, nil, "TypeError: only tensors"},
				{"silent", nil, nil, "silent: failed without an error text"}, // nor that of the last call
				{"workspace", nil, int64(7), ""},
				{"huge", nil, nil, "out of workspace memory"},
				{"parallel", nil, int64(11), ""},
				{"hooks", nil, int64(3), ""},
				{"calls", nil, nil, "other.f: the operator calls this function by name"},
			} {
				f, err := m.Function(t.Context(), c.name)
				must(t, err)
				got, err := f.Call(t.Context(), c.args...)
				if testkit.WantErrorIf(t, c.err != "", err, "", c.err); got != c.want {
					t.Errorf("%s(%v): %v, want %v", c.name, c.args, got, c.want)
				}
			}
			_, err = m.Time(t.Context(), "silent", rpc.TimeOptions{Number: 1, Repeat: 1})
			wantError(t, err, "", "without an error text")
		})
	}
}

// TestWrongArguments calls a model's functions with scalars where they take tensors, and with too few and too many
// tensors: the firmware refuses the calls, goes on without a reset, and still accepts right ones. Parts of the archive
// lie in flash or, as LOAD=ram has it, in RAM. A full run draws six of the twelve.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	type loaded struct{ board, archive, load string }
	var all []loaded
	for _, board := range []string{"host", "mps2_an385"} {
		for _, archive := range []string{"matmul_00", "add.graph", "add.aot_packed"} {
			all = append(all, loaded{board, archive, "flash"}, loaded{board, archive, "RAM"})
		}
	}
	for _, c := range drawn.Of(t, "wrong arguments", all, 1) {
		t.Run(c.board+"/"+c.archive+"/"+c.load, func(t *testing.T) {
			p := generated(t, Spec{Board: c.board, Model: mlftest.Path(t, c.archive)})
			s, lib := started(t, p, c.load)
			for _, signature := range modelOf(t, p).Signatures() {
				refuses(t, s, lib, signature)
			}
		})
	}
}

// started runs the project's model, and returns the module of its functions.
func started(t *testing.T, p *Project, load string) (*rpc.Session, rpc.Module) {
	t.Helper()
	if load == "RAM" {
		_, s, lib, err := startedInRAM(t, p)
		must(t, err)
		return s, lib
	}
	s := running(t, p)
	lib, err := s.SystemLib(t.Context())
	must(t, err)
	return s, lib
}

// refuses calls a function, and has it timed, with arguments that do not match its signature. A tensor of before keeps
// its elements: the device was not reset.
func refuses(t *testing.T, s *rpc.Session, lib rpc.Module, signature mlf.Signature) {
	t.Helper()
	f, err := lib.Function(t.Context(), signature.Function)
	must(t, err)
	marks := slices.Repeat([]byte{1, 2, 3, 0}, 4096)
	x, err := s.NewArray(t.Context(), &ndarray.Array{DType: int32Type, Shape: []int64{4096}, Data: marks})
	must(t, err)
	tensors := slices.Repeat([]any{x}, signature.MaxTensors+1)
	right := tensors[:signature.MinTensors]
	cases := map[string][]any{"none": {}, "too few": tensors[1:signature.MinTensors], "too many": tensors}
	for name, wrong := range map[string]any{
		"int": 1, "far int": 0x18000000, "string": "tensor", "null": nil, "float": 1.5,
	} {
		for i := range right {
			with := slices.Clone(right)
			with[i] = wrong
			cases[fmt.Sprint(name, i)] = with
		}
		cases[name+" first"] = append([]any{wrong}, right...)
	}
	for name, args := range cases {
		_, called := f.Call(t.Context(), args...)
		_, timed := lib.Time(t.Context(), f.Name(), rpc.TimeOptions{Number: 2}, args...)
		if e := refusalOf(t, called); !strings.Contains(e.Message, "tensors") || !strings.Contains(e.Message, f.Name()) ||
			failure.Of(called) != failure.Config || !strings.Contains(refusalOf(t, timed).Message, f.Name()) {
			t.Errorf("%s(%s): %v; timed: %v", f.Name(), name, called, timed)
		}
	}
	if got, err := x.Array(t.Context()); err != nil || !bytes.Equal(got.Data, marks) {
		t.Errorf("%s: the tensor has changed: %v", f.Name(), err)
	}
	if fault, err := s.PriorFault(t.Context()); err != nil || fault != nil {
		t.Errorf("%s: a fault: %v, %v", f.Name(), fault, err)
	}
	for _, scalars := range [][]any{nil, {7, "more"}} { // behind its tensors
		_, err := f.Call(t.Context(), slices.Concat(right, scalars)...)
		must(t, err)
	}
}

// graphPacket is larger than all graphs and some of their parameters.
const graphPacket = 1 << 16

// TestGraphOnDevice runs graphs with the device's executor. Its outputs are those of the host's, which calls the same
// operators.
func TestGraphOnDevice(t *testing.T) {
	t.Parallel()
	graphs := slices.DeleteFunc(mlftest.Archives(t), func(path string) bool {
		name := mlftest.Name(path)
		return !strings.HasSuffix(name, ".graph") && !strings.HasSuffix(name, ".graph_linked")
	})
	on := []string{"host"}
	if drawn.InFull() { // takes seconds for each
		on = append(on, "mps2_an385")
	}
	for _, board := range on {
		for _, path := range drawn.Of(t, "graphs on "+board, graphs, 1) {
			t.Run(board+"/"+mlftest.Name(path), func(t *testing.T) {
				t.Parallel()
				o := boards.Options{GraphExecutor: "device", PacketBytes: graphPacket, ArenaKiB: 1024}
				p := generated(t, Spec{Board: board, Model: path, Options: o})
				s := running(t, p)
				file, _ := mlftest.Arrays(path)
				inputs := arraysOf(t, file)
				e := opened(t, p, s)
				want := answer(t, e, inputs...)
				must(t, e.Close(t.Context()))
				got := outputsOfDevice(t, s, modelOf(t, p), inputs)
				if len(got) != len(want) {
					t.Fatalf("%d outputs, want %d", len(got), len(want))
				}
				for i := range want {
					if !bytes.Equal(got[i], want[i].Array.Data) {
						t.Errorf("output %d: % x, want % x", i, got[i], want[i].Array.Data)
					}
				}
			})
		}
	}
}

// outputsOfDevice runs the model with the executor on the device, as TVM's host does.
func outputsOfDevice(t *testing.T, s *rpc.Session, m *mlf.Model, inputs []ndarray.Named) (outputs [][]byte) {
	t.Helper()
	create, err := s.Function(t.Context(), "tvm.graph_executor.create")
	must(t, err)
	lib, err := s.SystemLib(t.Context())
	must(t, err)
	graph, err := create.Call(t.Context(), string(m.Graph), lib, int(tvmrpc.CPU.Type), int(tvmrpc.CPU.ID))
	must(t, err)
	call := func(name string, args ...any) any {
		t.Helper()
		f, err := graph.(rpc.Module).Function(t.Context(), name)
		must(t, err)
		result, err := f.Call(t.Context(), args...)
		must(t, err)
		return result
	}
	params, err := paramblob.Parse(m.Params)
	if m.Params != nil {
		must(t, err)
	}
	if len(m.Params) > graphPacket/2 { // too long for a call
		inputs = slices.Concat(params, inputs)
	} else if len(params) > 0 {
		call("load_params", m.Params)
	}
	for _, in := range inputs {
		must(t, call("get_input", in.Name).(*rpc.Tensor).Write(t.Context(), in.Array.Data))
	}
	call("run")
	for i := range int(call("get_num_outputs").(int64)) {
		a, err := call("get_output", i).(*rpc.Tensor).Array(t.Context())
		must(t, err)
		outputs = append(outputs, a.Data)
	}
	return outputs
}
