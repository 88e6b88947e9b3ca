// SPDX-License-Identifier: Apache-2.0
//
// The functions that every runtime has, and declarations of those with a file of their own.
#ifndef BOARDSMITH_RUNTIME_BUILTINS_H_
#define BOARDSMITH_RUNTIME_BUILTINS_H_

#include "functions.h"

// All of them (builtins.c).
extern const TVMFuncRegistry boardsmith_builtins;

// `runtime.RPCTimeEvaluator`, and the function that it returns, which gets the evaluator's number as its resource
// handle (time_evaluator.c).
int boardsmith_time_evaluator_create(PACKED_PARAMETERS);
int boardsmith_time_evaluator_call(PACKED_PARAMETERS);

// `tvm.contrib.random.random_fill` (random.c).
int boardsmith_random_fill(PACKED_PARAMETERS);

// `tvm.aot_executor.create` (aot_executor.c). Weak: NULL in an image without tvm/runtime/metadata_types.h, unless
// crt_config.h defines BOARDSMITH_AOT_EXECUTOR.
#ifdef BOARDSMITH_AOT_EXECUTOR
#define boardsmith_aot_entry boardsmith_aot_create
#endif
TVM_WEAK int boardsmith_aot_entry(PACKED_PARAMETERS);

#endif  // BOARDSMITH_RUNTIME_BUILTINS_H_
