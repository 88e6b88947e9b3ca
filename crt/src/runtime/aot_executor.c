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

// Calls the model's function that tells its metadata.
static int get_metadata(TVMModuleHandle module, const char* name,
                        const struct TVMMetadata** metadata) {
  static const char pattern[] = "tvmgen_%_get_c_metadata";
  TVMFunctionHandle function;
  TVMValue value;
  int type;
#ifdef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
  if ((strlen(name) + sizeof pattern) > (TVM_CRT_MAX_STRLEN_FUNCTION_NAME)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
#endif
  int error = boardsmith_module_find(module, pattern, name, &function);
  if (error == 0) {
    error = TVMFuncCall(function, NULL, NULL, 0, &value, &type);
    *metadata = value.v_handle;
  }
  if ((error == 0) && ((*metadata)->version != TVM_METADATA_VERSION)) {
    error = (int)kTvmErrorExecutorModuleBadContext;
  }
  return error;
}

// Returns the description of argument i: inputs, then outputs, then pools.
static const struct TVMTensorInfo* info_of(const struct TVMMetadata* m, int i) {
  const int outputs_at = (int)m->num_inputs;
  const int pools_at = outputs_at + (int)m->num_outputs;
  if (i < outputs_at) {
    return &m->inputs[i];
  }
  return (i < pools_at) ? &m->outputs[i - outputs_at] : &m->workspace_pools[i - pools_at];
}

int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor** executor, const char* module_name) {
  const struct TVMMetadata* m;
  void* memory;
  int error = get_metadata(module_handle, module_name, &m);
  if (error != 0) {
    return error;
  }
  const int tensors = (int)m->num_inputs + (int)m->num_outputs;
  const int n = tensors + (int)m->num_workspace_pools;
#ifdef TVM_CRT_MAX_ARGS
  if (n > (TVM_CRT_MAX_ARGS)) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
#endif
  error = boardsmith_block_take(
      &boardsmith_runtime.arrays, (size_t)n * sizeof(TVMNDArray),
      sizeof(TVMAotExecutor) + ((size_t)n * (sizeof(TVMValue) + sizeof(int))), &memory);
  if (error != 0) {
    return error;
  }
  TVMNDArray* const args = memory;
  TVMValue* const values = (TVMValue*)(void*)&args[n];
  TVMAotExecutor* const ex = (TVMAotExecutor*)(void*)&values[n];
  int* const type_codes = (int*)(void*)&ex[1];
  ex->metadata = m;
  ex->module_handle = module_handle;
  ex->device = device;
  ex->args = args;
  ex->num_args = n;
  ex->values = values;
  ex->type_codes = type_codes;
  for (int i = 0; (error == 0) && (i < n); i++) {
    const struct TVMTensorInfo* info = info_of(m, i);
    values[i].v_handle = &args[i].dl_tensor;
    type_codes[i] = (int)kTVMDLTensorHandle;
    // The pool that TVM adds by itself is part of the model's code; only one that a user
    // named has to come from here.
    if ((i < tensors) || (boardsmith_after(info->name, "global_workspace") == NULL)) {
      error = TVMNDArray_Empty((int32_t)info->num_shape, info->shape, info->dtype, device, &args[i]);
      args[i].reference_count = ARRAY_IN_USE;
    }
  }
  if (error != 0) {
    (void)TVMAotExecutor_Release(ex, device);
  } else {
    *executor = ex;
  }
  return error;
}

int TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device) {
  (void)device;
  block_t** table = boardsmith_block_at(&boardsmith_runtime.arrays, executor);
  if (*table == NULL) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  for (int i = 0; i < (int)executor->num_args; i++) {
    executor->args[i].reference_count &= ~ARRAY_IN_USE;
  }
  return boardsmith_arrays_settle(table);
}

int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_inputs;
}

int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor) {
  return (int)executor->metadata->num_outputs;
}

int boardsmith_aot_tensor_index(const struct TVMTensorInfo* infos, int count, const char* name) {
  for (int i = 0; i < count; i++) {
    const char* rest = boardsmith_after(infos[i].name, name);
    if ((rest != NULL) && (*rest == '\0')) {
      return i;
    }
  }
  TVMAPIErrorf("not found: %s", name);
  return -1;
}

int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name) {
  const struct TVMMetadata* m = executor->metadata;
  return boardsmith_aot_tensor_index(m->inputs, (int)m->num_inputs, name);
}

int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, const char** name) {
  if ((index < 0) || (index >= TVMAotExecutor_GetNumInputs(executor))) {
    return (int)kTvmErrorExecutorModuleNoSuchInput;
  }
  *name = executor->metadata->inputs[index].name;
  return 0;
}

int TVMAotExecutor_Run(TVMAotExecutor* executor) {
  TVMFunctionHandle function;
  TVMValue value;
  int type;
  const int error = boardsmith_module_find(executor->module_handle, "%_run",
                                           executor->metadata->mod_name, &function);
  if (error != 0) {
    return error;
  }
  return TVMFuncCall(function, executor->values, executor->type_codes, (int)executor->num_args,
                     &value, &type);
}
