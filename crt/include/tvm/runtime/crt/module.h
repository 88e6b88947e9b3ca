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

// Puts mod, which must stay valid, into the first free slot of TVM_CRT_MAX_REGISTERED_MODULES (default 2). Returns -1
// if none is free.
int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out_handle);

// Returns the module of the model's functions. Generated code defines this function; a firmware without it links too,
// and `runtime.SystemLib` then returns an error. If the definition is in an archive instead of an object, link with `-u
// TVMSystemLibEntryPoint`.
const TVMModule* TVMSystemLibEntryPoint(void);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_MODULE_H_
