// SPDX-License-Identifier: Apache-2.0
//
// The AOT executor as a module for the host. Its functions are found through its slot,
// so there is an executor while they can be called.
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>

#include "aot.h"
#include "runtime.h"

static TVMAotExecutor* executor;  // of the one module; NULL: there is none

tvm_crt_error_t TVMAotExecutorModule_Register(void) {
  executor = NULL;  // the runtime was started anew; the function is among the built-in ones
  return kTvmErrorNoError;
}

static void release(void) {
  (void)TVMAotExecutor_Release(executor, cpu_device());
  executor = NULL;
}

// Finds the tensor that a call's one argument, an index or a name, means. Stores its index
// as the call's result.
static int find_tensor(const struct TVMTensorInfo* infos, int64_t count, const TVMValue* args,
                       const int* type_codes, int num_args, TVMValue* out_value, int* out_type) {
  if (num_args != 1) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  int64_t index = args[0].v_int64;
  if (type_codes[0] == (int)kTVMStr) {
    index = boardsmith_aot_tensor_index(infos, (int)count, args[0].v_str);
  } else if (type_codes[0] != (int)kTVMArgInt) {
    return (int)kTvmErrorFunctionCallWrongArgType;
  } else {
    // An index as it is.
  }
  if ((uint64_t)index >= (uint64_t)count) {
    return (int)kTvmErrorExecutorModuleNoSuchInput;
  }
  out_value->v_int64 = index;
  *out_type = (int)kTVMArgInt;
  return 0;
}

// Makes the index of an array, found by find_tensor without an error, the array itself, which the caller frees.
static int return_array(int error, int64_t first, TVMValue* out_value, int* out_type) {
  if (error == 0) {
    TVMNDArray* const array = &executor->args[first + out_value->v_int64];
    TVMNDArray_IncrementReference(array);
    out_value->v_handle = &array->dl_tensor;
    *out_type = (int)kTVMNDArrayHandle;
  }
  return error;
}

static int get_input_index(PACKED_PARAMETERS) {
  (void)resource_handle;
  const struct TVMMetadata* m = executor->metadata;
  return find_tensor(m->inputs, m->num_inputs, args, type_codes, num_args, out_value, out_type);
}

static int get_input(PACKED_PARAMETERS) {
  return return_array(
      get_input_index(args, type_codes, num_args, out_value, out_type, resource_handle), 0,
      out_value, out_type);
}

static int get_input_name(PACKED_PARAMETERS) {
  const int error =
      get_input_index(args, type_codes, num_args, out_value, out_type, resource_handle);
  if (error == 0) {
    out_value->v_str = executor->metadata->inputs[out_value->v_int64].name;
    *out_type = (int)kTVMStr;
  }
  return error;
}

static int get_output(PACKED_PARAMETERS) {
  (void)resource_handle;
  const struct TVMMetadata* m = executor->metadata;
  return return_array(find_tensor(m->outputs, m->num_outputs, args, type_codes, num_args,
                                  out_value, out_type),
                      m->num_inputs, out_value, out_type);
}

static int get_num_inputs(PACKED_PARAMETERS) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  out_value->v_int64 = executor->metadata->num_inputs;
  *out_type = (int)kTVMArgInt;
  return 0;
}

static int get_num_outputs(PACKED_PARAMETERS) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  out_value->v_int64 = executor->metadata->num_outputs;
  *out_type = (int)kTVMArgInt;
  return 0;
}

static int run(PACKED_PARAMETERS) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  return TVMAotExecutor_Run(executor);
}

static int not_implemented(PACKED_PARAMETERS) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
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

int boardsmith_aot_create(PACKED_PARAMETERS) {
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
  if ((args[1].v_device.device_type != kDLCPU) || (args[1].v_device.device_id != 0)) {
    return (int)kTvmErrorExecutorModuleBadContext;
  }
  int error = TVMAotExecutor_Create(args[0].v_handle, cpu_device(), &executor, args[2].v_str);
  if (error == 0) {
    error = boardsmith_module_add(&module, release, &out_value->v_handle);
    if (error != 0) {
      release();
    } else {
      *out_type = (int)kTVMModuleHandle;
    }
  }
  return error;
}
