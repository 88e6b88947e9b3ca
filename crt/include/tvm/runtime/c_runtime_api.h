// SPDX-License-Identifier: Apache-2.0
//
// The C API of the runtime, with TVM 0.14's names and types: the part of TVM's header that exists on a microcontroller.
//
// Functions return 0 for success, else -1 or a tvm_crt_error_t. TVMGetLastError() then returns a text if the function's
// comment says so. A failure changes nothing unless the comment says so. Do not call these functions from an interrupt,
// or from two threads at once.
#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
#define TVM_RUNTIME_C_RUNTIME_API_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifndef TVM_DLL
#define TVM_DLL __attribute__((visibility("default")))
#endif
#ifndef TVM_WEAK
#define TVM_WEAK __attribute__((weak))
#endif
// A weak definition of a function that compilers call without a call in the source, such as memcpy and __aeabi_ddiv:
// they do so after link-time optimisation has removed what nothing calls, and `used` keeps it.
#ifndef BOARDSMITH_HELPER
#define BOARDSMITH_HELPER __attribute__((weak, used))
#endif
#ifndef TVM_ATTRIBUTE_UNUSED
#define TVM_ATTRIBUTE_UNUSED __attribute__((unused))
#endif

// Makes the compiler compare a format, the nth parameter, with the arguments from number first on; first is 0 for a
// va_list.
#ifndef BOARDSMITH_PRINTF
#define BOARDSMITH_PRINTF(nth, first) __attribute__((__format__(__printf__, nth, first)))
#endif

// The version of the ABI, not of this library.
#define TVM_VERSION "0.14.0"

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t tvm_index_t;

// Type of a TVMValue. Values above kDLDevice use v_handle, except kTVMStr, which uses v_str.
typedef enum {
  kTVMArgInt = kDLInt,
  kTVMArgFloat = kDLFloat,
  kTVMOpaqueHandle = 3U,
  kTVMNullptr = 4U,
  kTVMDataType = 5U,
  kDLDevice = 6U,
  kTVMDLTensorHandle = 7U,
  kTVMObjectHandle = 8U,
  kTVMModuleHandle = 9U,
  kTVMPackedFuncHandle = 10U,
  kTVMStr = 11U,
  kTVMBytes = 12U,
  kTVMNDArrayHandle = 13U,
  kTVMObjectRValueRefArg = 14U,
  kTVMExtBegin = 15U,
  kTVMNNVMFirst = 16U,
  kTVMNNVMLast = 20U,
  kTVMExtReserveEnd = 64U,
  kTVMExtEnd = 128U
} TVMArgTypeCode;

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;  // ends with NUL
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;

// Bytes with a length; a kTVMBytes value points to one.
typedef struct {
  const char* data;
  size_t size;
} TVMByteArray;

typedef DLTensor* TVMArrayHandle;
typedef void* TVMModuleHandle;    // 0x8000 | module slot
typedef void* TVMFunctionHandle;  // (0x8000 | module slot) << 16 | 0x8000 | index; 0 is no function
typedef void* TVMRetValueHandle;  // for TVMCFuncSetReturn
typedef void* TVMStreamHandle;    // streams do nothing here
typedef void* TVMObjectHandle;

// Type of every operator and every function in a registry. The caller sets *out_ret_tcode to kTVMNullptr and
// *out_ret_value to NULL before the call. resource_handle is the TVMFuncRegistry of the function's module, NULL for a
// global function. Returns 0, or nonzero for an error.
typedef int (*TVMBackendPackedCFunc)(TVMValue* args, int* type_codes, int num_args, TVMValue* out_ret_value,
                                     int* out_ret_tcode, void* resource_handle);

// The function type of TVM's C++ runtime, unused here.
typedef int (*TVMPackedCFunc)(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                              void* resource_handle);

// Keeps a copy of msg for TVMGetLastError, cut to BOARDSMITH_LAST_ERROR_BYTES - 1
// bytes (crt_config.h; default 128).
TVM_DLL void TVMAPISetLastError(const char* msg);

// Returns the newest error text, or "". It is valid until the next error; the runtime owns it.
TVM_DLL const char* TVMGetLastError(void);

// Frees slot mod; the handle and the functions found through it become invalid. Freeing the system library has no
// effect and succeeds.
TVM_DLL int TVMModFree(TVMModuleHandle mod);

// Finds a function of a module. query_imports is ignored (modules import
// nothing). Not found: kTvmErrorFunctionNameNotFound.
TVM_DLL int TVMModGetFunction(TVMModuleHandle mod, const char* func_name, int query_imports, TVMFunctionHandle* out);

// No effect, because function handles are not counted. Returns 0.
TVM_DLL int TVMFuncFree(TVMFunctionHandle func);

// Calls func. Sets *ret_type_code to kTVMNullptr and *ret_val to NULL first, and
// returns the function's result; -1 with a last-error text if func is not a valid handle.
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args, TVMValue* ret_val,
                        int* ret_type_code);

// Copies num_ret values and type codes into ret, a `struct { TVMValue* value; int* type_code; }*` with arrays of that
// size.
TVM_DLL int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret);

// Makes f (a TVMBackendPackedCFunc) a global function called name, which is copied. An existing name is an error
// (kTvmErrorFunctionAlreadyDefined) unless override is nonzero. The first call takes
// TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES from the platform's memory. To register functions without RAM, define `const
// TVMFuncRegistry boardsmith_functions`.
TVM_DLL int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override);

// Finds a global function. An unknown name is not an error: *out becomes NULL.
TVM_DLL int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out);

// Makes a zeroed compact array with a reference count of 1; its shape is copied.
TVM_DLL int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int dtype_code, int dtype_bits, int dtype_lanes,
                          int device_type, int device_id, TVMArrayHandle* out);

// Drops one reference; the last one frees the array. A handle that is not a live array is an error and changes nothing.
TVM_DLL int TVMArrayFree(TVMArrayHandle handle);

// Allocates nbytes, rounded up to a multiple of alignment (a power of two, or 0 for none), from the platform's memory.
// The address always has the alignment of TVMPlatformMemoryAllocate. The contents are undefined.
TVM_DLL int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                                    void** out_data);

// The same for a tensor of this shape, rounded up to 64 bytes or one element with all lanes, whichever is more.
// mem_scope is ignored. A negative extent, or a size of 2 GiB or more, is an error.
TVM_DLL int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t* shape, DLDataType dtype,
                                             const char* mem_scope, void** out_data);

// Frees an allocation of the two functions above. Any other pointer is an error and changes nothing.
TVM_DLL int TVMDeviceFreeDataSpace(DLDevice dev, void* ptr);

// Copies all of from (compact) to the start of to, using both byte offsets. Does not check that the memory is live: the
// RPC server does that for addresses from the link. Sizes that differ are an error.
TVM_DLL int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream);

// Streams have no effect; a created one is NULL.
TVM_DLL int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out);
TVM_DLL int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream);
TVM_DLL int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle);
TVM_DLL int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream);

// Frees a byte array that a function returned: the array, and its bytes if they are a separate allocation. An array
// that is not an allocation of the platform's memory is an error if the platform's free function reports it.
TVM_DLL int TVMByteArrayFree(TVMByteArray* arr);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_C_RUNTIME_API_H_
