// SPDX-License-Identifier: Apache-2.0
//
// Code that the host uploads into RAM, links into the firmware and calls as a module. Optional: a firmware that opens
// a window and registers the functions below has it, any other carries none of it.
//
// The host writes the code with CopyToRemote into a window, linked for the address where it will lie. upload_and_link
// checks it, and from then on until the module is freed the host can no longer write there. The code calls the
// runtime through one table alone, whose address upload_and_link stores where the code expects it.
#ifndef BOARDSMITH_UPLOAD_H_
#define BOARDSMITH_UPLOAD_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- What uploaded code calls --------------------------------------------------------------------------------------

// The functions of the runtime that operators call. Their order never changes; later versions add members at the end.
// NULL stands for a function that this firmware does not have.
typedef struct TVMBackendLinkTable {
  uint32_t size_bytes;  // of this table: members beyond it do not exist
  void* (*alloc_workspace)(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint, int dtype_bits_hint);
  int (*free_workspace)(int device_type, int device_id, void* ptr);
  int (*parallel_launch)(FTVMParallelLambda flambda, void* cdata, int num_task);
  void (*set_last_error)(const char* msg);
  const char* (*get_last_error)(void);
  int (*func_get_global)(const char* name, TVMFunctionHandle* out);
  int (*func_call)(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args, TVMValue* ret_val,
                   int* ret_type_code);
  int (*set_return)(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret);
  void (*abort)(tvm_crt_error_t code);  // does not return
  // The address of a function of the system's libraries, or NULL. A chip has no such libraries: functions of the C
  // library that its operators need are linked with them.
  void* (*symbol)(const char* name);
  // Memory until the session ends, and the size of a tensor: models with the C interface need them.
  tvm_crt_error_t (*memory_allocate)(size_t num_bytes, DLDevice dev, void** out);
  int (*tensor_bytes)(int32_t ndim, const int64_t* shape, DLDataType dtype, size_t* size_bytes);
  // Fills memory, and what is free of the workspace, with numbers that differ from call to call.
  void (*soil)(void* memory, size_t size_bytes);
} TVMBackendLinkTable;

// Default (weak): NULL. The table's symbol.
void* boardsmith_upload_symbol(const char* name);

// ---- What a firmware does ------------------------------------------------------------------------------------------

// Makes a window executable (on is 1) or not (0), and in either case makes what was written to it visible to
// instruction fetches. Returns 0, or a negative number where this cannot be done.
typedef int (*boardsmith_executable_t)(void* base, size_t size_bytes, int on);

// Opens the firmware's one window. The caller must keep its memory. alignment applies to what the host places there:
// a power of two, at least 4. Call it once, before the first session.
void boardsmith_upload_open(void* base, size_t size_bytes, size_t alignment, boardsmith_executable_t executable);

// Call it from boardsmith_session_begins: it removes the modules of the previous session, and the window is no longer
// executable.
void boardsmith_upload_session_begins(void);

// For the table of the firmware's functions.
//
// boardsmith.memory() -> bytes: the parts of the window that are free, which the host may write to. boardsmith.md has
// the format.
int boardsmith_memory_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                             void* resource_handle);

// boardsmith.upload_and_link(base, size, zero, crc, backend, registry[, signatures]) -> module: size bytes at base were
// written, whose CRC-32 is crc; zero bytes behind them are to be cleared. backend is the address of the code's pointer
// to a TVMBackendLinkTable, 0 if it has none; registry that of its TVMFuncRegistry; signatures that of a list of
// boardsmith_signature_t, 0 if it has none.
int boardsmith_upload_and_link_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                                      void* resource_handle);

// boardsmith.unlink(module): frees a module of upload_and_link. Its memory can be written to again.
int boardsmith_unlink_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                             void* resource_handle);

// boardsmith.fill(tensor, seed): fills the tensor with numbers that follow from the seed, so that inputs of candidates
// need not be sent. boardsmith.md defines them.
int boardsmith_fill_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                           void* resource_handle);

// The names of these functions, for a list as main.c has it: X(name, function).
#define BOARDSMITH_UPLOAD_FUNCTIONS(X)                               \
  X("boardsmith.fill", boardsmith_fill_packed)                       \
  X("boardsmith.memory", boardsmith_memory_packed)                   \
  X("boardsmith.upload_and_link", boardsmith_upload_and_link_packed) \
  X("boardsmith.unlink", boardsmith_unlink_packed)

#ifdef __cplusplus
}
#endif

#endif  // BOARDSMITH_UPLOAD_H_
