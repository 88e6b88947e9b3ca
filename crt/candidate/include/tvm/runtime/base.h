// SPDX-License-Identifier: Apache-2.0
//
// Operators of TVM 0.21 and later include this header; they use no more of it than the macro TVM_DLL.
#ifndef TVM_RUNTIME_BASE_H_
#define TVM_RUNTIME_BASE_H_

#include <tvm/runtime/c_runtime_api.h>

#endif  // TVM_RUNTIME_BASE_H_
