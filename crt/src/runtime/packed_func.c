// SPDX-License-Identifier: Apache-2.0
//
// A function with its arguments and results in one struct.
#include <string.h>
#include <tvm/runtime/crt/packed_func.h>

#include "functions.h"

TVMArgs TVMArgs_Create(TVMValue* values, uint32_t* tcodes, uint32_t values_count) {
  TVMArgs args;
  (void)memset(&args, 0, sizeof args);
  args.values_count = (values_count < (uint32_t)(TVM_CRT_MAX_ARGS)) ? values_count : (uint32_t)(TVM_CRT_MAX_ARGS);
  for (uint32_t i = 0; i < args.values_count; i++) {
    args.values[i] = values[i];
    args.tcodes[i] = (int)tcodes[i];
  }
  return args;
}

void TVMPackedFunc_SetArgs(TVMPackedFunc* pf, const TVMArgs* args) { pf->args = *args; }

void TVMPackedFunc_Call(TVMPackedFunc* pf) {
  pf->ret_value.values_count = 1;
  pf->status = TVMFuncCall(pf->fexec, pf->args.values, pf->args.tcodes, (int)pf->args.values_count,
                           pf->ret_value.values, pf->ret_value.tcodes);
}

static void init(TVMPackedFunc* pf, TVMModuleHandle module, const char* name, const TVMArgs* args) {
  (void)memset(pf, 0, sizeof *pf);
  pf->name = name;
  pf->module = module;
  pf->Call = TVMPackedFunc_Call;
  pf->SetArgs = TVMPackedFunc_SetArgs;
  if (args != NULL) {
    pf->args = *args;
  }
}

int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc* pf, const char* name, const TVMArgs* args) {
  init(pf, NULL, name, args);
  (void)TVMFuncGetGlobal(name, &pf->fexec);
  return (pf->fexec != NULL) ? 0 : (int)kTvmErrorFunctionNameNotFound;
}

int TVMPackedFunc_InitModuleFunc(TVMPackedFunc* pf, TVMModuleHandle module, const char* name, const TVMArgs* args) {
  init(pf, module, name, args);
  return TVMModGetFunction(module, name, 0, &pf->fexec);
}
