// SPDX-License-Identifier: Apache-2.0
//
// Modules, global functions, the handles of both, and calls through them.
//
// A call turns its values into an operator's arguments in one place, TVMFuncCall: an operator
// with another ABI would be told apart there.
#include <string.h>

#include "runtime.h"

runtime_t boardsmith_runtime;

// boardsmith_functions is optional: the address of a weak symbol that no one defines is 0.
extern const TVMFuncRegistry boardsmith_functions TVM_WEAK;

// Global functions, in the order of their indices.
static const TVMFuncRegistry* const global_registries[] = {
    &boardsmith_builtins,
    &boardsmith_functions,
    &boardsmith_runtime.registry.registry,
};
#define GLOBAL_REGISTRIES (sizeof global_registries / sizeof global_registries[0])

// Returns the registry, or NULL if the firmware has none, or none yet.
static const TVMFuncRegistry* global_registry(size_t i) {
  const TVMFuncRegistry* reg = global_registries[i];
  return ((reg != NULL) && (reg->names != NULL)) ? reg : NULL;
}

tvm_crt_error_t TVMInitializeRuntime(void) {
  (void)memset(&boardsmith_runtime, 0, sizeof boardsmith_runtime);
  return kTvmErrorNoError;
}

static TVMFunctionHandle function_handle(unsigned module_index, unsigned index) {
  const uintptr_t upper = module_index | HANDLE_VALID;
  return (TVMFunctionHandle)((upper << 16) | index | HANDLE_VALID);
}

int boardsmith_global_find(const char* name) {
  int found = -1;
  int before = 0;
  for (size_t i = 0; i < GLOBAL_REGISTRIES; i++) {
    const TVMFuncRegistry* reg = global_registry(i);
    if (reg != NULL) {
      const int index = boardsmith_registry_find(reg, "", name, "");
      if (index >= 0) {
        found = before + index;
      }
      before += TVMFuncRegistry_GetNumFuncs(reg);
    }
  }
  return found;
}

int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  const int index = boardsmith_global_find(name);
  *out = (index < 0) ? NULL : function_handle(MODULE_GLOBAL, (unsigned)index);
  return 0;
}

// Returns the function at a global index, or NULL.
static TVMBackendPackedCFunc global_function(unsigned index) {
  for (size_t i = 0; i < GLOBAL_REGISTRIES; i++) {
    const TVMFuncRegistry* reg = global_registry(i);
    if (reg != NULL) {
      const unsigned count = TVMFuncRegistry_GetNumFuncs(reg);
      if (index < count) {
        return reg->funcs[index];
      }
      index -= count;
    }
  }
  return NULL;
}

// Returns the module's slot, or NULL.
static module_slot_t* slot_of(TVMModuleHandle module) {
  const uintptr_t index = (uintptr_t)module ^ HANDLE_VALID;
  if (index < MODULE_GLOBAL) {
    module_slot_t* slot = &boardsmith_runtime.modules[index];
    if (slot->module != NULL) {
      return slot;
    }
  }
  TVMAPIErrorf("invalid module handle: %08x", (unsigned)(uintptr_t)module);
  return NULL;
}

int boardsmith_resolve(TVMFunctionHandle handle, TVMBackendPackedCFunc* func, void** resource) {
  const uintptr_t bits = (uintptr_t)handle;
  // Without its valid bit an index is out of range.
  const uintptr_t module_index = (bits >> 16) ^ HANDLE_VALID;
  const unsigned index = (unsigned)(bits & 0xffffU) ^ HANDLE_VALID;
  *func = NULL;
  *resource = NULL;
  if (module_index == MODULE_TIME_EVALUATOR) {
    *func = boardsmith_time_evaluator_call;
    *resource = (void*)(uintptr_t)index;
    return 0;
  }
  if (module_index > MODULE_GLOBAL) {
    TVMAPIErrorf("invalid module handle: index=%08x", (unsigned)module_index);
    return -1;
  }
  if (module_index == MODULE_GLOBAL) {
    *func = global_function(index);
  } else {
    const TVMModule* module = boardsmith_runtime.modules[module_index].module;
    if (module == NULL) {
      TVMAPIErrorf("unregistered module: index=%08x", (unsigned)module_index);
      return -1;
    }
    *resource = (void*)(uintptr_t)module->registry;
    if (index < TVMFuncRegistry_GetNumFuncs(module->registry)) {
      *func = module->registry->funcs[index];
    }
  }
  if (*func == NULL) {
    TVMAPIErrorf("invalid function index: %04x", index);
    return -1;
  }
  return 0;
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args,
                TVMValue* ret_val, int* ret_type_code) {
  TVMBackendPackedCFunc call;
  void* resource;
  if (boardsmith_resolve(func, &call, &resource) != 0) {
    return -1;
  }
  ret_val->v_int64 = 0;
  *ret_type_code = (int)kTVMNullptr;
  return call(arg_values, type_codes, num_args, ret_val, ret_type_code, resource);
}

int TVMFuncFree(TVMFunctionHandle func) {
  (void)func;  // not counted
  return 0;
}

int boardsmith_module_find(TVMModuleHandle module, const char* prefix, const char* name,
                           const char* suffix, TVMFunctionHandle* out) {
  const module_slot_t* slot = slot_of(module);
  if (slot == NULL) {
    return -1;
  }
  const int index = boardsmith_registry_find(slot->module->registry, prefix, name, suffix);
  if (index < 0) {
    TVMAPIErrorf("no function %s%s%s", prefix, name, suffix);
    return (int)kTvmErrorFunctionNameNotFound;
  }
  *out = function_handle((unsigned)((uintptr_t)module ^ HANDLE_VALID), (unsigned)index);
  return 0;
}

int TVMModGetFunction(TVMModuleHandle mod, const char* func_name, int query_imports,
                      TVMFunctionHandle* out) {
  (void)query_imports;  // modules import nothing
  return boardsmith_module_find(mod, "", func_name, "", out);
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
  return boardsmith_fail(-1, "no free module slot");
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
