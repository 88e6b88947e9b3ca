// SPDX-License-Identifier: Apache-2.0
//
// TVM's firmwares call this to offer an AOT executor to hosts. Its header, which this file must not include, does that.
#include <tvm/runtime/crt/error_codes.h>

tvm_crt_error_t TVMAotExecutorModule_Register(void);
tvm_crt_error_t TVMAotExecutorModule_Register(void) { return kTvmErrorNoError; }
