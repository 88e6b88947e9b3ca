// SPDX-License-Identifier: Apache-2.0
//
// Modules, global functions, the handles of both, and calls through them.
//
// A call turns its values into an operator's arguments in one place, TVMFuncCall: an operator
// with another ABI would be told apart there.
#include <string.h>

#include "runtime.h"

runtime_t boardsmith_runtime;

// A firmware's own table takes the place of this empty one.
TVM_WEAK const TVMFuncRegistry boardsmith_functions = {"\0", NULL};

// Global functions, in the order of their indices.
static const TVMFuncRegistry* const globals[] = {
    &boardsmith_builtins,
    &boardsmith_functions,
    &boardsmith_runtime.registry.registry,
};
#define GLOBALS (sizeof globals / sizeof globals[0])

tvm_crt_error_t TVMInitializeRuntime(void) {
  (void)memset(&boardsmith_runtime, 0, sizeof boardsmith_runtime);
  return kTvmErrorNoError;
}

// Returns the position of a name in several registries taken together, or -1. A later registry
// hides an earlier one.
static int find(const TVMFuncRegistry* const* reg, size_t count, const char* pattern,
                const char* name) {
  int found = -1;
  int before = 0;
  for (; count != 0U; count--) {
    if ((*reg)->names != NULL) {
      const int index = boardsmith_registry_find(*reg, pattern, name);
      if (index >= 0) {
        found = before + index;
      }
      before += TVMFuncRegistry_GetNumFuncs(*reg);
    }
    reg++;
  }
  return found;
}

// Returns the function at a position in several registries taken together, or NULL.
static TVMBackendPackedCFunc function_at(const TVMFuncRegistry* const* reg, size_t count,
                                         unsigned index) {
  for (; count != 0U; count--) {
    if ((*reg)->names != NULL) {
      const unsigned here = TVMFuncRegistry_GetNumFuncs(*reg);
      if (index < here) {
        return (*reg)->funcs[index];
      }
      index -= here;
    }
    reg++;
  }
  return NULL;
}

int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  const int index = find(globals, GLOBALS, "%", name);
  *out = (index < 0) ? NULL : function_handle(MODULE_GLOBAL, (unsigned)index);
  return 0;
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args,
                TVMValue* ret_val, int* ret_type_code) {
  // Without its valid bit an index becomes too large.
  const uintptr_t module_index = ((uintptr_t)func >> 16) ^ HANDLE_VALID;
  const unsigned index = (unsigned)((uintptr_t)func & 0xffffU) ^ HANDLE_VALID;
  const char* wrong = "invalid function index: %04x";
  unsigned number = index;
  uintptr_t resource = 0;
  TVMBackendPackedCFunc call = NULL;
  if (module_index < MODULE_GLOBAL) {
    const TVMModule* module = boardsmith_runtime.modules[module_index].module;
    if (module != NULL) {
      resource = (uintptr_t)module->registry;
      call = function_at(&module->registry, 1, index);
    } else {
      wrong = "unregistered module: index=%08x";
      number = (unsigned)module_index;
    }
  } else if (module_index == MODULE_GLOBAL) {
    call = function_at(globals, GLOBALS, index);
  } else if (module_index == MODULE_TIME_EVALUATOR) {
    resource = index;
    call = boardsmith_time_evaluator_call;
  } else {
    wrong = "invalid module handle: index=%08x";
    number = (unsigned)module_index;
  }
  if (call == NULL) {
    TVMAPIErrorf(wrong, number);
    return -1;
  }
  ret_val->v_int64 = 0;
  *ret_type_code = (int)kTVMNullptr;
  return call(arg_values, type_codes, num_args, ret_val, ret_type_code, (void*)resource);
}

int TVMFuncFree(TVMFunctionHandle func) {
  (void)func;  // not counted
  return 0;
}

// Returns the module's slot, or NULL with a last-error text.
static module_slot_t* slot_of(TVMModuleHandle module) {
  const uintptr_t index = (uintptr_t)module ^ HANDLE_VALID;
  if ((index < MODULE_GLOBAL) && (boardsmith_runtime.modules[index].module != NULL)) {
    return &boardsmith_runtime.modules[index];
  }
  TVMAPIErrorf("invalid module handle: %08x", (unsigned)(uintptr_t)module);
  return NULL;
}

int boardsmith_module_find(TVMModuleHandle module, const char* pattern, const char* name,
                           TVMFunctionHandle* out) {
  const module_slot_t* slot = slot_of(module);
  if (slot == NULL) {
    return -1;
  }
  const int index = find(&slot->module->registry, 1, pattern, name);
  if (index < 0) {
    TVMAPIErrorf("not found: %s", name);
    return (int)kTvmErrorFunctionNameNotFound;
  }
  *out = function_handle((unsigned)(uintptr_t)module, (unsigned)index);
  return 0;
}

int TVMModGetFunction(TVMModuleHandle mod, const char* func_name, int query_imports,
                      TVMFunctionHandle* out) {
  (void)query_imports;  // modules import nothing
  return boardsmith_module_find(mod, "%", func_name, out);
}

int boardsmith_module_add(const TVMModule* module, void (*release)(void), TVMModuleHandle* out) {
  for (unsigned i = 0; i < MODULE_GLOBAL; i++) {
    module_slot_t* slot = &boardsmith_runtime.modules[i];
    if (slot->module == NULL) {
      slot->module = module;
      slot->release = release;
      *out = (TVMModuleHandle)(uintptr_t)(i | HANDLE_VALID);
      return 0;
    }
  }
  TVMAPISetLastError("no free module slot");
  return -1;
}

int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out_handle) {
  return boardsmith_module_add(mod, NULL, out_handle);
}

int TVMModFree(TVMModuleHandle mod) {
  module_slot_t* slot = slot_of(mod);
  if (slot == NULL) {
    return -1;
  }
  if (mod != boardsmith_runtime.system_library) {
    slot->module = NULL;
    if (slot->release != NULL) {
      slot->release();
    }
  }
  return 0;
}
