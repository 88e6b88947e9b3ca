// SPDX-License-Identifier: Apache-2.0
//
// A packed function around an operator with the ABI of TVM 0.21 and later, so that firmware calls both alike. Generated
// code, linked with the operators, uses it.
#ifndef BOARDSMITH_FFI_H_
#define BOARDSMITH_FFI_H_

#include <tvm/ffi/c_api.h>

// An operator: returns 0, or -1 after TVMFFIErrorSetRaised… or without any text.
typedef int32_t (*boardsmith_ffi_t)(void* self, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

// The most arguments of an operator.
#define BOARDSMITH_FFI_ARGUMENTS 24

// Calls the operator with packed arguments and stores its result as a packed one. A failure without an error text gets
// one with the name. Uses 16 bytes of stack for each of BOARDSMITH_FFI_ARGUMENTS.
int32_t boardsmith_ffi_call(boardsmith_ffi_t operator_function, const char* name, const TVMValue* args,
                            const int* type_codes, int num_args, TVMValue* out_value, int* out_type);

// Defines the packed function `adapter` for the operator `function`.
#define BOARDSMITH_FFI_ADAPTER(adapter, function, name)                                              \
  int32_t function(void* self, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);                \
  int32_t adapter(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, \
                  void* resource_handle);                                                            \
  int32_t adapter(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, \
                  void* resource_handle) {                                                           \
    (void)resource_handle;                                                                           \
    return boardsmith_ffi_call(function, name, args, type_codes, num_args, out_value, out_type);     \
  }

#endif  // BOARDSMITH_FFI_H_
