// SPDX-License-Identifier: Apache-2.0
//
// What the AOT executor gives to its module only.
#ifndef BOARDSMITH_RUNTIME_AOT_H_
#define BOARDSMITH_RUNTIME_AOT_H_

#include <tvm/runtime/crt/aot_executor.h>

// TVMAotExecutor_Create for the one device there is.
int boardsmith_aot_executor_make(TVMModuleHandle module_handle, const char* module_name,
                                 TVMAotExecutor** executor);

#endif  // BOARDSMITH_RUNTIME_AOT_H_
