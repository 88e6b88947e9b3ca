// SPDX-License-Identifier: Apache-2.0
//
// Kept for code that includes it by this path.
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_FUNC_REGISTRY_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_FUNC_REGISTRY_H_

#include <tvm/runtime/crt/func_registry.h>

#endif  // TVM_RUNTIME_CRT_INTERNAL_COMMON_FUNC_REGISTRY_H_
