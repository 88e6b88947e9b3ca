// SPDX-License-Identifier: Apache-2.0
//
// What the files of the graph executor share.
#ifndef BOARDSMITH_RUNTIME_GRAPH_EXECUTOR_PARTS_H_
#define BOARDSMITH_RUNTIME_GRAPH_EXECUTOR_PARTS_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/graph_executor.h>

#include "arrays.h"

typedef struct input {
  const char* name;
  DLTensor* tensor;
} input_t;

typedef struct operator_call {
  TVMFunctionHandle function;
  TVMValue* args;
  uint32_t num_args;
} operator_call_t;

// The executor is in one block of memory, behind its tensors: entries, which operators get, are views of storages,
// which have the memory. Shapes, arguments, tables and names follow.
struct TVMGraphExecutor {
  TVMNDArray* entries;
  input_t* inputs;
  DLTensor** outputs;
  operator_call_t* calls;
  int* type_codes;  // of any operator's arguments
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t num_calls;
};

_Static_assert(((sizeof(TVMNDArray) % 8U) == 0U) && ((sizeof(TVMGraphExecutor) % sizeof(void*)) == 0U),
               "everything in the block must be aligned");

// Returns the position of the input whose name has these bytes, or -1.
int boardsmith_graph_input(const TVMGraphExecutor* executor, const char* name, size_t length);

#endif  // BOARDSMITH_RUNTIME_GRAPH_EXECUTOR_PARTS_H_
