// SPDX-License-Identifier: Apache-2.0
//
// Modules, global functions, the handles of both, and calls through them.
//
// Only TVMFuncCall passes values to an operator: support for operators with another ABI belongs there.
#include <boardsmith/boardsmith.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>

#include "contracts.h"
#include "builtins.h"
#include "functions.h"
#include "state.h"

runtime_t boardsmith_runtime;

// A firmware's own table replaces this empty one.
TVM_WEAK const TVMFuncRegistry boardsmith_functions = {"\0\0", NULL};

static const TVMModule builtins = {&boardsmith_builtins};
static const TVMModule functions = {&boardsmith_functions};

// A registry that accepts any index: the call checks the time evaluator's number.
static const TVMFuncRegistry any_index = {"\377\177", NULL};
static const TVMModule evaluators = {&any_index};

static const module_slot_t fixed_slots[] = {
    [MODULE_GLOBAL - MODULE_GLOBAL] = {.module = &builtins},
    [MODULE_FIRMWARE - MODULE_GLOBAL] = {.module = &functions},
    [MODULE_EVALUATOR - MODULE_GLOBAL] = {.module = &evaluators, .dispatch = boardsmith_time_evaluator_call},
};

tvm_crt_error_t TVMInitializeRuntime(void) {
  (void)memset(&boardsmith_runtime, 0, offsetof(runtime_t, memory[MEMORY_WINDOWS]));
  (void)memcpy(&boardsmith_runtime.modules[MODULE_GLOBAL], fixed_slots, sizeof fixed_slots);
  return kTvmErrorNoError;
}

int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  *out = NULL;
  for (unsigned i = MODULE_GLOBAL; i < MODULE_EVALUATOR; i++) {
    const TVMModule* const module = boardsmith_runtime.modules[i].module;
    const int index = (module != NULL) ? boardsmith_registry_find(module->registry, "%", name) : -1;
    if (index >= 0) {  // continue: a later registry overrides an earlier one
      *out = function_handle(i, (unsigned)index);
    }
  }
  return 0;
}

// Sets the last error; returns -1.
static int bad_handle(const void* handle) {
  TVMAPIErrorf("invalid handle: %08x", (unsigned)(uintptr_t)handle);
  return -1;
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args, TVMValue* ret_val,
                int* ret_type_code) {
  // The XOR makes an index without the valid bit too large.
  uintptr_t module_index = ((uintptr_t)func >> 16) ^ HANDLE_VALID;
  const unsigned index = (unsigned)((uintptr_t)func & 0xffffU) ^ HANDLE_VALID;
  if (module_index == HANDLE_EVALUATOR) {
    module_index = MODULE_EVALUATOR;
  }
  if (module_index > MODULE_EVALUATOR) {
    return bad_handle(func);
  }
  const module_slot_t* const slot = &boardsmith_runtime.modules[module_index];
  if ((slot->module == NULL) || (index >= registry_count(slot->module->registry))) {
    return bad_handle(func);
  }
  TVMBackendPackedCFunc call = slot->dispatch;
  void* resource = (void*)(uintptr_t)index;
  if (call == NULL) {
    call = slot->module->registry->funcs[index];
    if (call == NULL) {  // an optional part that was left out
      return bad_handle(func);
    }
    resource = (module_index < MODULE_GLOBAL) ? (void*)(uintptr_t)slot->module->registry : NULL;
  }
  ret_val->v_int64 = 0;
  *ret_type_code = (int)kTVMNullptr;
  if (boardsmith_runtime.calls == 0U) {
    const int refused = boardsmith_signature_check(func, type_codes, num_args);
    if (refused != 0) {
      return refused;
    }
    boardsmith_call_begins(func);
  }
  boardsmith_runtime.calls++;
  const int error = call(arg_values, type_codes, num_args, ret_val, ret_type_code, resource);
  CRT_ASSERT(boardsmith_runtime.calls != 0U);
  boardsmith_runtime.calls--;
  if (boardsmith_runtime.calls == 0U) {
    boardsmith_call_ends();
  }
  return error;
}

int TVMFuncFree(TVMFunctionHandle func) {
  (void)func;  // handles are not counted
  return 0;
}

int boardsmith_arguments(const int* type_codes, int num_args, const char* types) {
  int error = 0;
  for (; *types != '\0'; types++) {
    num_args--;
    if (num_args < 0) {
      return (int)kTvmErrorFunctionCallNumArguments;
    }
    // A null pointer may stand for a null handle.
    if ((*type_codes != (*types - 'A')) && ((*types != 'D') || (*type_codes != (int)kTVMNullptr))) {
      error = (int)kTvmErrorFunctionCallWrongArgType;
    }
    type_codes++;
  }
  return error;
}

// Returns the module's slot, or NULL with a last-error text.
static module_slot_t* slot_of(TVMModuleHandle module) {
  const uintptr_t index = (uintptr_t)module ^ HANDLE_VALID;
  if ((index < MODULE_GLOBAL) && (boardsmith_runtime.modules[index].module != NULL)) {
    return &boardsmith_runtime.modules[index];
  }
  (void)bad_handle(module);
  return NULL;
}

int boardsmith_module_find(TVMModuleHandle module, const char* pattern, const char* name, TVMFunctionHandle* out) {
  const module_slot_t* const slot = slot_of(module);
  if (slot == NULL) {
    return -1;
  }
  const int index = boardsmith_registry_find(slot->module->registry, pattern, name);
  if (index < 0) {
    TVMAPIErrorf("not found: %s", name);
    return (int)kTvmErrorFunctionNameNotFound;
  }
  *out = function_handle((unsigned)(uintptr_t)module, (unsigned)index);
  return 0;
}

int TVMModGetFunction(TVMModuleHandle mod, const char* func_name, int query_imports, TVMFunctionHandle* out) {
  (void)query_imports;  // modules import nothing
  return boardsmith_module_find(mod, "%", func_name, out);
}

int boardsmith_module_add(const TVMModule* module, TVMBackendPackedCFunc dispatch, TVMModuleHandle* out) {
  for (unsigned i = 0; i < MODULE_GLOBAL; i++) {
    module_slot_t* const slot = &boardsmith_runtime.modules[i];
    if (slot->module == NULL) {
      slot->module = module;
      slot->dispatch = dispatch;
#ifdef BOARDSMITH_SIGNATURES
      slot->signatures = NULL;
#endif
      boardsmith_runtime.of_session[i] = boardsmith_runtime.session;
      *out = (TVMModuleHandle)(uintptr_t)(i | HANDLE_VALID);
      return 0;
    }
  }
  TVMAPIErrorf("no free module slot");
  return -1;
}

int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out_handle) {
  return boardsmith_module_add(mod, NULL, out_handle);
}

// Frees a module's slot, except the system library's.
static int slot_free(module_slot_t* slot, TVMModuleHandle mod) {
  if (mod != boardsmith_runtime.system_library) {
    slot->module = NULL;
    if (slot->dispatch != NULL) {
      return slot->dispatch(NULL, NULL, 0, NULL, NULL, (void*)(uintptr_t)MODULE_RELEASED);
    }
  }
  return 0;
}

int TVMModFree(TVMModuleHandle mod) {
  module_slot_t* const slot = slot_of(mod);
  return (slot != NULL) ? slot_free(slot, mod) : -1;
}

int boardsmith_session_module_free(TVMModuleHandle mod) {
  module_slot_t* const slot = slot_of(mod);
  if (slot == NULL) {
    return -1;
  }
  return (boardsmith_runtime.of_session[(uintptr_t)mod ^ HANDLE_VALID] != 0U) ? slot_free(slot, mod) : 0;
}
