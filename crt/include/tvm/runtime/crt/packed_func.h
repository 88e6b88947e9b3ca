// SPDX-License-Identifier: Apache-2.0
//
// A function with its arguments and results in one struct, for firmware that calls
// functions by name. Generated code and the RPC server do not need it.
#ifndef TVM_RUNTIME_CRT_PACKED_FUNC_H_
#define TVM_RUNTIME_CRT_PACKED_FUNC_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

#include "crt_config.h"

#ifndef TVM_CRT_MAX_ARGS
#define TVM_CRT_MAX_ARGS 10  // limit of these structs; calls have none
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMArgs {
  TVMValue values[TVM_CRT_MAX_ARGS];
  int tcodes[TVM_CRT_MAX_ARGS];  // TVMArgTypeCode
  uint32_t values_count;
} TVMArgs;

typedef struct TVMPackedFunc {
  const char* name;  // the caller's string, which must stay valid
  TVMModuleHandle module;
  TVMFunctionHandle fexec;
  TVMArgs args;
  TVMArgs ret_value;  // one value after Call
  int status;         // result of the last Call; not a field of TVM's
  void (*Call)(struct TVMPackedFunc* pf);
  void (*SetArgs)(struct TVMPackedFunc* pf, const struct TVMArgs* args);
} TVMPackedFunc;

// Returns the first TVM_CRT_MAX_ARGS of values_count values.
TVMArgs TVMArgs_Create(TVMValue* values, uint32_t* tcodes, uint32_t values_count);

// Finds a global function, or one of a module, and copies args (may be NULL). Returns kTvmErrorFunctionNameNotFound if
// the name is unknown.
int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc* pf, const char* name, const TVMArgs* args);
int TVMPackedFunc_InitModuleFunc(TVMPackedFunc* pf, TVMModuleHandle module, const char* name, const TVMArgs* args);

// Calls the function with pf->args; the result is in pf->ret_value, the status in pf->status.
void TVMPackedFunc_Call(TVMPackedFunc* pf);
void TVMPackedFunc_SetArgs(TVMPackedFunc* pf, const TVMArgs* args);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_PACKED_FUNC_H_
