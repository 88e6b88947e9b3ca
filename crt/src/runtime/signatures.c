// SPDX-License-Identifier: Apache-2.0
//
// Compares calls with the signatures of functions (boardsmith/boardsmith.h).
#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <tvm/runtime/crt/crt.h>

#include "functions.h"
#include "state.h"

#ifdef BOARDSMITH_SIGNATURES

// Generated code defines it; a firmware without a model does not.
const boardsmith_signature_t* boardsmith_library_signatures(void) TVM_WEAK;

void boardsmith_signatures_set(TVMModuleHandle module, const boardsmith_signature_t* signatures) {
  boardsmith_runtime.modules[(uintptr_t)module ^ HANDLE_VALID].signatures = signatures;
}

void boardsmith_library_sign(TVMModuleHandle library) {
  if (boardsmith_library_signatures != NULL) {
    boardsmith_signatures_set(library, boardsmith_library_signatures());
  }
}

static bool is_tensor(int type) { return (type == (int)kTVMDLTensorHandle) || (type == (int)kTVMNDArrayHandle); }

// Returns the signature of a function of a module, or NULL.
static const boardsmith_signature_t* signature_of(const module_slot_t* slot, unsigned index) {
  const boardsmith_signature_t* s = slot->signatures;
  if ((slot->module == NULL) || (s == NULL) || (index >= registry_count(slot->module->registry))) {
    return NULL;
  }
  while ((s->least != 0U) && (s->function != slot->module->registry->funcs[index])) {
    s++;
  }
  return (s->least != 0U) ? s : NULL;
}

// Returns the name of a function that the registry has.
static const char* name_of(const TVMFuncRegistry* registry, unsigned index) {
  const char* name = TVMFuncRegistry_Get0thFunctionName(registry);
  for (; index != 0U; index--) {
    while (*name != '\0') {
      name++;
    }
    name++;
  }
  return name;
}

int boardsmith_signature_check(TVMFunctionHandle func, const int* type_codes, int num_args) {
  const uintptr_t module_index = ((uintptr_t)func >> 16) ^ HANDLE_VALID;
  const unsigned index = (unsigned)((uintptr_t)func & 0xffffU) ^ HANDLE_VALID;
  if (module_index >= MODULE_GLOBAL) {
    return 0;
  }
  const module_slot_t* const slot = &boardsmith_runtime.modules[module_index];
  const boardsmith_signature_t* const s = signature_of(slot, index);
  if (s == NULL) {
    return 0;
  }
  int tensors = 0;
  int other = num_args;  // the first argument that is no tensor
  for (int i = num_args - 1; i >= 0; i--) {
    if (is_tensor(type_codes[i])) {
      tensors++;
    } else {
      other = i;
    }
  }
  // The name comes last, because it may be too long.
  const char* const name = name_of(slot->module->registry, index);
  if ((num_args < (int)s->least) || (tensors > (int)s->most)) {
    TVMAPIErrorf("takes %d tensors, not %d: %s", (int)s->least, tensors, name);
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  if ((tensors < (int)s->least) || (other < (int)s->first)) {
    TVMAPIErrorf("takes %d tensors, but argument %d has type code %d: %s", (int)s->least, other, type_codes[other],
                 name);
    return (int)kTvmErrorFunctionCallWrongArgType;
  }
  return 0;
}

#endif
