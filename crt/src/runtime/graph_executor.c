// SPDX-License-Identifier: Apache-2.0
//
// Runs a graph of operators, and gives access to its inputs and outputs.
#include <string.h>
#include <tvm/runtime/crt/crt.h>

#include "crt_config.h"
#include "graph_executor_parts.h"
#include "state.h"
#include "text.h"

#ifndef BOARDSMITH_NO_GRAPH_EXECUTOR

int TVMGraphExecutor_Release(TVMGraphExecutor** executor) {
  block_t** const table = boardsmith_block_at(&boardsmith_runtime.memory[MEMORY_TABLES], (*executor)->entries);
  *executor = NULL;
  return boardsmith_arrays_free_unused(table, ~ARRAY_IN_USE);
}

int TVMGraphExecutor_GetNumInputs(TVMGraphExecutor* executor) { return (int)executor->num_inputs; }

int TVMGraphExecutor_GetNumOutputs(TVMGraphExecutor* executor) { return (int)executor->num_outputs; }

int boardsmith_graph_input(const TVMGraphExecutor* executor, const char* name, size_t length) {
  for (uint32_t i = 0; i < executor->num_inputs; i++) {
    if ((boardsmith_text_length(executor->inputs[i].name) == length) &&
        (memcmp(executor->inputs[i].name, name, length) == 0)) {
      return (int)i;
    }
  }
  return -1;
}

int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor* executor, const char* name) {
  const int index = boardsmith_graph_input(executor, name, boardsmith_text_length(name));
  if (index < 0) {
    TVMAPIErrorf("not found: %s", name);
  }
  return index;
}

void TVMGraphExecutor_SetInput(TVMGraphExecutor* executor, const char* name, DLTensor* data_in) {
  const int index = TVMGraphExecutor_GetInputIndex(executor, name);
  if (index >= 0) {
    executor->inputs[index].tensor->data = tensor_data(data_in);
  }
}

int TVMGraphExecutor_GetOutput(TVMGraphExecutor* executor, const int32_t index, DLTensor* out) {
  if ((uint32_t)index >= executor->num_outputs) {
    return (int)kTvmErrorExecutorModuleNoSuchInput;
  }
  return TVMDeviceCopyDataFromTo(executor->outputs[index], out, NULL);
}

int TVMGraphExecutor_Run(TVMGraphExecutor* executor) {
  for (uint32_t i = 0; i < executor->num_calls; i++) {
    const operator_call_t* const call = &executor->calls[i];
    TVMValue value;
    int type;
    const int error = TVMFuncCall(call->function, call->args, executor->type_codes, (int)call->num_args, &value, &type);
    if (error != 0) {
      return error;
    }
  }
  return 0;
}

#endif  // BOARDSMITH_NO_GRAPH_EXECUTOR
