// SPDX-License-Identifier: Apache-2.0
//
// The global functions that every runtime has.
#include "builtins.h"

#include <tvm/runtime/crt/crt.h>

#include "state.h"

// Generated code defines it; a firmware without a model does not.
const TVMModule* TVMSystemLibEntryPoint(void) TVM_WEAK;

// runtime.SystemLib() -> module. Ignores arguments.
static int system_lib(PACKED_PARAMETERS) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  TVMModuleHandle* const handle = &boardsmith_runtime.system_library;
  if (*handle == NULL) {
    const TVMModule* const library = (TVMSystemLibEntryPoint != NULL) ? TVMSystemLibEntryPoint() : NULL;
    if (library == NULL) {
      TVMAPIErrorf("no system library");
      return (int)kTvmErrorFunctionNameNotFound;
    }
    const int error = boardsmith_module_add(library, NULL, handle);
    if (error != 0) {
      return error;
    }
    boardsmith_library_sign(*handle);
  }
  out_value->v_handle = *handle;
  *out_type = (int)kTVMModuleHandle;
  return 0;
}

// tvm.rpc.server.ModuleGetFunction(module, str name, int query_imports) -> function, or null if the name is unknown or
// the arguments are wrong.
static int module_get_function(PACKED_PARAMETERS) {
  (void)resource_handle;
  if ((boardsmith_arguments(type_codes, num_args, "JLA") == 0) &&
      (boardsmith_module_find(args[0].v_handle, "%", args[1].v_str, &out_value->v_handle) == 0)) {
    *out_type = (int)kTVMPackedFuncHandle;
  }
  return 0;
}

// Size of the receive buffer of TVM's host, whose reads are as long as the largest packet that it may send.
#define TVM_HOST_MESSAGE_BYTES 2048

// tvm.rpc.server.GetCRTMaxPacketSize() -> int: the largest RPC packet that the host may send, limited to what TVM's
// host can receive. Without that limit if called with any argument, by hosts that receive messages of any length.
static int max_packet_size(PACKED_PARAMETERS) {
  (void)args;
  (void)type_codes;
  (void)resource_handle;
  int64_t bytes = TVM_CRT_MAX_PACKET_SIZE_BYTES;
  if ((num_args == 0) && (bytes > TVM_HOST_MESSAGE_BYTES)) {
    bytes = TVM_HOST_MESSAGE_BYTES;
  }
  out_value->v_int64 = bytes - 11;
  *out_type = (int)kTVMArgInt;
  return 0;
}

// Names and functions are generated from one list, in the order of the handles of TVM's runtime.
#define BUILTINS(X)                                               \
  X("runtime.SystemLib", system_lib)                              \
  X("tvm.rpc.server.ModuleGetFunction", module_get_function)      \
  X("runtime.RPCTimeEvaluator", boardsmith_time_evaluator_create) \
  X("tvm.rpc.server.GetCRTMaxPacketSize", max_packet_size)        \
  X("tvm.contrib.random.random_fill", boardsmith_random_fill)     \
  X("tvm.aot_executor.create", boardsmith_aot_entry)
#define BUILTIN_NAME(name, func) name "\0"
#define BUILTIN_FUNC(name, func) func,

static const TVMBackendPackedCFunc builtin_funcs[] = {BUILTINS(BUILTIN_FUNC)};

_Static_assert((sizeof builtin_funcs / sizeof builtin_funcs[0]) == 6U, "the count in boardsmith_builtins");

const TVMFuncRegistry boardsmith_builtins = {"\006\000" BUILTINS(BUILTIN_NAME), builtin_funcs};
