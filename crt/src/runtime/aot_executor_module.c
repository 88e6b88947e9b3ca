// SPDX-License-Identifier: Apache-2.0
//
// TVM's firmwares call this to offer an AOT executor to hosts. Here it is always offered.
#include <tvm/runtime/crt/aot_executor_module.h>

tvm_crt_error_t TVMAotExecutorModule_Register(void) { return kTvmErrorNoError; }
