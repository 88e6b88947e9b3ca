package project

import (
	"strings"
	"testing"

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
				"types", "both", "truth", "text", "nothing", "object", "silent", "refuses", "refuses_once", "workspace", "huge",
				"parallel", "calls", "other",
			}
			m := uploaded(t, s, l, Operators{ABI: mlf.ABITVMFFI, Entries: entries, Files: []OperatorFile{
				{Name: "lib0.c", Data: []byte(ffiOperators)},
				{Name: "lib1.c", Data: []byte(strings.ReplaceAll(ffiOperators[:strings.Index(ffiOperators, "FFI(types)")],
					"static", "") + "FFI(other) { return 0; }\n")},
			}})
			tensor, err := s.NewArray(t.Context(), &ndarray.Array{
				DType: ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}, Shape: []int64{2},
				Data: []byte{0, 0, 0, 0, 0, 0, 0x20, 0x41}, // 0 and 10
			})
			must(t, err)
			many := make([]any, 25)
			for i := range many {
				many[i] = 1
			}
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
				{"silent", nil, nil, "silent: returned -1 without an error text"},
				{"refuses", nil, nil, "ValueError: Mismatched a.ndim on argument #0"},
				{"refuses_once", nil, nil, "TypeError: only tensors"},
				{"silent", nil, nil, "silent: returned -1 without an error text"}, // nor that of the last call
				{"workspace", nil, int64(7), ""},
				{"huge", nil, nil, "out of workspace memory"},
				{"parallel", nil, int64(11), ""},
				{"calls", nil, nil, "other.f: the operator calls this function by name"},
			} {
				f, err := m.Function(t.Context(), c.name)
				must(t, err)
				got, err := f.Call(t.Context(), c.args...)
				failed := err != nil && c.err != "" && strings.Contains(err.Error(), c.err)
				if !failed && (err != nil || c.err != "" || got != c.want) {
					t.Errorf("%s(%v): %v, %v, want %v%s", c.name, c.args, got, err, c.want, c.err)
				}
			}
			if _, err := m.Time(t.Context(), "silent", rpc.TimeOptions{Number: 1, Repeat: 1}); err == nil ||
				!strings.Contains(err.Error(), "without an error text") {
				t.Errorf("timing an operator that fails: %v", err)
			}
		})
	}
}
