// SPDX-License-Identifier: 0BSD
//
// A hand-written system library in the form that TVM generates: negate(in, out) of int8 tensors, fail(), count().
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/module.h>

TVM_DLL int32_t negate(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                       void* handle) {
  const DLTensor* in = (const DLTensor*)args[0].v_handle;
  const DLTensor* out = (const DLTensor*)args[1].v_handle;
  int64_t n = 1;
  for (int32_t i = 0; i < in->ndim; i++) {
    n *= in->shape[i];
  }
  for (int64_t i = 0; i < n; i++) {
    ((int8_t*)out->data)[i] = (int8_t)-((const int8_t*)in->data)[i];
  }
  return num_args == 2 ? 0 : -1;
}

TVM_DLL int32_t fail(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* handle) {
  TVMAPISetLastError("boom");
  return -1;
}

// Counts its calls, and returns the count.
TVM_DLL int32_t count(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* handle) {
  static int64_t calls;
  out_value[0].v_int64 = ++calls;
  out_type[0] = kTVMArgInt;
  return 0;
}

static TVMBackendPackedCFunc functions[] = {
    (TVMBackendPackedCFunc)negate,
    (TVMBackendPackedCFunc)fail,
    (TVMBackendPackedCFunc)count,
};
static const TVMFuncRegistry registry = {"\003\000negate\000fail\000count\000", functions};
static const TVMModule system_lib = {&registry};

const TVMModule* TVMSystemLibEntryPoint(void) { return &system_lib; }
