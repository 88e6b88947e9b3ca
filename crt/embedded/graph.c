// SPDX-License-Identifier: Apache-2.0
//
// Runs a graph of operators from tables that were made at build time.
#include <boardsmith/model_parts.h>

void boardsmith_graph_bind(DLTensor* tensors, const uint32_t* offsets, size_t num_tensors, uint8_t* workspace) {
  for (size_t i = 0; i < num_tensors; i++) {
    tensors[i].data = &workspace[offsets[i]];
  }
}

int32_t boardsmith_graph_run(const boardsmith_graph_call_t* calls, size_t num_calls, const int* type_codes,
                             uint8_t* workspace) {
  const boardsmith_graph_call_t* const end = &calls[num_calls];
  TVMValue result;
  int result_type = (int)kTVMNullptr;
  int error = 0;
  result.v_handle = NULL;
  for (; (calls != end) && (error == 0); calls++) {
    uint8_t* const memory = &workspace[calls->memory_at];
    boardsmith_operator_memory.next = memory;
    boardsmith_operator_memory.end = &memory[calls->memory_bytes];
    // Operators only read their arguments.
    error = calls->function((TVMValue*)(uintptr_t)calls->args, (int*)(uintptr_t)type_codes, calls->num_args, &result,
                            &result_type, NULL);
  }
  boardsmith_operator_memory.next = NULL;  // the memory is the caller's again
  boardsmith_operator_memory.end = NULL;
  return (int32_t)error;
}
