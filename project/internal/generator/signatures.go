// This file generates the C by which the runtime compares calls with what a model's functions take.

package generator

import (
	"bytes"
	"fmt"

	"github.com/boardsmith/boardsmith/mlf"
)

// Signatures returns a C source with the signatures of a model's functions, for the runtime (boardsmith/boardsmith.h),
// or nil without any. A function that the linker does not find has none.
func Signatures(m *mlf.Model) []byte {
	all := m.Signatures()
	if len(all) == 0 {
		return nil
	}

	var w bytes.Buffer
	w.WriteString(`// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith from the model's metadata: how many tensors functions take, as their first arguments, at least and
// at most.
#include <boardsmith/boardsmith.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#define PACKED(name)                                                                                  \
  int32_t name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type_code, \
               void* resource_handle) TVM_WEAK

`)
	for _, s := range all {
		fmt.Fprintf(&w, "PACKED(%s);\n", s.Function)
	}

	w.WriteString("\nconst boardsmith_signature_t boardsmith_signatures[] = {\n")
	for _, s := range all {
		fmt.Fprintf(&w, "    {(TVMBackendPackedCFunc)%s, %d, %d, %d},\n", s.Function, s.Leading, s.MinTensors, s.MaxTensors)
	}

	w.WriteString(`    {NULL, 0, 0, 0},
};

const boardsmith_signature_t* boardsmith_library_signatures(void) { return boardsmith_signatures; }
`)
	return w.Bytes()
}
