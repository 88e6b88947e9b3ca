// SPDX-License-Identifier: Apache-2.0
//
// Global functions that are registered at run time. Weak, in a file of its own: a firmware may define its own.
#include "functions.h"
#include "memory.h"
#include "state.h"

static const TVMModule registered = {&boardsmith_runtime.registry.registry};

TVM_WEAK int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override) {
  TVMMutableFuncRegistry* const reg = &boardsmith_runtime.registry;
  TVMFunctionHandle function = NULL;
  (void)TVMFuncGetGlobal(name, &function);
  if ((override == 0) && (function != NULL)) {
    return (int)kTvmErrorFunctionAlreadyDefined;
  }
  if (boardsmith_runtime.modules[MODULE_REGISTERED].module == NULL) {
    void* buffer = NULL;
    int error = boardsmith_take(TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES, &buffer);
    if (error == 0) {
      error = (int)TVMMutableFuncRegistry_Create(reg, buffer, TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES);
    }
    if (error != 0) {
      return error;
    }
    boardsmith_runtime.modules[MODULE_REGISTERED].module = &registered;
  }
  return (int)TVMMutableFuncRegistry_Set(reg, name, (TVMBackendPackedCFunc)(uintptr_t)f, 1);
}

int TVMBackendRegisterSystemLibSymbol(const char* name, void* ptr) { return TVMFuncRegisterGlobal(name, ptr, 0); }
