// SPDX-License-Identifier: Apache-2.0
//
// Runs a model that TVM exported for its graph executor: operators in a module, and a graph in JSON that lists them in
// order. Optional: only a firmware that calls these functions, or registers the module, has it.
#ifndef TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_
#define TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMGraphExecutor TVMGraphExecutor;

// Creates an executor for the graph, whose operators the module has, and allocates all tensors, zeroed. The JSON is not
// used any more afterwards. devices[0] is the only device. Returns kTvmErrorFunctionCallInvalidArg with a last-error
// text if the graph is malformed, 0x100 if the module has no such operator, kTvmErrorPlatformNoMemory if memory is
// exhausted; then nothing stays allocated.
int TVMGraphExecutor_Create(const char* sym_json, TVMModuleHandle module_handle, const DLDevice* devices,
                            TVMGraphExecutor** executor);

// Frees the executor and the data of its tensors, and sets *executor to NULL. A tensor that a host still holds can no
// longer be accessed.
int TVMGraphExecutor_Release(TVMGraphExecutor** executor);

// Parameters are inputs, too.
int TVMGraphExecutor_GetNumInputs(TVMGraphExecutor* executor);
int TVMGraphExecutor_GetNumOutputs(TVMGraphExecutor* executor);

// Returns the input's position; -1 with a last-error text if the name is unknown.
int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor* executor, const char* name);

// Makes operators read this input from data_in->data, which must have the input's size and stay valid. Sets the last
// error if the name is unknown.
void TVMGraphExecutor_SetInput(TVMGraphExecutor* executor, const char* name, DLTensor* data_in);

// Copies an output to a tensor of the same size. Returns kTvmErrorExecutorModuleNoSuchInput for a wrong index.
int TVMGraphExecutor_GetOutput(TVMGraphExecutor* executor, const int32_t index, DLTensor* out);

// Copies the parameters of a file that TVM exported into the inputs of these names. If the file is malformed or a
// parameter does not match its input, returns kTvmErrorFunctionCallInvalidArg and copies nothing.
int TVMGraphExecutor_LoadParams(TVMGraphExecutor* executor, const char* param_blob, const uint32_t param_size);

// Calls all operators in order, until one fails. Returns its result (TVM's runtime ignores it).
int TVMGraphExecutor_Run(TVMGraphExecutor* executor);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_
