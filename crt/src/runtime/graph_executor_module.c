// SPDX-License-Identifier: Apache-2.0
//
// The graph executor as a module, for the host; TVM's firmwares call TVMGraphExecutorModule_Register to offer it.
#include <stdbool.h>
#include <tvm/runtime/crt/graph_executor_module.h>

#include "crt_config.h"
#include "functions.h"
#include "graph_executor_parts.h"
#include "state.h"

#ifndef BOARDSMITH_NO_GRAPH_EXECUTOR

// The module's functions, in the order of TVM's. TVM's firmwares cannot call the last two. get_input_info would return
// what a device has no type for.
#define GRAPH_FUNCTIONS(X)                    \
  X(GRAPH_GET_INPUT, "get_input")             \
  X(GRAPH_GET_INPUT_INDEX, "get_input_index") \
  X(GRAPH_GET_INPUT_INFO, "get_input_info")   \
  X(GRAPH_GET_NUM_INPUTS, "get_num_inputs")   \
  X(GRAPH_GET_NUM_OUTPUTS, "get_num_outputs") \
  X(GRAPH_GET_OUTPUT, "get_output")           \
  X(GRAPH_LOAD_PARAMS, "load_params")         \
  X(GRAPH_RUN, "run")                         \
  X(GRAPH_SET_INPUT, "set_input")             \
  X(GRAPH_SHARE_PARAMS, "share_params")
#define FUNCTION_ENUM(id, name) id,
#define FUNCTION_NAME(id, name) name "\0"

enum { GRAPH_FUNCTIONS(FUNCTION_ENUM) GRAPH_FUNCTION_COUNT };
_Static_assert(GRAPH_FUNCTION_COUNT == 10, "the count in graph_registry");

static const TVMFuncRegistry graph_registry = {"\012\000" GRAPH_FUNCTIONS(FUNCTION_NAME), NULL};
static const TVMModule graph_module = {&graph_registry};

// Of the only module. It exists while a slot has the module: TVMInitializeRuntime clears slots alone.
static TVMGraphExecutor* module_executor;

static bool module_exists(void) {
  for (unsigned i = 0; i < MODULE_GLOBAL; i++) {
    if (boardsmith_runtime.modules[i].module == &graph_module) {
      return true;
    }
  }
  return false;
}

// Stores the position of an input or output, which is given as a number or, for an input, a name.
static int select_index(const TVMValue* arg, int type, bool of_outputs, uint32_t* index) {
  TVMGraphExecutor* const ex = module_executor;
  int64_t at = arg->v_int64;
  if ((type == (int)kTVMStr) && !of_outputs) {
    at = TVMGraphExecutor_GetInputIndex(ex, arg->v_str);
  } else if (type != (int)kTVMArgInt) {
    return (int)kTvmErrorFunctionCallWrongArgType;
  }
  if ((uint64_t)at >= (of_outputs ? ex->num_outputs : ex->num_inputs)) {
    return (int)kTvmErrorExecutorModuleNoSuchInput;
  }
  *index = (uint32_t)at;
  return 0;
}

static int graph_dispatch(PACKED_PARAMETERS) {
  TVMGraphExecutor* const ex = module_executor;
  const unsigned function = (unsigned)(uintptr_t)resource_handle;
  // The number of arguments of each function; GRAPH_SHARE_PARAMS and GRAPH_GET_INPUT_INFO are not implemented.
  static const uint8_t counts[GRAPH_FUNCTION_COUNT] = {[GRAPH_GET_INPUT] = 1,
                                                       [GRAPH_GET_INPUT_INDEX] = 1,
                                                       [GRAPH_GET_OUTPUT] = 1,
                                                       [GRAPH_LOAD_PARAMS] = 1,
                                                       [GRAPH_SET_INPUT] = 2};
  uint32_t index = 0;
  if (function == MODULE_RELEASED) {
    return TVMGraphExecutor_Release(&module_executor);
  }
  if ((function == GRAPH_GET_INPUT_INFO) || (function == GRAPH_SHARE_PARAMS)) {
    return (int)kTvmErrorFunctionCallNotImplemented;
  }
  if (num_args != (int)counts[function]) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  if (function == GRAPH_RUN) {
    return TVMGraphExecutor_Run(ex);
  }
  if (function == GRAPH_LOAD_PARAMS) {
    const TVMByteArray* const blob = args[0].v_handle;
    return (type_codes[0] == (int)kTVMBytes) ? TVMGraphExecutor_LoadParams(ex, blob->data, (uint32_t)blob->size)
                                             : (int)kTvmErrorFunctionCallWrongArgType;
  }
  if (num_args != 0) {
    const int error = select_index(&args[0], type_codes[0], function == GRAPH_GET_OUTPUT, &index);
    if (error != 0) {
      return error;
    }
  }
  if (function == GRAPH_SET_INPUT) {
    DLTensor* const to = ex->inputs[index].tensor;
    if (type_codes[1] != (int)kTVMDLTensorHandle) {
      return (int)kTvmErrorFunctionCallWrongArgType;
    }
    return (boardsmith_tensor_known(to, 1) != 0) ? TVMDeviceCopyDataFromTo(args[1].v_handle, to, NULL)
                                                 : (int)kTvmErrorFunctionCallInvalidArg;
  }
  if ((function == GRAPH_GET_INPUT) || (function == GRAPH_GET_OUTPUT)) {
    DLTensor* const t = (function == GRAPH_GET_INPUT) ? ex->inputs[index].tensor : ex->outputs[index];
    TVMNDArray_IncrementReference((TVMNDArray*)(void*)t);  // the caller frees it
    out_value->v_handle = t;
    *out_type = (int)kTVMNDArrayHandle;
    return 0;
  }
  if (function != GRAPH_GET_INPUT_INDEX) {
    index = (function == GRAPH_GET_NUM_INPUTS) ? ex->num_inputs : ex->num_outputs;
  }
  out_value->v_int64 = (int64_t)index;
  *out_type = (int)kTVMArgInt;
  return 0;
}

int TVMGraphExecutorModule_Create(PACKED_PARAMETERS) {
  (void)resource_handle;
  int error = boardsmith_arguments(type_codes, num_args, "LJAA");
  if (error != 0) {
    return error;
  }
  if (module_exists()) {
    return (int)kTvmErrorExecutorModuleAlreadyCreated;
  }
  const DLDevice device = {kDLCPU, 0};
  if ((args[2].v_int64 != (int64_t)kDLCPU) || (args[3].v_int64 != 0)) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  error = TVMGraphExecutor_Create(args[0].v_str, args[1].v_handle, &device, &module_executor);
  if (error == 0) {
    error = boardsmith_module_add(&graph_module, graph_dispatch, &out_value->v_handle);
    if (error != 0) {
      (void)TVMGraphExecutor_Release(&module_executor);
    } else {
      *out_type = (int)kTVMModuleHandle;
    }
  }
  return error;
}

tvm_crt_error_t TVMGraphExecutorModule_Register(void) {
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.graph_executor.create",
                                                (TVMFunctionHandle)(uintptr_t)TVMGraphExecutorModule_Create, 0);
}

#endif  // BOARDSMITH_NO_GRAPH_EXECUTOR
