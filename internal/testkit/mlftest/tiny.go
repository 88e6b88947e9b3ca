// This file makes a small archive whose files a test may change.

package mlftest

import (
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
)

const tinyRegistry = `#include <tvm/runtime/crt/module.h>
TVM_DLL int32_t twice(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, void* resource_handle);
static TVMBackendPackedCFunc _tvm_func_array[] = {
    (TVMBackendPackedCFunc)twice,
};
static const TVMFuncRegistry _tvm_func_registry = {
    "\001\000twice\000",    _tvm_func_array,
};
static const TVMModule _tvm_system_lib = {
    &_tvm_func_registry,
};
const TVMModule* TVMSystemLibEntryPoint(void) {
    return &_tvm_system_lib;
}
;`

// TinyOperator is the operator's source in Tiny.
const TinyOperator = `// tvm target: c -keys=cpu
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
#include <math.h>
#include <stdbool.h>
TVM_DLL int32_t twice(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  int32_t* in = (int32_t*)((DLTensor*)(((TVMValue*)args)[0].v_handle))->data;
  int32_t* out = (int32_t*)((DLTensor*)(((TVMValue*)args)[1].v_handle))->data;
  for (int32_t i = 0; i < 4; ++i) {
    out[i] = in[i] * 2;
  }
  return 0;
}
`

const tinyMetadata = `{"version": 7, "model_name": "twice", "export_datetime": "2020-01-01 00:00:00Z", "memory": {"twice": [` +
	`{"size_bytes": 16, "shape": [4], "dtype": "int32", "input_binding": null}, {"size_bytes": 16, "shape": [4], "dtype": "int32", "input_binding": null}]}, ` +
	`"target": ["c -keys=cpu"], "executors": [], "style": "operator"}`

// Operator writes the archive of Tiny with another source of its operator.
func Operator(t testing.TB, source string) string {
	t.Helper()
	return Tiny(t, map[string]string{"codegen/host/src/lib1.c": source})
}

// Edited writes the archive of Tiny with other texts in its operator: pairs of an old one, which it must contain, and a
// new one.
func Edited(t testing.TB, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(TinyOperator, pairs[i]) {
			t.Fatalf("the operator has no %q", pairs[i])
		}
	}
	return Operator(t, strings.NewReplacer(pairs...).Replace(TinyOperator))
}

// Tiny writes an archive of one operator, out[i] = in[i] * 2. changes replaces or adds files ("" removes one).
func Tiny(t testing.TB, changes map[string]string) string {
	t.Helper()
	files := map[string]string{
		"metadata.json":                tinyMetadata,
		"codegen/host/src/lib0.c":      tinyRegistry,
		"codegen/host/src/lib1.c":      TinyOperator,
		"src/tir-1.txt":                "# nothing\n",
		"runtime/include/unneeded.txt": "TVM's own runtime is not extracted",
	}
	for name, text := range changes {
		files[name] = text
	}
	var names []string
	for name := range files {
		if files[name] != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var members []mlf.File
	for _, name := range names {
		members = append(members, mlf.File{Name: name, Data: []byte(files[name])})
	}
	path := filepath.Join(t.TempDir(), "tiny.tar")
	testkit.WriteFile(t, path, string(Tar(t, members...)))
	return path
}
