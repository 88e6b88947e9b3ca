// SPDX-License-Identifier: Apache-2.0
//
// TVM's firmwares call this to offer a graph executor to hosts.
#include <tvm/runtime/crt/graph_executor_module.h>

#include "crt_config.h"

#ifndef BOARDSMITH_NO_GRAPH_EXECUTOR

tvm_crt_error_t TVMGraphExecutorModule_Register(void) {
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.graph_executor.create",
                                                (TVMFunctionHandle)(uintptr_t)TVMGraphExecutorModule_Create, 0);
}

#endif  // BOARDSMITH_NO_GRAPH_EXECUTOR
