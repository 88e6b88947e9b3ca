// SPDX-License-Identifier: Apache-2.0
//
// Runs a model that was compiled ahead of time with the packed interface.
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>

#include "aot.h"
#include "runtime.h"

// Arrays, their values, the executor and the type codes stand in one block, in this order.
_Static_assert(((sizeof(TVMNDArray) % 8U) == 0U) && ((sizeof(TVMAotExecutor) % 8U) == 0U),
               "everything in the block is aligned");

// More tensors no model has; a sum of three such counts does not overflow.
#define TENSORS_MOST 0xffffU

// Finds and calls one of the model's functions.
static int call_model(TVMModuleHandle module, const char* pattern, const char* name,
                      TVMAotExecutor* executor, TVMValue* value) {
  TVMFunctionHandle function;
  int type;
  const int error = boardsmith_module_find(module, pattern, name, &function);
  return (error != 0) ? error
                      : TVMFuncCall(function, executor->values, executor->type_codes,
                                    (int)executor->num_args, value, &type);
}

// Stores what the model's metadata function returns.
static int get_metadata(TVMModuleHandle module, const char* name,
                        const struct TVMMetadata** metadata) {
  static const char pattern[] = "tvmgen_%_get_c_metadata";
  TVMAotExecutor nothing;
  TVMValue value;
#ifdef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
  const size_t length = (size_t)(boardsmith_after(name, name) - name);
  if ((length + (sizeof pattern - 2U)) >= (TVM_CRT_MAX_STRLEN_FUNCTION_NAME)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
#endif
  nothing.values = NULL;
  nothing.type_codes = NULL;
  nothing.num_args = 0;
  const int error = call_model(module, pattern, name, &nothing, &value);
  if (error != 0) {
    return error;
  }
  const struct TVMMetadata* const m = value.v_handle;
  if ((m == NULL) || ((uint32_t)m->version != (uint32_t)TVM_METADATA_VERSION) ||
      (((uint32_t)m->num_inputs | (uint32_t)m->num_outputs | (uint32_t)m->num_workspace_pools) >
       TENSORS_MOST)) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  *metadata = m;
  return 0;
}

int boardsmith_aot_executor_make(TVMModuleHandle module_handle, const char* module_name,
                                 TVMAotExecutor** executor) {
  const struct TVMMetadata* m;
  void* memory;
  int error = get_metadata(module_handle, module_name, &m);
  if (error != 0) {
    return error;
  }
  const size_t inputs = (uint32_t)m->num_inputs;
  const size_t tensors = inputs + (uint32_t)m->num_outputs;
  const size_t n = tensors + (uint32_t)m->num_workspace_pools;
#ifdef TVM_CRT_MAX_ARGS
  if (n > (size_t)(TVM_CRT_MAX_ARGS)) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
#endif
  error = boardsmith_block_take(&boardsmith_runtime.arrays, n * sizeof(TVMNDArray),
                                sizeof(TVMAotExecutor) + (n * (sizeof(TVMValue) + sizeof(int))),
                                &memory);
  if (error != 0) {
    return error;
  }
  TVMNDArray* array = memory;
  TVMValue* value = (TVMValue*)(void*)&array[n];
  TVMAotExecutor* const ex = (TVMAotExecutor*)(void*)&value[n];
  const struct TVMTensorInfo* info = m->inputs;
  ex->metadata = m;
  ex->module_handle = module_handle;
  ex->device.device_type = kDLCPU;
  ex->args = array;
  ex->num_args = (int64_t)n;
  ex->values = value;
  ex->type_codes = (int*)(void*)&ex[1];
  for (size_t i = 0; (error == 0) && (i < n); i++) {
    if (i == inputs) {
      info = m->outputs;
    }
    if (i == tensors) {
      info = m->workspace_pools;
    }
    value[i].v_handle = &array[i].dl_tensor;
    ex->type_codes[i] = (int)kTVMDLTensorHandle;
    // The pool that TVM adds by itself is part of the model's code; only one that a user
    // named has to come from here.
    if ((i < tensors) || (boardsmith_after(info->name, "global_workspace") == NULL)) {
      error = boardsmith_array_make(info, &array[i]);
      array[i].reference_count = ARRAY_IN_USE;
    }
    info++;
  }
  if (error != 0) {
    (void)boardsmith_arrays_settle(&boardsmith_runtime.arrays, 0);  // the newest table is the first one
  } else {
    *executor = ex;
  }
  return error;
}

int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor** executor, const char* module_name) {
  const int error = boardsmith_aot_executor_make(module_handle, module_name, executor);
  if (error == 0) {
    (*executor)->device = device;
  }
  return error;
}

int TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device) {
  (void)device;
  return boardsmith_arrays_settle(boardsmith_block_at(&boardsmith_runtime.arrays, executor),
                                  ~ARRAY_IN_USE);
}

int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_inputs;
}

int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_outputs;
}

int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name) {
  const struct TVMMetadata* m = executor->metadata;
  for (int i = 0; i < (int)m->num_inputs; i++) {
    if (boardsmith_matches(m->inputs[i].name, "%", name) != 0) {
      return i;
    }
  }
  TVMAPIErrorf("not found: %s", name);
  return -1;
}

int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, const char** name) {
  if ((index < 0) || (index >= TVMAotExecutor_GetNumInputs(executor))) {
    return (int)kTvmErrorExecutorModuleNoSuchInput;
  }
  *name = executor->metadata->inputs[index].name;
  return 0;
}

int TVMAotExecutor_Run(TVMAotExecutor* executor) {
  TVMValue value;
  return call_model(executor->module_handle, "%_run", executor->metadata->mod_name, executor, &value);
}
