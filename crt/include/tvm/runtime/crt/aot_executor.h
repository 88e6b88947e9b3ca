// SPDX-License-Identifier: Apache-2.0
//
// Runs a model that was compiled ahead of time with the packed interface.
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_H_

#include <stdint.h>
#include <boardsmith/metadata.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMAotExecutor {
  const struct TVMMetadata* metadata;
  TVMModuleHandle module_handle;
  DLDevice device;
  TVMNDArray* args;  // inputs, then outputs, then workspace pools
  // The call: function, arguments and their types are not fields of TVM's.
  TVMFunctionHandle function;
  int64_t num_args;
  TVMValue* values;
  int* type_codes;
} TVMAotExecutor;

// Finds the model in the module by its name ("default" for `tvmgen_default_run`), of any length, and allocates its
// inputs and outputs, zeroed. Named workspace pools are allocated too; the built-in one belongs to the model's code,
// and its entry has no data. Returns 0x100 if the module has no such model, kTvmErrorPlatformNoMemory if memory is
// exhausted; then nothing stays allocated.
int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device, TVMAotExecutor** executor,
                          const char* module_name);

// Drops the executor's references. Arrays that the caller still holds stay until they are freed; everything else is
// freed.
int TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device);

int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor);
int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor);

// Returns the input's position; -1 with a last-error text if the name is unknown.
int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name);

// Stores the name of an input; on kTvmErrorExecutorModuleNoSuchInput *name is unchanged.
int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, const char** name);

// Runs the model once: args[0 .. inputs) to args[inputs .. inputs + outputs). Returns the model's result.
int TVMAotExecutor_Run(TVMAotExecutor* executor);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_AOT_EXECUTOR_H_
