// SPDX-License-Identifier: Apache-2.0
//
// What TVM's firmwares call so that hosts can have an AOT executor. Here they always can.
#include <tvm/runtime/crt/aot_executor_module.h>

tvm_crt_error_t TVMAotExecutorModule_Register(void) { return kTvmErrorNoError; }
