// SPDX-License-Identifier: Apache-2.0
//
// Functions that operators call, and streams, results and byte arrays of the API.
#include "arrays.h"
#include "memory.h"

void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  (void)device_type;  // there is one memory
  (void)device_id;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  void* memory = NULL;
  if ((nbytes > (SIZE_MAX / 2U)) || (boardsmith_take((size_t)nbytes, &memory) != 0)) {
    TVMAPISetLastError("out of workspace memory");
    return NULL;
  }
  return memory;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void* ptr) {
  (void)device_type;
  (void)device_id;
  return boardsmith_give(ptr);
}

int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  (void)num_task;  // one core, one task
  TVMParallelGroupEnv env = {NULL, 1};
  (void)flambda(0, &env, cdata);  // TVM ignores its result, too
  return 0;
}

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out) {
  (void)device_type;
  (void)device_id;
  *out = NULL;
  return 0;
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type;
  (void)device_id;
  (void)stream;
  return 0;
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
  (void)device_type;
  (void)device_id;
  (void)handle;
  return 0;
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type;
  (void)device_id;
  (void)stream;
  return 0;
}

// What a TVMRetValueHandle points to: the arrays of a call's results.
typedef struct results {
  TVMValue* values;
  int* type_codes;
} results_t;

int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret) {
  const results_t* const to = ret;
  for (int i = 0; i < num_ret; i++) {
    to->values[i] = value[i];
    to->type_codes[i] = type_code[i];
  }
  return 0;
}

int TVMByteArrayFree(TVMByteArray* arr) {
  int error = 0;
  if (arr->data != (const char*)&arr[1]) {  // the time evaluator allocates both at once
    error = boardsmith_give((void*)(uintptr_t)arr->data);
  }
  return error | boardsmith_give(arr);
}

void boardsmith_result_free(const TVMValue* value, int type, unsigned owner) {
  if (type == (int)kTVMBytes) {
    (void)TVMByteArrayFree(value->v_handle);
  }
  if (type == (int)kTVMNDArrayHandle) {
    (void)boardsmith_array_free(value->v_handle, owner);
  }
}
