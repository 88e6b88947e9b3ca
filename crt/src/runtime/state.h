// SPDX-License-Identifier: Apache-2.0
//
// The runtime's one state.
#ifndef BOARDSMITH_RUNTIME_STATE_H_
#define BOARDSMITH_RUNTIME_STATE_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/func_registry.h>

#include "crt_config.h"
#include "functions.h"
#include "memory.h"

#ifndef BOARDSMITH_LAST_ERROR_BYTES
#define BOARDSMITH_LAST_ERROR_BYTES 128
#endif

_Static_assert(BOARDSMITH_LAST_ERROR_BYTES > 0, "the last error needs room for its end");

// TVMInitializeRuntime clears all of it but the windows: their owners registered them.
typedef struct runtime {
  module_slot_t modules[MODULE_EVALUATOR + 1U];
  TVMModuleHandle system_library;     // NULL until someone asks for it
  size_t calls;                       // under way, one inside the other
  uint8_t session;                    // OWNER_SESSION while a request of the host is in work, else 0
  uint8_t of_session[MODULE_GLOBAL];  // the same for modules, when they were added
  TVMMutableFuncRegistry registry;    // its module is NULL until the first registration
  char last_error[(BOARDSMITH_LAST_ERROR_BYTES + 3U) & ~3U];
  struct TVMAotExecutor* executor;  // of the AOT executor's module; NULL: there is none
  block_t* memory[4];               // by kind
} runtime_t;

extern runtime_t boardsmith_runtime;

#endif  // BOARDSMITH_RUNTIME_STATE_H_
