// SPDX-License-Identifier: Apache-2.0
//
// What operators of TVM 0.21 and later use of its library of calls: the values of their arguments and results, and
// functions to report errors. Uploaded code has its own definitions (candidate/ffi.c); firmware has none of this.
#ifndef TVM_FFI_C_API_H_
#define TVM_FFI_C_API_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// The type of a TVMFFIAny. Values that are objects of TVM's heap begin at kTVMFFIStaticObjectBegin: firmware has none.
typedef enum {
  kTVMFFINone = 0,
  kTVMFFIInt = 1,
  kTVMFFIBool = 2,
  kTVMFFIFloat = 3,
  kTVMFFIOpaquePtr = 4,
  kTVMFFIDataType = 5,
  kTVMFFIDevice = 6,
  kTVMFFIDLTensorPtr = 7,
  kTVMFFIRawStr = 8,
  kTVMFFIByteArrayPtr = 9,
  kTVMFFIStaticObjectBegin = 64,
  kTVMFFITensor = 70
} TVMFFITypeIndex;

// An argument or a result: 16 bytes. Bytes of the union that the value does not use are 0.
typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    uint64_t v_uint64;
    double v_float64;
    void* v_ptr;
    const char* v_c_str;
    DLDataType v_dtype;
    DLDevice v_device;
    char v_bytes[8];
  };
} TVMFFIAny;

typedef void* TVMFFIObjectHandle;

// Each C file of TVM defines this variable. It is unused here, and weak, so that several files link.
extern void* __tvm_ffi__library_ctx TVM_WEAK;

// Stores the text of the error with which the operator is about to return -1: its kind, a colon, and the message.
TVM_DLL void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
TVM_DLL void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** message_parts, int32_t num_parts);

// Calls of functions by name: these set an error and return -1, because firmware has no function with this ABI.
TVM_DLL int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
TVM_DLL int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx, const char* func_name,
                                          TVMFFIObjectHandle* out);

// Calls init_func, unless it has set the handle already.
TVM_DLL int TVMFFIHandleInitOnce(void** handle_addr, int (*init_func)(void** result));

#ifdef __cplusplus
}
#endif

// The name that TVM gives to 16-bit floats in C.
#if defined(__FLT16_MAX__) && !defined(half)
#define half _Float16
#endif

#endif  // TVM_FFI_C_API_H_
