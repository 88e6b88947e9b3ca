// SPDX-License-Identifier: Apache-2.0
//
// Runs a model that was compiled ahead of time with the packed interface.
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>

#include "runtime.h"

// Arrays, their values, the executor and the type codes stand in one block, in this order.
_Static_assert(((sizeof(TVMNDArray) % 8U) == 0U) && ((sizeof(TVMAotExecutor) % 8U) == 0U),
               "everything in the block is aligned");

// More tensors no model has; a sum of three such counts does not overflow.
#define TENSORS_MOST 0xffffU

static int call_plain(TVMModuleHandle module, const char* pattern, const char* name,
                      TVMAotExecutor* executor, TVMValue* value) {
  TVMFunctionHandle function;
  int type;
  const int error = boardsmith_module_find(module, pattern, name, &function);
  if (error != 0) {
    return error;
  }
  return (executor == NULL) ? TVMFuncCall(function, NULL, NULL, 0, value, &type)
                            : TVMFuncCall(function, executor->values, executor->type_codes,
                                          (int)executor->num_args, value, &type);
}

// Calls the model's function that tells its metadata.
static int get_metadata(TVMModuleHandle module, const char* name,
                        const struct TVMMetadata** metadata) {
  static const char pattern[] = "tvmgen_%_get_c_metadata";
  TVMValue value;
#ifdef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
  if ((strlen(name) + (sizeof pattern - 2U)) >= (TVM_CRT_MAX_STRLEN_FUNCTION_NAME)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
#endif
  const int error = call_plain(module, pattern, name, NULL, &value);
  if (error != 0) {
    return error;
  }
  const struct TVMMetadata* const m = value.v_handle;
  if ((m == NULL) || (m->version != TVM_METADATA_VERSION) ||
      (((uint64_t)m->num_inputs | (uint64_t)m->num_outputs | (uint64_t)m->num_workspace_pools) >
       TENSORS_MOST)) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  *metadata = m;
  return 0;
}

// Makes the next count arguments from their descriptions.
static int make_arrays(TVMAotExecutor* executor, const struct TVMTensorInfo* infos, int64_t count, int pools) {
  int error = 0;
  for (int i = 0; (error == 0) && (i < (int)count); i++) {
    const size_t at = (size_t)executor->num_args;
    TVMNDArray* const array = &executor->args[at];
    executor->values[at].v_handle = &array->dl_tensor;
    executor->type_codes[at] = (int)kTVMDLTensorHandle;
    executor->num_args++;
    // The pool that TVM adds by itself is part of the model's code; only one that a user
    // named has to come from here.
    if ((pools == 0) || (boardsmith_after(infos[i].name, "global_workspace") == NULL)) {
      error = boardsmith_array_make(&infos[i], array);
      array->reference_count = ARRAY_IN_USE;
    }
  }
  return error;
}

int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor** executor, const char* module_name) {
  const struct TVMMetadata* m;
  void* memory;
  int error = get_metadata(module_handle, module_name, &m);
  if (error != 0) {
    return error;
  }
  const size_t n = (size_t)m->num_inputs + (size_t)m->num_outputs + (size_t)m->num_workspace_pools;
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
  TVMNDArray* const args = memory;
  TVMValue* const values = (TVMValue*)(void*)&args[n];
  TVMAotExecutor* const ex = (TVMAotExecutor*)(void*)&values[n];
  ex->metadata = m;
  ex->module_handle = module_handle;
  ex->device = device;
  ex->args = args;
  ex->values = values;
  ex->type_codes = (int*)(void*)&ex[1];
  error = make_arrays(ex, m->inputs, m->num_inputs, 0);
  if (error == 0) {
    error = make_arrays(ex, m->outputs, m->num_outputs, 0);
  }
  if (error == 0) {
    error = make_arrays(ex, m->workspace_pools, m->num_workspace_pools, 1);
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
  return call_plain(executor->module_handle, "%_run", executor->metadata->mod_name, executor, &value);
}
