// SPDX-License-Identifier: Apache-2.0
//
// The graph executor as a module for the host: global function
// `tvm.graph_executor.create(json, module, device type, device id)`. One executor can exist at a time; free its module
// (TVMModFree) before creating another. Optional: only a firmware that calls TVMGraphExecutorModule_Register, or lists
// TVMGraphExecutorModule_Create in boardsmith_functions (boardsmith/boardsmith.h), has it.
#ifndef TVM_RUNTIME_CRT_GRAPH_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_GRAPH_EXECUTOR_MODULE_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// Registers the function. Call it after MicroTVMRpcServerInit, which clears what is registered.
tvm_crt_error_t TVMGraphExecutorModule_Register(void);

// The function, for a table in flash, which needs no RAM.
int TVMGraphExecutorModule_Create(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                                  void* resource_handle);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_GRAPH_EXECUTOR_MODULE_H_
