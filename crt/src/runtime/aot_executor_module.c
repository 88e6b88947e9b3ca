// SPDX-License-Identifier: Apache-2.0
//
// The AOT executor as a module for the host. Its functions are found through its slot,
// so there is an executor while they can be called.
#include <tvm/runtime/crt/aot_executor_module.h>

#include <stdbool.h>

#include "aot.h"
#include "runtime.h"

static TVMAotExecutor* executor;  // of the one module; NULL: there is none

tvm_crt_error_t TVMAotExecutorModule_Register(void) {
  executor = NULL;  // the runtime was started anew; the function is among the built-in ones
  return kTvmErrorNoError;
}

// The module's functions: those without an argument, those with one, which means a tensor, and what TVM's host looks up and
// does not call. What other functions TVM's module has nobody could ever call.
#define FUNCTIONS(X)                    \
  X(RUN, "run")                         \
  X(GET_NUM_INPUTS, "get_num_inputs")   \
  X(GET_NUM_OUTPUTS, "get_num_outputs") \
  X(GET_OUTPUT, "get_output")           \
  X(GET_INPUT, "get_input")             \
  X(GET_INPUT_INDEX, "get_input_index") \
  X(GET_INPUT_NAME, "get_input_name")   \
  X(SET_INPUT, "set_input")
#define FUNCTION_ENUM(id, name) id,
#define FUNCTION_NAME(id, name) name "\0"

enum { FUNCTIONS(FUNCTION_ENUM) FUNCTION_COUNT };
_Static_assert(FUNCTION_COUNT == 8, "the count below");

// dispatch is called for all of them.
static const TVMFuncRegistry executor_registry = {"\010\000" FUNCTIONS(FUNCTION_NAME), NULL};
static const TVMModule executor_module = {&executor_registry};

static int release(void) {
  TVMAotExecutor* const ex = executor;
  executor = NULL;
  return TVMAotExecutor_Release(ex, ex->device);
}

static int dispatch(PACKED_PARAMETERS) {
  const unsigned function = (unsigned)(uintptr_t)resource_handle;
  if (function == MODULE_RELEASED) {
    return release();
  }
  if (function == RUN) {
    return TVMAotExecutor_Run(executor);
  }
  // The tensors that are meant.
  TVMAotExecutor* const ex = executor;
  const bool of_outputs = (function == GET_NUM_OUTPUTS) || (function == GET_OUTPUT);
  uint32_t first = 0;
  uint32_t count = (uint32_t)ex->metadata->num_inputs;
  if (of_outputs) {
    first = count;
    count = (uint32_t)ex->metadata->num_outputs;
  }
  int64_t result = (int64_t)count;
  *out_type = (int)kTVMArgInt;
  if (function == SET_INPUT) {
    return (int)kTvmErrorFunctionCallNotImplemented;
  }
  if (function >= GET_OUTPUT) {
    if (num_args != 1) {
      return (int)kTvmErrorFunctionCallNumArguments;
    }
    result = args[0].v_int64;
    if ((type_codes[0] == (int)kTVMStr) && !of_outputs) {
      result = TVMAotExecutor_GetInputIndex(ex, args[0].v_str);
    } else if (type_codes[0] != (int)kTVMArgInt) {
      return (int)kTvmErrorFunctionCallWrongArgType;
    } else {
      // An index as it is.
    }
    if ((uint64_t)result >= count) {
      return (int)kTvmErrorExecutorModuleNoSuchInput;
    }
  }
  out_value->v_int64 = result;
  if ((function == GET_INPUT) || (function == GET_OUTPUT)) {
    TVMNDArray* const array = &ex->args[first + (uint32_t)result];
    array->reference_count++;  // the caller frees it
    out_value->v_handle = &array->dl_tensor;
    *out_type = (int)kTVMNDArrayHandle;
  }
  if (function == GET_INPUT_NAME) {
    out_value->v_str = ex->metadata->inputs[result].name;
    *out_type = (int)kTVMStr;
  }
  return 0;
}

int boardsmith_aot_create(PACKED_PARAMETERS) {
  (void)resource_handle;
  int error = boardsmith_arguments(type_codes, num_args, "JGL");
  if (error != 0) {
    return error;
  }
  if (executor != NULL) {
    return (int)kTvmErrorExecutorModuleAlreadyCreated;
  }
  if ((args[1].v_device.device_type != kDLCPU) || (args[1].v_device.device_id != 0)) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  error = boardsmith_aot_executor_make(args[0].v_handle, args[2].v_str, &executor);
  if (error == 0) {
    error = boardsmith_module_add(&executor_module, dispatch, &out_value->v_handle);
    if (error != 0) {
      (void)release();
    } else {
      *out_type = (int)kTVMModuleHandle;
    }
  }
  return error;
}
