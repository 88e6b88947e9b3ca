// SPDX-License-Identifier: Apache-2.0
//
// Tables of named functions: const ones in flash (a model's, the runtime's own) and
// one that grows.
//
// names is one block of bytes: u16 count in native byte order, then every name with
// its NUL, then one more NUL. An example with two functions:
// "\002\000add\000__tvm_main__\000" (the literal's own NUL is the last).
#ifndef TVM_RUNTIME_CRT_FUNC_REGISTRY_H_
#define TVM_RUNTIME_CRT_FUNC_REGISTRY_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t tvm_function_index_t;
typedef uint16_t tvm_module_index_t;

typedef struct TVMFuncRegistry {
  const char* names;
  const TVMBackendPackedCFunc* funcs;  // in the order of the names
} TVMFuncRegistry;

// The first name, or "".
const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg);

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg);

// Writes the count of a registry whose names lie in RAM. Returns 0.
int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry* reg, const uint16_t num_funcs);

// Finds name's position; kTvmErrorFunctionNameNotFound leaves *function_index. The end of the
// names is the empty name; the count is not looked at. O(bytes of names).
tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                       tvm_function_index_t* function_index);

// The function at a position; kTvmErrorFunctionIndexInvalid if index >= count.
tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry* reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc* out_func);

// A registry in one buffer: names from its start, pointers at its end.
typedef struct TVMMutableFuncRegistry {
  TVMFuncRegistry registry;
  size_t max_functions;
} TVMMutableFuncRegistry;

// The room per function is planned for names of ten bytes. Longer ones leave less room.
#define TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES 10
#define TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES (TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES + 1 + sizeof(void*))

// Makes an empty registry in buffer, which must stay and be aligned for pointers; at most
// buffer_size_bytes / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES functions.
// kTvmErrorBufferTooSmall if that is none. A size that is no multiple of the pointer size
// loses its last bytes.
tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer, size_t buffer_size_bytes);

// Adds name, or replaces its function if override is nonzero.
// kTvmErrorFunctionAlreadyDefined if it exists and override is 0,
// kTvmErrorFunctionRegistryFull if there is no room for the entry or the name.
tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry* reg, const char* name, TVMBackendPackedCFunc func,
                                           int override);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_FUNC_REGISTRY_H_
