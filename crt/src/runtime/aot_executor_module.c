// SPDX-License-Identifier: Apache-2.0
//
// The AOT executor as a module for the host. Its functions are found through its slot,
// so there is an executor while they can be called.
#include <tvm/runtime/crt/aot_executor_module.h>

#include "aot.h"
#include "runtime.h"

static TVMAotExecutor* executor;  // of the one module; NULL: there is none

tvm_crt_error_t TVMAotExecutorModule_Register(void) {
  executor = NULL;  // the runtime was started anew; the function is among the built-in ones
  return kTvmErrorNoError;
}

// The module's functions, in the order of TVM's.
#define FUNCTIONS(X)                   \
  X(GET_INPUT, "get_input")            \
  X(GET_INPUT_INDEX, "get_input_index") \
  X(GET_INPUT_INFO, "get_input_info")  \
  X(GET_NUM_INPUTS, "get_num_inputs")  \
  X(GET_NUM_OUTPUTS, "get_num_outputs") \
  X(GET_OUTPUT, "get_output")          \
  X(LOAD_PARAMS, "load_params")        \
  X(RUN, "run")                        \
  X(SET_INPUT, "set_input")            \
  X(SHARE_PARAMS, "share_params")      \
  X(GET_INPUT_NAME, "get_input_name")
#define FUNCTION_ENUM(id, name) id,
#define FUNCTION_NAME(id, name) name "\0"

enum { FUNCTIONS(FUNCTION_ENUM) FUNCTION_COUNT };
_Static_assert(FUNCTION_COUNT == 11, "the count below");

// dispatch is called for all of them.
static const TVMFuncRegistry registry = {"\013\000" FUNCTIONS(FUNCTION_NAME), NULL};
static const TVMModule module = {&registry};

// Returns the position of the tensor that a call's one argument means, one of count, or the negative of an error. Only
// inputs, named is nonzero for them, may be given by name.
ONCE static int find_tensor(const TVMValue* args, const int* type_codes, int count, int named) {
  int64_t index = args[0].v_int64;
  if ((type_codes[0] == (int)kTVMStr) && (named != 0)) {
    index = TVMAotExecutor_GetInputIndex(executor, args[0].v_str);
  } else if (type_codes[0] != (int)kTVMArgInt) {
    return -(int)kTvmErrorFunctionCallWrongArgType;
  } else {
    // An index as it is.
  }
  return ((uint64_t)index < (uint64_t)(unsigned)count) ? (int)index : -(int)kTvmErrorExecutorModuleNoSuchInput;
}

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
  const int inputs = TVMAotExecutor_GetNumInputs(executor);
  const int outputs = TVMAotExecutor_GetNumOutputs(executor);
  int result = inputs;
  int type = (int)kTVMArgInt;
  switch (function) {
    case GET_NUM_INPUTS:
      break;
    case GET_NUM_OUTPUTS:
      result = outputs;
      break;
    case GET_INPUT:
    case GET_INPUT_INDEX:
    case GET_INPUT_NAME:
    case GET_OUTPUT:
      if (num_args != 1) {
        return (int)kTvmErrorFunctionCallNumArguments;
      }
      result = (function == GET_OUTPUT) ? find_tensor(args, type_codes, outputs, 0)
                                        : find_tensor(args, type_codes, inputs, 1);
      if (result < 0) {
        return -result;
      }
      break;
    default:
      return (int)kTvmErrorFunctionCallNotImplemented;
  }
  out_value->v_int64 = result;
  if ((function == GET_INPUT) || (function == GET_OUTPUT)) {
    TVMNDArray* const array = &executor->args[result + ((function == GET_OUTPUT) ? inputs : 0)];
    array->reference_count++;  // the caller frees it
    out_value->v_handle = &array->dl_tensor;
    type = (int)kTVMNDArrayHandle;
  }
  if (function == GET_INPUT_NAME) {
    out_value->v_str = executor->metadata->inputs[result].name;
    type = (int)kTVMStr;
  }
  *out_type = type;
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
    error = boardsmith_module_add(&module, dispatch, &out_value->v_handle);
    if (error != 0) {
      (void)release();
    } else {
      *out_type = (int)kTVMModuleHandle;
    }
  }
  return error;
}
