// SPDX-License-Identifier: Apache-2.0
//
// What operators of TVM 0.21 and later use besides the packed ABI's functions, and the calls of them. Linked with the
// operators of one candidate, never with firmware: firmware without such operators contains none of it.
#include <boardsmith/ffi.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>

// ---- Errors --------------------------------------------------------------------------------------------------------

// A text of limited length, as the runtime's. Dots stand for the words that do not fit.
typedef struct {
  char text[384];
  size_t bytes;
} message_t;

static void add(message_t* m, const char* text) {
  static const char dots[] = "...";
  const size_t most = (sizeof m->text) - (sizeof dots);
  const char* at = (text != NULL) ? text : "";
  for (; (*at != '\0') && (m->bytes < most); at++) {
    m->text[m->bytes] = *at;
    m->bytes++;
  }
  if (m->bytes > most) {
    return;  // the text has ended
  }
  if (*at != '\0') {
    while ((m->bytes > 0U) && (m->text[m->bytes - 1U] != ' ')) {
      m->bytes--;
    }
    for (size_t i = 0; i < ((sizeof dots) - 1U); i++) {
      m->text[m->bytes + i] = dots[i];
    }
    m->text[m->bytes + (sizeof dots) - 1U] = '\0';
    m->bytes = sizeof m->text;
  } else {
    m->text[m->bytes] = '\0';
  }
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** message_parts, int32_t num_parts) {
  message_t message = {.bytes = 0U};
  add(&message, kind);
  add(&message, ": ");
  for (int32_t i = 0; i < num_parts; i++) {
    add(&message, message_parts[i]);
  }
  TVMAPISetLastError(message.text);
}

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1);
}

// Sets the error "NAME: TEXT", and returns the code of a failed call.
static int32_t refuse(const char* name, const char* text) {
  message_t message = {.bytes = 0U};
  add(&message, name);
  add(&message, ": ");
  add(&message, text);
  TVMAPISetLastError(message.text);
  return -1;
}

// ---- Functions that operators call ---------------------------------------------------------------------------------

int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  (void)func;
  (void)args;
  (void)num_args;
  (void)result;
  return (int)refuse("RuntimeError", "the operator calls a function by name, which firmware does not support");
}

int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx, const char* func_name, TVMFFIObjectHandle* out) {
  (void)library_ctx;
  (void)out;
  return (int)refuse(func_name, "the operator calls this function by name, which firmware does not support");
}

int TVMFFIHandleInitOnce(void** handle_addr, int (*init_func)(void** result)) {
  return (*handle_addr != NULL) ? 0 : init_func(handle_addr);
}

// With one task, every task has reached the barrier.
int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv) {
  (void)task_id;
  (void)penv;
  return 0;
}

// Objects of TVM's LLVM call some functions through weak variables of their own, which a loader has to set. These
// definitions replace them; llvm.c has those of functions that the other ABI has, too.
#define VARIABLE(function, type) \
  extern type __##function;      \
  type __##function = &function

