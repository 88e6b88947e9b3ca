// SPDX-License-Identifier: Apache-2.0
//
// What uploaded code has in place of the runtime: every function goes through the table whose address
// boardsmith.upload_and_link stores here (boardsmith/upload.h). Linked with the code, never with a firmware.
#include <boardsmith/boardsmith.h>
#include <boardsmith/upload.h>
#include <tvm/runtime/crt/platform.h>

extern const TVMBackendLinkTable* _tvm_backend_functions;
const TVMBackendLinkTable* _tvm_backend_functions __attribute__((section(".data")));

void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  return _tvm_backend_functions->alloc_workspace(device_type, device_id, nbytes, dtype_code_hint, dtype_bits_hint);
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void* ptr) {
  return _tvm_backend_functions->free_workspace(device_type, device_id, ptr);
}

int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task) {
  return _tvm_backend_functions->parallel_launch(flambda, cdata, num_task);
}

void TVMAPISetLastError(const char* msg) { _tvm_backend_functions->set_last_error(msg); }

const char* TVMGetLastError(void) { return _tvm_backend_functions->get_last_error(); }

int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  return _tvm_backend_functions->func_get_global(name, out);
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args, TVMValue* ret_val,
                int* ret_type_code) {
  return _tvm_backend_functions->func_call(func, arg_values, type_codes, num_args, ret_val, ret_type_code);
}

int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret) {
  return _tvm_backend_functions->set_return(ret, value, type_code, num_ret);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  return _tvm_backend_functions->memory_allocate(num_bytes, dev, out_ptr);
}

int boardsmith_tensor_bytes(int32_t ndim, const int64_t* shape, DLDataType dtype, size_t* size_bytes) {
  return _tvm_backend_functions->tensor_bytes(ndim, shape, dtype, size_bytes);
}

void TVMPlatformAbort(tvm_crt_error_t code) {
  _tvm_backend_functions->abort(code);
  for (;;) {
    // The firmware's does not return.
  }
}

// ---- Before the first call -----------------------------------------------------------------------------------------

// What the program takes from the system's libraries, where it is a process: a list of names, which ends with an
// empty one, and their addresses. The linker script has both; boardsmith writes the names' source.
extern const char boardsmith_import_names[] __attribute__((weak));
extern void* boardsmith_imports[] __attribute__((weak));

// Constructors.
extern void (*const boardsmith_constructors[])(void);
extern void (*const boardsmith_constructors_end[])(void);

int boardsmith_program_init(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                            void* resource_handle);
int boardsmith_program_init(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                            void* resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  if (boardsmith_imports != NULL) {
    const char* name = boardsmith_import_names;
    void** import = boardsmith_imports;
    while (*name != '\0') {
      *import = _tvm_backend_functions->symbol(name);
      if (*import == NULL) {
        TVMAPISetLastError(name);
        return (int)kTvmErrorFunctionNameNotFound;
      }
      while (*name != '\0') {
        name++;
      }
      name++;
      import++;
    }
  }
  for (void (*const* constructor)(void) = boardsmith_constructors; constructor < boardsmith_constructors_end;
       constructor++) {
    (*constructor)();
  }
  return 0;
}

// ---- Checked calls -------------------------------------------------------------------------------------------------

// The function that is checked, if there is one: its name is an argument of the linker.
extern int boardsmith_checked(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                              void* resource_handle) __attribute__((weak));

#ifndef BOARDSMITH_CHECK_STACK_BYTES
#define BOARDSMITH_CHECK_STACK_BYTES 256
#endif

// The frame of the checked function will lie where this array was.
static void __attribute__((noinline)) soil(void) {
  uint32_t words[(BOARDSMITH_CHECK_STACK_BYTES / 4) + 1];
  _tvm_backend_functions->soil(words, sizeof words);
}

// Calls the checked function where memory that it does not write itself has other content than in the call before.
int boardsmith_check(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                     void* resource_handle);
int boardsmith_check(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                     void* resource_handle) {
  soil();
  return boardsmith_checked(args, type_codes, num_args, out_value, out_type, resource_handle);
}

// abort() of the C library, and what it ends in elsewhere.
void abort(void);
void abort(void) { TVMPlatformAbort(kTvmErrorPlatformCheckFailure); }

// Appends text to a line that ends at `end` at the latest; returns its end.
static char* append(char* to, const char* end, const char* text) {
  for (; (*text != '\0') && (to < end); text++) {
    *to = *text;
    to++;
  }
  *to = '\0';
  return to;
}

// A failed assert, in place of the C library's, which would print. The firmware keeps this text for the fault's record.
static void fail(const char* file, unsigned line, const char* expression) {
  static char text[160];
  const char* const end = &text[(sizeof text) - 1U];
  char digits[11];
  char* digit = &digits[(sizeof digits) - 1U];
  *digit = '\0';
  unsigned left = line;
  do {
    digit--;
    *digit = "0123456789"[left % 10U];
    left /= 10U;
  } while (left != 0U);
  char* to = append(text, end, file);
  to = append(to, end, ":");
  to = append(to, end, digit);
  to = append(to, end, ": Check failed: ");
  (void)append(to, end, expression);
  TVMAPISetLastError(text);
  TVMPlatformAbort(kTvmErrorPlatformCheckFailure);
}

// Of newlib and picolibc.
void __assert_func(const char* file, int line, const char* function, const char* expression);
void __assert_func(const char* file, int line, const char* function, const char* expression) {
  (void)function;
  fail(file, (unsigned)line, expression);
}

// Of glibc and musl.
void __assert_fail(const char* expression, const char* file, unsigned line, const char* function);
void __assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
  (void)function;
  fail(file, line, expression);
}
