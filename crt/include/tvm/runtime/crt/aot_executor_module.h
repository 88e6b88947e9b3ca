// SPDX-License-Identifier: Apache-2.0
//
// The AOT executor as a module for the host: global function
// `tvm.aot_executor.create(module, device, name)`. One executor at a time; freeing its module
// (TVMModFree) makes room for another.
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_

#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// Makes the function part of the image; a firmware without this call does not have it.
// MicroTVMRpcServerInit calls it.
tvm_crt_error_t TVMAotExecutorModule_Register(void);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
