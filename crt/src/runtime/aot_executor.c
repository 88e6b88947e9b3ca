// SPDX-License-Identifier: Apache-2.0
//
// Runs a model that was compiled ahead of time with the packed interface: as an executor for the firmware, and as a
// module for the host. The host finds the functions through the module's slot, so an executor exists whenever they can
// be called.
#include <stdbool.h>
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>

#include "arrays.h"
#include "builtins.h"
#include "state.h"
#include "text.h"

// Arrays, their values, the executor and the type codes are in one block, in this order.
_Static_assert(((sizeof(TVMNDArray) % 8U) == 0U) && ((sizeof(TVMAotExecutor) % 8U) == 0U),
               "everything in the block must be aligned");

#ifdef TVM_CRT_MAX_ARGS
#define TENSORS_MOST ((size_t)(TVM_CRT_MAX_ARGS))
#else
#define TENSORS_MOST ((size_t)0xffffU)
#endif

// Stores the result of the model's metadata function.
static int get_metadata(TVMModuleHandle module, const char* name, const struct TVMMetadata** metadata) {
  static const char pattern[] = "tvmgen_%_get_c_metadata";
  TVMFunctionHandle function;
  TVMValue value;
  int type;
#ifdef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
  if ((boardsmith_text_length(name) + (sizeof pattern - 2U)) >= (TVM_CRT_MAX_STRLEN_FUNCTION_NAME)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
#endif
  int error = boardsmith_module_find(module, pattern, name, &function);
  if (error == 0) {
    error = TVMFuncCall(function, NULL, NULL, 0, &value, &type);
  }
  if (error != 0) {
    return error;  // there is no value
  }
  *metadata = value.v_handle;
  return ((value.v_handle != NULL) && ((uint32_t)(*metadata)->version == (uint32_t)TVM_METADATA_VERSION))
             ? 0
             : (int)kTvmErrorExecutorModuleBadContext;
}

// A group of a model's tensors.
typedef struct tensor_group {
  const struct TVMTensorInfo* info;
  size_t count;
} tensor_group_t;
enum { INPUTS, OUTPUTS, POOLS, GROUPS };

// Makes the arrays, values and type codes of the executor's tensors. The pool that TVM adds has no data if the wrapper
// contains it; pools that the user named always have.
static int make_tensors(const TVMAotExecutor* ex, const tensor_group_t* groups, bool wrapped) {
  TVMNDArray* array = ex->args;
  TVMValue* value = ex->values;
  int* code = ex->type_codes;
  int error = 0;
  for (int group = 0; group < (int)GROUPS; group++) {
    const struct TVMTensorInfo* info = groups[group].info;
    for (size_t left = groups[group].count; left != 0U; left--) {
      value->v_handle = &array->dl_tensor;
      *code = (int)kTVMDLTensorHandle;
      if ((error == 0) &&
          ((group != (int)POOLS) || !wrapped || (boardsmith_text_after(info->name, "global_workspace") == NULL))) {
        error = boardsmith_array_make(info, array);
        array->reference_count = ARRAY_IN_USE;
      }
      array++;
      value++;
      code++;
      info++;
    }
  }
  return error;
}

int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device, TVMAotExecutor** executor,
                          const char* module_name) {
  const struct TVMMetadata* m = NULL;
  TVMFunctionHandle function;
  void* memory;
  int error = get_metadata(module_handle, module_name, &m);
  if (error != 0) {
    return error;
  }
  // From TVM 0.12 on the system library has the wrapper, which contains the pool that TVM adds; up to 0.11 it has only
  // the main function, which gets that pool as an argument.
  const bool wrapped = boardsmith_module_find(module_handle, "%_run", m->mod_name, &function) == 0;
  if (!wrapped) {
    error = boardsmith_module_find(module_handle, "%___tvm_main__", m->mod_name, &function);
  }
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
  error = boardsmith_block_take(&boardsmith_runtime.memory[MEMORY_TABLES], n * sizeof(TVMNDArray),
                                sizeof(TVMAotExecutor) + (n * (sizeof(TVMValue) + sizeof(int))), &memory);
  if (error != 0) {
    return error;
  }
  TVMNDArray* const arrays = memory;
  TVMValue* const values = (TVMValue*)(void*)&arrays[n];
  TVMAotExecutor* const ex = (TVMAotExecutor*)(void*)&values[n];
  ex->metadata = m;
  ex->module_handle = module_handle;
  ex->device = device;
  ex->args = arrays;
  ex->function = function;
  ex->num_args = (int64_t)n;
  ex->values = values;
  ex->type_codes = (int*)(void*)&ex[1];
  const tensor_group_t groups[GROUPS] = {
      [INPUTS] = {m->inputs, inputs}, [OUTPUTS] = {m->outputs, outputs}, [POOLS] = {m->workspace_pools, pools}};
  error = make_tensors(ex, groups, wrapped);
  if (error == 0) {
    *executor = ex;
  } else {
    // The newest table is the first one.
    (void)boardsmith_arrays_free_unused(&boardsmith_runtime.memory[MEMORY_TABLES], 0);
  }
  return error;
}

int TVMAotExecutor_Run(TVMAotExecutor* executor) {
  TVMValue value;
  int type;
  return TVMFuncCall(executor->function, executor->values, executor->type_codes, (int)executor->num_args, &value,
                     &type);
}

int TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device) {
  (void)device;
  block_t** const table = boardsmith_block_at(&boardsmith_runtime.memory[MEMORY_TABLES], executor);
  return boardsmith_arrays_free_unused(table, ~ARRAY_IN_USE);
}

