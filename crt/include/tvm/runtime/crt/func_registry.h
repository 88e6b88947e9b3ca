// SPDX-License-Identifier: Apache-2.0
//
// Tables of named functions: const tables in flash (a model's, the runtime's own) and a table that grows.
//
// names is one block of bytes: u16 count in native byte order, then every name with
// its NUL, then one more NUL. An example with two functions:
// "\002\000add\000__tvm_main__\000" (the literal adds the last NUL).
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

// Returns the first name, or "".
const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg);

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg);

// Writes the count of a registry whose names lie in RAM. Returns 0.
int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry* reg, const uint16_t num_funcs);

// Finds name's position; on kTvmErrorFunctionNameNotFound *function_index is unchanged. The empty name ends the search,
// not the count. O(bytes of names).
tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                       tvm_function_index_t* function_index);

// Stores the function at a position; kTvmErrorFunctionIndexInvalid if index >= count.
tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry* reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc* out_func);

// A registry in one buffer: names from its start, pointers at its end.
typedef struct TVMMutableFuncRegistry {
  TVMFuncRegistry registry;
  size_t max_functions;
} TVMMutableFuncRegistry;

// The space per function assumes names of ten bytes. Longer names reduce the number of functions.
#define TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES 10
#define TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES (TVM_AVERAGE_FUNCTION_NAME_STRLEN_BYTES + 1 + sizeof(void*))

// Makes an empty registry in buffer, which must be aligned for pointers and stay valid, for at most buffer_size_bytes /
// TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES functions; kTvmErrorBufferTooSmall if that is 0. The size is rounded down to a
// multiple of the pointer size.
tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer, size_t buffer_size_bytes);

// Adds name, or replaces its function if override is nonzero.
// kTvmErrorFunctionAlreadyDefined if it exists and override is 0,
// kTvmErrorFunctionRegistryFull if the entry or the name does not fit.
tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry* reg, const char* name, TVMBackendPackedCFunc func,
                                           int override);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_FUNC_REGISTRY_H_
