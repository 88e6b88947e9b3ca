// SPDX-License-Identifier: Apache-2.0
//
// Modules, registries of functions, and the handles of both.
#ifndef BOARDSMITH_RUNTIME_FUNCTIONS_H_
#define BOARDSMITH_RUNTIME_FUNCTIONS_H_

#include <boardsmith/boardsmith.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/module.h>

#include "crt_config.h"

#ifndef TVM_CRT_MAX_REGISTERED_MODULES
#define TVM_CRT_MAX_REGISTERED_MODULES 2
#endif

_Static_assert((TVM_CRT_MAX_REGISTERED_MODULES > 0) && (TVM_CRT_MAX_REGISTERED_MODULES < 0x7ffc),
               "module indices have 15 bits, and the last ones are reserved");
_Static_assert(sizeof(TVMValue) == 8U, "a value is 8 bytes wide on the wire and for operators");

// The parameters of a packed function.
#define PACKED_PARAMETERS \
  TVMValue *args, int *type_codes, int num_args, TVMValue *out_value, int *out_type, void *resource_handle

// ---- Handles --------------------------------------------------------------------------------------------------------

// Set in both halves of a function handle, and in a module handle.
#define HANDLE_VALID 0x8000U
// Module indices after those of modules: built-in functions, the firmware's, those registered at run time, and time
// evaluators, whose handles use HANDLE_EVALUATOR instead.
#define MODULE_GLOBAL ((unsigned)(TVM_CRT_MAX_REGISTERED_MODULES))
#define MODULE_FIRMWARE (MODULE_GLOBAL + 1U)
#define MODULE_REGISTERED (MODULE_GLOBAL + 2U)
#define MODULE_EVALUATOR (MODULE_GLOBAL + 3U)
#define HANDLE_EVALUATOR 0x7fffU

static inline TVMFunctionHandle function_handle(unsigned module_index, unsigned index) {
  const uintptr_t upper = module_index | HANDLE_VALID;
  return (TVMFunctionHandle)((upper << 16) | index | HANDLE_VALID);
}

// ---- Registries -----------------------------------------------------------------------------------------------------

// Returns the number of functions; the names need no alignment.
static inline unsigned registry_count(const TVMFuncRegistry* reg) {
  uint16_t count;
  (void)memcpy(&count, reg->names, sizeof count);
  return count;
}

// Returns the position of the name that equals pattern with its '%' replaced by name, or -1.
int boardsmith_registry_find(const TVMFuncRegistry* reg, const char* pattern, const char* name);

// ---- Modules --------------------------------------------------------------------------------------------------------

// A module's slot. The optional dispatch function is called for all functions of the module, with the function's index
// as the resource handle, and with MODULE_RELEASED when the slot is freed.
typedef struct module_slot {
  const TVMModule* module;         // NULL: free
  TVMBackendPackedCFunc dispatch;  // may be NULL
#ifdef BOARDSMITH_SIGNATURES
  const boardsmith_signature_t* signatures;  // NULL: none
#endif
} module_slot_t;
#define MODULE_RELEASED 0x8000U

// Puts module into a free slot. dispatch may be NULL: see module_slot_t.
int boardsmith_module_add(const TVMModule* module, TVMBackendPackedCFunc dispatch, TVMModuleHandle* out);

// Finds a module's function by a pattern (see boardsmith_registry_find).
int boardsmith_module_find(TVMModuleHandle module, const char* pattern, const char* name, TVMFunctionHandle* out);

// TVMModFree for the host: no effect on a module that is not the session's.
int boardsmith_session_module_free(TVMModuleHandle mod);

// ---- Calls ----------------------------------------------------------------------------------------------------------

// Checks that a call has at least the arguments in types, one letter each: 'A' + type code (A int, G device,
// H tensor, J module, L str). Returns 0, kTvmErrorFunctionCallNumArguments or kTvmErrorFunctionCallWrongArgType.
int boardsmith_arguments(const int* type_codes, int num_args, const char* types);

// boardsmith_signature_check compares the types of arguments with the function's signature. Returns 0 or, with a
// last-error text, kTvmErrorFunctionCallNumArguments or kTvmErrorFunctionCallWrongArgType; 0 for a function without a
// signature and for an invalid handle. boardsmith_signatures_set sets the signatures of a module, which must stay
// valid; NULL for none. boardsmith_library_sign sets those of the system library.
#ifdef BOARDSMITH_SIGNATURES
int boardsmith_signature_check(TVMFunctionHandle func, const int* type_codes, int num_args);
void boardsmith_signatures_set(TVMModuleHandle module, const boardsmith_signature_t* signatures);
void boardsmith_library_sign(TVMModuleHandle library);
#else
static inline int boardsmith_signature_check(TVMFunctionHandle func, const int* type_codes, int num_args) {
  (void)func;
  (void)type_codes;
  (void)num_args;
  return 0;
}
static inline void boardsmith_signatures_set(TVMModuleHandle module, const boardsmith_signature_t* signatures) {
  (void)module;
  (void)signatures;
}
static inline void boardsmith_library_sign(TVMModuleHandle library) { (void)library; }
#endif

#endif  // BOARDSMITH_RUNTIME_FUNCTIONS_H_