typedef int (*parallel_barrier_t)(int task_id, TVMParallelGroupEnv* penv);
typedef int (*function_call_t)(TVMFFIObjectHandle func, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
typedef int (*lookup_t)(TVMFFIObjectHandle library_ctx, const char* func_name, TVMFFIObjectHandle* out);
typedef int (*init_once_t)(void** handle_addr, int (*init_func)(void** result));
typedef void (*set_raised_t)(const char* kind, const char* message);
typedef void (*set_raised_parts_t)(const char* kind, const char** message_parts, int32_t num_parts);

VARIABLE(TVMBackendParallelBarrier, parallel_barrier_t);
VARIABLE(TVMFFIFunctionCall, function_call_t);
VARIABLE(TVMFFIEnvModLookupFromImports, lookup_t);
VARIABLE(TVMFFIHandleInitOnce, init_once_t);
VARIABLE(TVMFFIErrorSetRaisedFromCStr, set_raised_t);
VARIABLE(TVMFFIErrorSetRaisedFromCStrParts, set_raised_parts_t);

// ---- Calls ---------------------------------------------------------------------------------------------------------

// Converts an argument. Returns 0, or -1 for a type without an equivalent.
static int32_t to_ffi(TVMFFIAny* to, TVMValue from, int type_code) {
  to->zero_padding = 0;
  to->v_int64 = 0;
  switch (type_code) {
    case (int)kTVMNullptr:
      to->type_index = (int32_t)kTVMFFINone;
      break;
    case (int)kTVMArgInt:
    case (int)kDLUInt:
      to->type_index = (int32_t)kTVMFFIInt;
      to->v_int64 = from.v_int64;
      break;
    case (int)kTVMArgFloat:
      to->type_index = (int32_t)kTVMFFIFloat;
      to->v_float64 = from.v_float64;
      break;
    case (int)kTVMDataType:
      to->type_index = (int32_t)kTVMFFIDataType;
      to->v_dtype = from.v_type;
      break;
    case (int)kDLDevice:
      to->type_index = (int32_t)kTVMFFIDevice;
      to->v_device = from.v_device;
      break;
    case (int)kTVMDLTensorHandle:
    case (int)kTVMNDArrayHandle:
      to->type_index = (int32_t)kTVMFFIDLTensorPtr;
      to->v_ptr = from.v_handle;
      break;
    case (int)kTVMStr:
      to->type_index = (int32_t)kTVMFFIRawStr;
      to->v_c_str = from.v_str;
      break;
    case (int)kTVMBytes:
      to->type_index = (int32_t)kTVMFFIByteArrayPtr;
      to->v_ptr = from.v_handle;
      break;
    case (int)kTVMOpaqueHandle:
      to->type_index = (int32_t)kTVMFFIOpaquePtr;
      to->v_ptr = from.v_handle;
      break;
    default:
      return -1;
  }
  return 0;
}

// Converts a result. Returns 0, or -1 for a type without an equivalent.
static int32_t from_ffi(const TVMFFIAny* from, TVMValue* out_value, int* out_type) {
  int32_t error = 0;
  switch (from->type_index) {
    case (int32_t)kTVMFFINone:
      *out_type = (int)kTVMNullptr;
      out_value->v_handle = NULL;
      break;
    case (int32_t)kTVMFFIInt:
    case (int32_t)kTVMFFIBool:
      *out_type = (int)kTVMArgInt;
      out_value->v_int64 = from->v_int64;
      break;
    case (int32_t)kTVMFFIFloat:
      *out_type = (int)kTVMArgFloat;
      out_value->v_float64 = from->v_float64;
      break;
    case (int32_t)kTVMFFIOpaquePtr:
      *out_type = (int)kTVMOpaqueHandle;
      out_value->v_handle = from->v_ptr;
      break;
    case (int32_t)kTVMFFIRawStr:
      *out_type = (int)kTVMStr;
      out_value->v_str = from->v_c_str;
      break;
    default:
      error = -1;
      break;
  }
  return error;
}

int32_t boardsmith_ffi_call(boardsmith_ffi_t operator_function, const char* name, const TVMValue* args,
                            const int* type_codes, int num_args, TVMValue* out_value, int* out_type) {
  TVMFFIAny values[BOARDSMITH_FFI_ARGUMENTS];
  TVMFFIAny result = {.type_index = (int32_t)kTVMFFINone};
  if ((num_args < 0) || (num_args > BOARDSMITH_FFI_ARGUMENTS)) {
    return refuse(name, "too many arguments: operators of this ABI can have 24");
  }
  for (int i = 0; i < num_args; i++) {
    if (to_ffi(&values[i], args[i], type_codes[i]) != 0) {
      return refuse(name, "an argument is a function, a module or an object, which operators of this ABI cannot take");
    }
  }
  const int32_t error = operator_function(NULL, values, (int32_t)num_args, &result);
  if (error != 0) {
    return (*TVMGetLastError() != '\0') ? error : refuse(name, "failed without an error text");
  }
  if (from_ffi(&result, out_value, out_type) != 0) {
    return refuse(name, "returned an object of TVM, which cannot leave firmware");
  }
  return 0;
}
