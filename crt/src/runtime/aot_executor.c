// SPDX-License-Identifier: Apache-2.0
//
// Runs a model that was compiled ahead of time with the packed interface.
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>

#include "runtime.h"

// Arrays, their values, the executor and the type codes stand in one block, in this order.
_Static_assert((sizeof(TVMAotExecutor) % 8U) == 0U, "everything in the block is aligned");

// Calls the model's function `<prefix><name>_get_c_metadata`.
static int get_metadata(TVMModuleHandle module, const char* name,
                        const struct TVMMetadata** metadata) {
  TVMFunctionHandle function;
  TVMValue value;
  int type;
#ifdef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
  if ((strlen(name) + sizeof "tvmgen__get_c_metadata") > (TVM_CRT_MAX_STRLEN_FUNCTION_NAME)) {
    return boardsmith_fail((int)kTvmErrorFunctionCallInvalidArg,
                           "name longer than TVM_CRT_MAX_STRLEN_FUNCTION_NAME");
  }
#endif
  int error = boardsmith_module_find(module, "tvmgen_", name, "_get_c_metadata", &function);
  if (error == 0) {
    error = TVMFuncCall(function, NULL, NULL, 0, &value, &type);
  }
  if (error == 0) {
    *metadata = value.v_handle;
    if ((type != (int)kTVMOpaqueHandle) || ((*metadata)->version != TVM_METADATA_VERSION)) {
      error = boardsmith_fail((int)kTvmErrorExecutorModuleBadContext, "unknown metadata version");
    }
  }
  return error;
}

// Makes args[first .. first + count) from their descriptions.
static int make_arrays(TVMAotExecutor* executor, const struct TVMTensorInfo* info, int64_t count,
                       TVMNDArray* array) {
  for (int64_t i = 0; i < count; i++) {
    const int error = TVMNDArray_Empty((int32_t)info->num_shape, info->shape, info->dtype,
                                       executor->device, array);
    if (error != 0) {
      return error;
    }
    array->reference_count = ARRAY_IN_USE;
    array++;
    info++;
  }
  return 0;
}

// Makes the entries of the workspace pools. The pool that TVM adds by itself is part of the
// model's code; only one that a user named has to come from here.
static int make_pools(TVMAotExecutor* executor, TVMNDArray* array) {
  static const char own[] = "global_workspace";
  const struct TVMMetadata* m = executor->metadata;
  int error = 0;
  for (int64_t i = 0; (error == 0) && (i < m->num_workspace_pools); i++) {
    const struct TVMTensorInfo* info = &m->workspace_pools[i];
    if (strncmp(info->name, own, sizeof own - 1U) != 0) {
      error = make_arrays(executor, info, 1, &array[i]);
    }
  }
  return error;
}

int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor** executor, const char* module_name) {
  const struct TVMMetadata* m = NULL;
  void* memory = NULL;
  int error = get_metadata(module_handle, module_name, &m);
  if (error != 0) {
    return error;
  }
  const size_t tensors = (size_t)m->num_inputs + (size_t)m->num_outputs;
  const size_t n = tensors + (size_t)m->num_workspace_pools;
#ifdef TVM_CRT_MAX_ARGS
  if (n > (size_t)(TVM_CRT_MAX_ARGS)) {
    return boardsmith_fail((int)kTvmErrorFunctionCallNumArguments,
                           "more tensors than TVM_CRT_MAX_ARGS");
  }
#endif
  const size_t arrays_bytes = n * sizeof(TVMNDArray);
  const size_t rest_bytes = (n * (sizeof(TVMValue) + sizeof(int))) + sizeof(TVMAotExecutor);
  error = boardsmith_block_take(&boardsmith_runtime.arrays, arrays_bytes, rest_bytes, &memory);
  if (error != 0) {
    return error;
  }
  (void)memset(memory, 0, arrays_bytes + rest_bytes);
  TVMNDArray* const args = memory;
  TVMValue* const values = (TVMValue*)(void*)&args[n];
  TVMAotExecutor* const ex = (TVMAotExecutor*)(void*)&values[n];
  ex->metadata = m;
  ex->module_handle = module_handle;
  ex->device = device;
  ex->args = args;
  ex->num_args = (int64_t)n;
  ex->values = values;
  ex->type_codes = (int*)(void*)&ex[1];
  for (size_t i = 0; i < n; i++) {
    values[i].v_handle = &args[i].dl_tensor;
    ex->type_codes[i] = (int)kTVMDLTensorHandle;
  }
  error = make_arrays(ex, m->inputs, m->num_inputs, args);
  if (error == 0) {
    error = make_arrays(ex, m->outputs, m->num_outputs, &args[m->num_inputs]);
  }
  if (error == 0) {
    error = make_pools(ex, &args[tensors]);
  }
  if (error != 0) {
    (void)TVMAotExecutor_Release(ex, device);
    return error;
  }
  *executor = ex;
  return 0;
}

int TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device) {
  (void)device;
  block_t** table = boardsmith_block_at(&boardsmith_runtime.arrays, executor);
  if (table == NULL) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  for (int64_t i = 0; i < executor->num_args; i++) {
    executor->args[i].reference_count &= ~ARRAY_IN_USE;
  }
  boardsmith_arrays_settle(table);
  return 0;
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
    if (strcmp(m->inputs[i].name, name) == 0) {
      return i;
    }
  }
  TVMAPIErrorf("no input %s", name);
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
  TVMFunctionHandle function;
  TVMValue value;
  int type;
  const int error = boardsmith_module_find(executor->module_handle, executor->metadata->mod_name,
                                           "_run", "", &function);
  if (error != 0) {
    return error;
  }
  return TVMFuncCall(function, executor->values, executor->type_codes, (int)executor->num_args,
                     &value, &type);
}
