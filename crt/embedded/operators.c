// SPDX-License-Identifier: Apache-2.0
//
// What operators call: temporary memory, in the workspace of the model that runs; parallel loops; error texts. The
// functions are weak, because a program may also have those of src/runtime.
#include <boardsmith/model_parts.h>
#include <tvm/runtime/c_backend_api.h>

#define ALIGNMENT 16U

boardsmith_operator_memory_t boardsmith_operator_memory;

// Operators free in reverse order.
TVM_WEAK void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                                        int dtype_bits_hint) {
  (void)device_type;  // there is one memory
  (void)device_id;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  uint8_t* const memory = boardsmith_operator_memory.next;
  const size_t left = (size_t)(boardsmith_operator_memory.end - memory);
  if (nbytes > left) {
    return NULL;
  }
  const size_t rounded = ((size_t)nbytes + (ALIGNMENT - 1U)) & ~(size_t)(ALIGNMENT - 1U);
  boardsmith_operator_memory.next = &memory[(rounded < left) ? rounded : left];
  return memory;
}

TVM_WEAK int TVMBackendFreeWorkspace(int device_type, int device_id, void* ptr) {
  (void)device_type;
  (void)device_id;
  boardsmith_operator_memory.next = (uint8_t*)ptr;
  return 0;
}

TVM_WEAK int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  (void)num_task;  // one core, one task
  TVMParallelGroupEnv env = {NULL, 1};
  return flambda(0, &env, cdata);
}

// Drops the text: the operator also returns an error.
TVM_WEAK void TVMAPISetLastError(const char* msg) { (void)msg; }
