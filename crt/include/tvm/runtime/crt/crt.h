// SPDX-License-Identifier: Apache-2.0
//
// Start of the runtime.
#ifndef TVM_RUNTIME_CRT_CRT_H_
#define TVM_RUNTIME_CRT_CRT_H_

#include <inttypes.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// Clears all modules and registered functions. Call it once, before any other function of the runtime;
// MicroTVMRpcServerInit calls it too. Allocates no memory.
tvm_crt_error_t TVMInitializeRuntime(void);

// Sets the last error from a format (the formats of TVMLogf).
BOARDSMITH_PRINTF(1, 2) void TVMAPIErrorf(const char* fmt, ...);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_CRT_H_
