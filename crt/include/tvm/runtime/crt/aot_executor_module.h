// SPDX-License-Identifier: Apache-2.0
//
// The AOT executor as a module for the host: global function `tvm.aot_executor.create(module, device, name)`. One
// executor can exist at a time; free its module (TVMModFree) before creating another.
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_

#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/metadata_types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Returns 0; TVM's firmwares call it. It does nothing: this header brings the executor into the image.
tvm_crt_error_t TVMAotExecutorModule_Register(void);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
