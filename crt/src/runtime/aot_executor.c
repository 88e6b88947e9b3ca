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

#ifdef TVM_CRT_MAX_ARGS
#define TENSORS_MOST ((size_t)(TVM_CRT_MAX_ARGS))
#else
#define TENSORS_MOST ((size_t)0xffffU)
#endif

// Metadata names tensors in three groups: inputs, outputs and pools stand behind each other.
typedef struct tensor_group {
  const struct TVMTensorInfo* info;
  int64_t count;
} tensor_group_t;
enum { INPUTS, OUTPUTS, POOLS, GROUPS };
#define GROUP_AT(group, member)                                                                           \
  (offsetof(struct TVMMetadata, member) == (offsetof(struct TVMMetadata, inputs) + ((group) * sizeof(tensor_group_t))))
_Static_assert(GROUP_AT(OUTPUTS, outputs) && GROUP_AT(POOLS, workspace_pools), "tensor_group_t is not a part of TVMMetadata");

// Finds and calls one of the model's functions.
static int call_model(TVMModuleHandle module, const char* pattern, const char* name,
                      const TVMAotExecutor* executor, TVMValue* value) {
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
  static const TVMAotExecutor nothing;
  TVMValue value;
#ifdef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
  if ((boardsmith_length(name) + (sizeof pattern - 2U)) >= (TVM_CRT_MAX_STRLEN_FUNCTION_NAME)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
#endif
  const int error = call_model(module, pattern, name, &nothing, &value);
  *metadata = value.v_handle;
  if (error != 0) {
    return error;
  }
  return ((value.v_handle != NULL) && ((uint32_t)(*metadata)->version == (uint32_t)TVM_METADATA_VERSION))
             ? 0
             : (int)kTvmErrorExecutorModuleBadContext;
}

int boardsmith_aot_executor_make(TVMModuleHandle module_handle, const char* module_name,
                                 TVMAotExecutor** executor) {
  const struct TVMMetadata* m;
  void* memory;
  int error = get_metadata(module_handle, module_name, &m);
  if (error != 0) {
    return error;
  }
  const size_t inputs = (size_t)m->num_inputs;
  const size_t outputs = (size_t)m->num_outputs;
  const size_t pools = (size_t)m->num_workspace_pools;
  const size_t n = inputs + outputs + pools;
  if (((inputs | outputs | pools) > TENSORS_MOST) || (n > TENSORS_MOST)) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  error = boardsmith_block_take(&boardsmith_runtime.arrays, n * sizeof(TVMNDArray),
                                sizeof(TVMAotExecutor) + (n * (sizeof(TVMValue) + sizeof(int))),
                                &memory);
  if (error != 0) {
    return error;
  }
  TVMNDArray* array = memory;
  TVMValue* value = (TVMValue*)(void*)&array[n];
  TVMAotExecutor* const ex = (TVMAotExecutor*)(void*)&value[n];
  int* code = (int*)(void*)&ex[1];
  ex->metadata = m;
  ex->module_handle = module_handle;
  ex->device.device_type = kDLCPU;
  ex->args = array;
  ex->num_args = (int64_t)n;
  ex->values = value;
  ex->type_codes = code;
  const tensor_group_t* const groups = (const tensor_group_t*)(const void*)&m->inputs;
  for (int group = 0; group < (int)GROUPS; group++) {
    const struct TVMTensorInfo* info = groups[group].info;
    for (size_t left = (size_t)groups[group].count; left != 0U; left--) {
      value->v_handle = &array->dl_tensor;
      *code = (int)kTVMDLTensorHandle;
      // The pool that TVM adds by itself is part of the model's code; only one that a user
      // named has to come from here.
      if ((error == 0) && ((group != (int)POOLS) || (boardsmith_after(info->name, "global_workspace") == NULL))) {
        error = boardsmith_array_make(info, array);
        array->reference_count = ARRAY_IN_USE;
      }
      array++;
      value++;
      code++;
      info++;
    }
  }
  if (error == 0) {
    *executor = ex;
  } else {
    (void)boardsmith_arrays_settle(&boardsmith_runtime.arrays, 0);  // the newest table is the first one
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
