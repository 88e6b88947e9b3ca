// SPDX-License-Identifier: Apache-2.0
//
// A module is a table of functions with a handle.
#ifndef TVM_RUNTIME_CRT_MODULE_H_
#define TVM_RUNTIME_CRT_MODULE_H_

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/func_registry.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMModule {
  const TVMFuncRegistry* registry;
} TVMModule;

// Puts mod, which must stay, into the first free slot of
// TVM_CRT_MAX_REGISTERED_MODULES (default 2). -1 when all are taken.
int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out_handle);

// The module of the model's own functions. Generated code defines it; a firmware
// without one links too, and `runtime.SystemLib` is then an error. If it lies in an
// archive rather than in an object, the link needs `-u TVMSystemLibEntryPoint`.
const TVMModule* TVMSystemLibEntryPoint(void);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_MODULE_H_
