// SPDX-License-Identifier: Apache-2.0
//
// Operators of TVM 0.21 and later include this header; tvm/ffi/c_api.h has what they use of it.
#ifndef TVM_FFI_EXTRA_C_ENV_API_H_
#define TVM_FFI_EXTRA_C_ENV_API_H_

#include <tvm/ffi/c_api.h>

#endif  // TVM_FFI_EXTRA_C_ENV_API_H_
