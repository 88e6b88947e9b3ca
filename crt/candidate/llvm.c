// SPDX-License-Identifier: Apache-2.0
//
// What objects of TVM's LLVM need. Linked with uploaded code, in RAM and in firmware.
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

// Objects may call functions of the runtime through weak variables of their own, which a loader has to set. These
// definitions replace them.
#define VARIABLE(function, type) \
  extern type __##function;      \
  type __##function = &function

typedef void* (*alloc_workspace_t)(int device_type, int device_id, uint64_t nbytes, int code_hint, int bits_hint);
typedef int (*free_workspace_t)(int device_type, int device_id, void* ptr);
typedef int (*parallel_launch_t)(FTVMParallelLambda flambda, void* cdata, int num_task);
typedef void (*set_last_error_t)(const char* msg);
typedef int (*func_call_t)(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args,
                           TVMValue* ret_val, int* ret_type_code);

VARIABLE(TVMBackendAllocWorkspace, alloc_workspace_t);
VARIABLE(TVMBackendFreeWorkspace, free_workspace_t);
VARIABLE(TVMBackendParallelLaunch, parallel_launch_t);
VARIABLE(TVMAPISetLastError, set_last_error_t);
VARIABLE(TVMFuncCall, func_call_t);

#if defined(__arm__)
// Tables for exceptions name these, as in LLVM's objects. No exception is thrown; libgcc's would bring its unwinder.
void __aeabi_unwind_cpp_pr0(void) TVM_WEAK;
void __aeabi_unwind_cpp_pr0(void) {}
void __aeabi_unwind_cpp_pr1(void) TVM_WEAK;
void __aeabi_unwind_cpp_pr1(void) {}
void __aeabi_unwind_cpp_pr2(void) TVM_WEAK;
void __aeabi_unwind_cpp_pr2(void) {}
#endif