int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name) {
  const struct TVMMetadata* m = executor->metadata;
  for (int i = 0; i < (int)m->num_inputs; i++) {
    if (boardsmith_text_matches(m->inputs[i].name, "%", name) != 0) {
      return i;
    }
  }
  TVMAPIErrorf("not found: %s", name);
  return -1;
}

int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor) { return (int)executor->metadata->num_inputs; }

int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor) { return (int)executor->metadata->num_outputs; }

int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, const char** name) {
  if ((index < 0) || (index >= TVMAotExecutor_GetNumInputs(executor))) {
    return (int)kTvmErrorExecutorModuleNoSuchInput;
  }
  *name = executor->metadata->inputs[index].name;
  return 0;
}

// ---- The module -----------------------------------------------------------------------------------------------------

// The module's functions: three without arguments, four with one argument that selects a tensor, and one that TVM's
// host only looks up. TVM's module has further functions, which always fail.
#define AOT_FUNCTIONS(X)                    \
  X(AOT_RUN, "run")                         \
  X(AOT_GET_NUM_INPUTS, "get_num_inputs")   \
  X(AOT_GET_NUM_OUTPUTS, "get_num_outputs") \
  X(AOT_GET_OUTPUT, "get_output")           \
  X(AOT_GET_INPUT, "get_input")             \
  X(AOT_GET_INPUT_INDEX, "get_input_index") \
  X(AOT_GET_INPUT_NAME, "get_input_name")   \
  X(AOT_SET_INPUT, "set_input")
#define FUNCTION_ENUM(id, name) id,
#define FUNCTION_NAME(id, name) name "\0"

enum { AOT_FUNCTIONS(FUNCTION_ENUM) AOT_FUNCTION_COUNT };
_Static_assert(AOT_FUNCTION_COUNT == 8, "the count in executor_registry");

// There are no function pointers: aot_dispatch is called for all of them.
static const TVMFuncRegistry executor_registry = {"\010\000" AOT_FUNCTIONS(FUNCTION_NAME), NULL};
static const TVMModule executor_module = {&executor_registry};

static int release(void) {
  TVMAotExecutor* const ex = boardsmith_runtime.executor;
  boardsmith_runtime.executor = NULL;
  return TVMAotExecutor_Release(ex, ex->device);
}

static int aot_dispatch(PACKED_PARAMETERS) {
  const unsigned function = (unsigned)(uintptr_t)resource_handle;
  if (function == MODULE_RELEASED) {
    return release();
  }
  if (function == AOT_RUN) {
    return TVMAotExecutor_Run(boardsmith_runtime.executor);
  }
  // The group of tensors that the function is about.
  TVMAotExecutor* const ex = boardsmith_runtime.executor;
  const bool of_outputs = (function == AOT_GET_NUM_OUTPUTS) || (function == AOT_GET_OUTPUT);
  uint32_t first = 0;
  uint32_t count = (uint32_t)ex->metadata->num_inputs;
  if (of_outputs) {
    first = count;
    count = (uint32_t)ex->metadata->num_outputs;
  }
  int64_t result = (int64_t)count;
  *out_type = (int)kTVMArgInt;
  if (function == AOT_SET_INPUT) {
    return (int)kTvmErrorFunctionCallNotImplemented;
  }
  if (function >= AOT_GET_OUTPUT) {
    if (num_args != 1) {
      return (int)kTvmErrorFunctionCallNumArguments;
    }
    const bool named = (type_codes[0] == (int)kTVMStr) && !of_outputs;
    if (!named && (type_codes[0] != (int)kTVMArgInt)) {
      return (int)kTvmErrorFunctionCallWrongArgType;
    }
    result = named ? (int64_t)TVMAotExecutor_GetInputIndex(ex, args[0].v_str) : args[0].v_int64;
    if ((uint64_t)result >= count) {
      return (int)kTvmErrorExecutorModuleNoSuchInput;
    }
  }
  out_value->v_int64 = result;
  if ((function == AOT_GET_INPUT) || (function == AOT_GET_OUTPUT)) {
    TVMNDArray* const array = &ex->args[first + (uint32_t)result];
    array->reference_count++;  // the caller frees it
    out_value->v_handle = &array->dl_tensor;
    *out_type = (int)kTVMNDArrayHandle;
  }
  if (function == AOT_GET_INPUT_NAME) {
    out_value->v_str = ex->metadata->inputs[result].name;
    *out_type = (int)kTVMStr;
  }
  return 0;
}

int boardsmith_aot_create(PACKED_PARAMETERS);
int boardsmith_aot_create(PACKED_PARAMETERS) {
  (void)resource_handle;
  int error = boardsmith_arguments(type_codes, num_args, "JGL");
  if (error != 0) {
    return error;
  }
  if (boardsmith_runtime.executor != NULL) {
    return (int)kTvmErrorExecutorModuleAlreadyCreated;
  }
  if ((args[1].v_device.device_type != kDLCPU) || (args[1].v_device.device_id != 0)) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  error = TVMAotExecutor_Create(args[0].v_handle, args[1].v_device, &boardsmith_runtime.executor, args[2].v_str);
  if (error == 0) {
    error = boardsmith_module_add(&executor_module, aot_dispatch, &out_value->v_handle);
    if (error != 0) {
      (void)release();
    } else {
      *out_type = (int)kTVMModuleHandle;
    }
  }
  return error;
}
