// SPDX-License-Identifier: Apache-2.0
//
// The AOT executor as a module for the host.
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>

#include "runtime.h"

static const DLDevice cpu = {kDLCPU, 0};

static TVMAotExecutor* executor;  // of the one module; NULL: there is none

tvm_crt_error_t TVMAotExecutorModule_Register(void) {
  executor = NULL;  // the runtime was started anew; the function is among the built-in ones
  return kTvmErrorNoError;
}

static void release(void) {
  (void)TVMAotExecutor_Release(executor, cpu);
  executor = NULL;
}

// What every function of the module begins with: as many arguments as it wants, and a
// first one of the type that it wants (-1: any).
static int check(int num_args, const int* type_codes, int want_args, int want_type) {
  if (executor == NULL) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  if (num_args < want_args) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  if ((want_type >= 0) && (type_codes[0] != want_type)) {
    return (int)kTvmErrorFunctionCallWrongArgType;
  }
  return 0;
}

static int return_int(int value, TVMValue* out_value, int* out_type) {
  out_value->v_int64 = value;
  *out_type = (int)kTVMArgInt;
  return 0;
}

// Hands out array first + index of count; the caller frees it as an NDArray.
static int return_array(int64_t first, int64_t count, int64_t index, TVMValue* out_value,
                        int* out_type) {
  if ((uint64_t)index >= (uint64_t)count) {
    return (int)kTvmErrorExecutorModuleNoSuchInput;
  }
  TVMNDArray* array = &executor->args[first + index];
  TVMNDArray_IncrementReference(array);
  out_value->v_handle = &array->dl_tensor;
  *out_type = (int)kTVMNDArrayHandle;
  return 0;
}

#define PACKED(name)                                                                       \
  static int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value,       \
                  int* out_type, void* resource_handle)
#define UNUSED_RESULT   \
  (void)out_value;      \
  (void)out_type

PACKED(get_input_index) {
  (void)resource_handle;
  const int error = check(num_args, type_codes, 1, (int)kTVMStr);
  if (error != 0) {
    return error;
  }
  const int index = TVMAotExecutor_GetInputIndex(executor, args[0].v_str);
  return (index < 0) ? (int)kTvmErrorExecutorModuleNoSuchInput
                     : return_int(index, out_value, out_type);
}

PACKED(get_input) {
  int error;
  if ((num_args >= 1) && (type_codes[0] == (int)kTVMStr)) {
    error = get_input_index(args, type_codes, num_args, out_value, out_type, resource_handle);
  } else {
    error = check(num_args, type_codes, 1, (int)kTVMArgInt);
    if (error == 0) {
      *out_value = args[0];
    }
  }
  return (error != 0) ? error
                      : return_array(0, executor->metadata->num_inputs, out_value->v_int64,
                                     out_value, out_type);
}

PACKED(get_output) {
  (void)resource_handle;
  const int error = check(num_args, type_codes, 1, (int)kTVMArgInt);
  if (error != 0) {
    return error;
  }
  const struct TVMMetadata* m = executor->metadata;
  return return_array(m->num_inputs, m->num_outputs, args[0].v_int64, out_value, out_type);
}

PACKED(get_num_inputs) {
  (void)args;
  (void)resource_handle;
  const int error = check(num_args, type_codes, 0, -1);
  return (error != 0) ? error
                      : return_int(TVMAotExecutor_GetNumInputs(executor), out_value, out_type);
}

PACKED(get_num_outputs) {
  (void)args;
  (void)resource_handle;
  const int error = check(num_args, type_codes, 0, -1);
  return (error != 0) ? error
                      : return_int(TVMAotExecutor_GetNumOutputs(executor), out_value, out_type);
}

PACKED(get_input_name) {
  (void)resource_handle;
  int error = check(num_args, type_codes, 1, (int)kTVMArgInt);
  if (error == 0) {
    const int64_t index = args[0].v_int64;
    error = TVMAotExecutor_GetInputName(executor, (int)index, &out_value->v_str);
  }
  if (error == 0) {
    *out_type = (int)kTVMStr;
  }
  return error;
}

PACKED(run) {
  (void)args;
  (void)resource_handle;
  UNUSED_RESULT;
  const int error = check(num_args, type_codes, 0, -1);
  return (error != 0) ? error : TVMAotExecutor_Run(executor);
}

PACKED(not_implemented) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  UNUSED_RESULT;
  return (int)kTvmErrorFunctionCallNotImplemented;
}

// Names and functions from one list, in the order of TVM's.
#define FUNCTIONS(X)                     \
  X("get_input", get_input)              \
  X("get_input_index", get_input_index)  \
  X("get_input_info", not_implemented)   \
  X("get_num_inputs", get_num_inputs)    \
  X("get_num_outputs", get_num_outputs)  \
  X("get_output", get_output)            \
  X("load_params", not_implemented)      \
  X("run", run)                          \
  X("set_input", not_implemented)        \
  X("share_params", not_implemented)     \
  X("get_input_name", get_input_name)
#define FUNCTION_NAME(name, func) name "\0"
#define FUNCTION_FUNC(name, func) func,

static const TVMBackendPackedCFunc funcs[] = {FUNCTIONS(FUNCTION_FUNC)};

_Static_assert((sizeof funcs / sizeof funcs[0]) == 11U, "the count below");

static const TVMFuncRegistry registry = {"\013\000" FUNCTIONS(FUNCTION_NAME), funcs};
static const TVMModule module = {&registry};

int boardsmith_aot_create(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value,
                          int* out_type, void* resource_handle) {
  (void)resource_handle;
  if (num_args != 3) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  if ((type_codes[0] != (int)kTVMModuleHandle) || (type_codes[1] != (int)kDLDevice) ||
      (type_codes[2] != (int)kTVMStr)) {
    return (int)kTvmErrorFunctionCallWrongArgType;
  }
  if (executor != NULL) {
    return (int)kTvmErrorExecutorModuleAlreadyCreated;
  }
  const DLDevice device = args[1].v_device;
  if ((device.device_type != kDLCPU) || (device.device_id != 0)) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  int error = TVMAotExecutor_Create(args[0].v_handle, cpu, &executor, args[2].v_str);
  if (error != 0) {
    return error;
  }
  error = boardsmith_module_add(&module, release, &out_value->v_handle);
  if (error != 0) {
    release();
    return error;
  }
  *out_type = (int)kTVMModuleHandle;
  return 0;
}
