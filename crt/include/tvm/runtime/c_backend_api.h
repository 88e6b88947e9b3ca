// SPDX-License-Identifier: Apache-2.0
//
// Functions that generated operators call.
#ifndef TVM_RUNTIME_C_BACKEND_API_H_
#define TVM_RUNTIME_C_BACKEND_API_H_

#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Allocates nbytes from the platform's memory for the run of one operator. Returns NULL with a last-error text if
// memory is exhausted (operators then return -1). The hints are ignored. Operators free in reverse order.
TVM_DLL void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                                       int dtype_bits_hint);

// Frees ptr; returns nonzero if it is not an allocation of the platform's memory.
TVM_DLL int TVMBackendFreeWorkspace(int device_type, int device_id, void* ptr);

typedef struct {
  void* sync_handle;
  int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv* penv, void* cdata);

// Runs flambda once, as task 0 of 1, in the caller's thread. Ignores its result and returns 0.
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task);

// Registers ptr (a TVMBackendPackedCFunc) as global function name: the same as
// TVMFuncRegisterGlobal(name, ptr, 0).
TVM_DLL int TVMBackendRegisterSystemLibSymbol(const char* name, void* ptr);

// Only declared, as in TVM's runtime: a call does not link.
TVM_DLL int TVMBackendGetFuncFromEnv(void* mod_node, const char* func_name, TVMFunctionHandle* out);
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv);
TVM_DLL int TVMBackendRunOnce(void** handle, int (*f)(void*), void* cdata, int nbytes);
TVM_DLL int TVMBackendRegisterEnvCAPI(const char* name, void* ptr);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_C_BACKEND_API_H_
