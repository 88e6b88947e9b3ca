// SPDX-License-Identifier: Apache-2.0
//
// What the AOT executor gives to its module only.
#ifndef BOARDSMITH_RUNTIME_AOT_H_
#define BOARDSMITH_RUNTIME_AOT_H_

#include <tvm/runtime/metadata_types.h>

// Returns the position of the tensor of that name, or -1 with a last-error text.
int boardsmith_aot_tensor_index(const struct TVMTensorInfo* infos, int count, const char* name);

#endif  // BOARDSMITH_RUNTIME_AOT_H_
