// SPDX-License-Identifier: Apache-2.0
//
// What a generated tvm_<model>.c uses of embedded/. Programs include tvm_micro_runtime.h instead.
#ifndef BOARDSMITH_MODEL_PARTS_H_
#define BOARDSMITH_MODEL_PARTS_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// The memory of TVMBackendAllocWorkspace while a model runs: [next, end) is free.
typedef struct boardsmith_operator_memory {
  uint8_t* next;
  uint8_t* end;
} boardsmith_operator_memory_t;

extern boardsmith_operator_memory_t boardsmith_operator_memory;

// A call of an operator.
typedef struct boardsmith_graph_call {
  TVMBackendPackedCFunc function;
  const TVMValue* args;
  int num_args;
  uint32_t memory_at;     // offset of its TVMBackendAllocWorkspace memory in the workspace
  uint32_t memory_bytes;  // of this memory: all that the operator gets
} boardsmith_graph_call_t;

// Sets the addresses of num_tensors tensors that lie in the workspace at these offsets.
void boardsmith_graph_bind(DLTensor* tensors, const uint32_t* offsets, size_t num_tensors, uint8_t* workspace);

// Calls the operators in order, until one returns an error, and returns it. type_codes has as many elements as the call
// with most arguments. workspace may be NULL if neither tensors nor operators take memory of it.
int32_t boardsmith_graph_run(const boardsmith_graph_call_t* calls, size_t num_calls, const int* type_codes,
                             uint8_t* workspace);

#ifdef __cplusplus
}
#endif

#endif  // BOARDSMITH_MODEL_PARTS_H_
