// SPDX-License-Identifier: Apache-2.0
//
// The state of the runtime.
#ifndef BOARDSMITH_RUNTIME_STATE_H_
#define BOARDSMITH_RUNTIME_STATE_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/func_registry.h>

#include "crt_config.h"
#include "functions.h"
#include "memory.h"

// Code in RAM has TVM's errors of arguments, which name a function with all its parameters.
#ifndef BOARDSMITH_LAST_ERROR_BYTES
#if defined(BOARDSMITH_UPLOAD_BYTES) && ((BOARDSMITH_UPLOAD_BYTES) > 0)
#define BOARDSMITH_LAST_ERROR_BYTES 384
#else
#define BOARDSMITH_LAST_ERROR_BYTES 128
#endif
#endif

_Static_assert(BOARDSMITH_LAST_ERROR_BYTES > 0, "the last error needs space for its NUL");

// TVMInitializeRuntime clears everything except the windows, which belong to their users.
typedef struct runtime {
  module_slot_t modules[MODULE_EVALUATOR + 1U];
  TVMModuleHandle system_library;     // NULL until the first request for it
  size_t calls;                       // number of nested calls
  uint8_t session;                    // OWNER_SESSION during a request of the host, else 0
  uint8_t of_session[MODULE_GLOBAL];  // `session` at the time when the module was added
  TVMMutableFuncRegistry registry;    // its module is NULL until the first registration
  char last_error[(BOARDSMITH_LAST_ERROR_BYTES + 3U) & ~3U];
  struct TVMAotExecutor* executor;  // of the AOT executor's module; NULL: none
  block_t* memory[4];               // by kind
} runtime_t;

extern runtime_t boardsmith_runtime;

#endif  // BOARDSMITH_RUNTIME_STATE_H_
