// SPDX-License-Identifier: Apache-2.0
//
// Additions to TVM's API: memory that the host may access, the clock, functions in flash, formatting.
#ifndef BOARDSMITH_BOARDSMITH_H_
#define BOARDSMITH_BOARDSMITH_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/func_registry.h>

#include "crt_config.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Memory that the host may access ------------------------------------------

// A range of memory that the host may read and, if writable, write, besides the runtime's own allocations: a user's
// buffer, a pool, linked parameters. A function that returns an address for use in tensors must register that memory. A
// tensor of a call may lie in a window that is not writable: the runtime cannot detect whether the function writes to
// it.
typedef struct boardsmith_window {
  struct boardsmith_window* next;
  uintptr_t base;
  size_t size_bytes;
  int writable;
} boardsmith_window_t;

// Fills in and registers window. The caller owns it and must keep it until it is removed. Registering it again moves
// it.
void boardsmith_window_add(boardsmith_window_t* window, void* base, size_t size_bytes, int writable);

// Removes window; no effect if it is not registered. A long copy is checked only when it begins: remove a window, or
// free memory that the host may write, only in a function that the host calls, or while no session is open.
void boardsmith_window_remove(boardsmith_window_t* window);

// Returns 1 if all of [addr, addr + size_bytes) lies inside one live allocation
// (TVMDeviceAllocDataSpace, an array's data) or one window, a writable one if writable is
// nonzero; else 0. A size of 0 tests only addr.
int boardsmith_memory_known(const void* addr, size_t size_bytes, int writable);

// Stores the size of a compact tensor's elements in bytes, without byte_offset. Returns kTvmErrorFunctionCallInvalidArg
// if an extent is negative, the size is 2 GiB or more, or the rank is negative or above TVM_CRT_MAX_NDIM (where
// crt_config.h sets it).
int boardsmith_tensor_bytes(int32_t ndim, const int64_t* shape, DLDataType dtype, size_t* size_bytes);

// ---- Functions in flash -------------------------------------------------------

// A firmware may define this table of global functions, which needs neither TVMFuncRegisterGlobal nor RAM. The
// definition must be in an object, not in an archive.
extern const TVMFuncRegistry boardsmith_functions;

// boardsmith.crc32(tensor) -> int: the IEEE CRC-32 of the tensor's elements, for that table. Hosts of a device with
// this function may copy and read any length in one message.
int boardsmith_crc32_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                            void* resource_handle);

// Returns the IEEE CRC-32 (as in zlib) of data.
uint32_t boardsmith_crc32(const void* data, size_t size_bytes);

// Returns the CRC-32 of data that follows bytes whose CRC-32 is crc.
uint32_t boardsmith_crc32_more(uint32_t crc, const void* data, size_t size_bytes);

// ---- Clock ----------------------------------------------------------------------

// Returns milliseconds since an arbitrary moment, wrapping at 2^32. Default (weak): always 0, which means no clock.
uint32_t boardsmith_now_ms(void);

// Milliseconds without a byte after which the RPC server abandons an incomplete message; without a clock it never does.
// A firmware must call the server more often than that, also without bytes. crt_config.h may set it.
#ifndef BOARDSMITH_FRAME_GAP_MS
#define BOARDSMITH_FRAME_GAP_MS 250U
#endif

// Returns count / per_second, rounded to nearest, for TVMPlatformTimerStop. Does not link the compiler's double
// arithmetic, which is large on a core without doubles.
double boardsmith_seconds(uint64_t count, uint32_t per_second);

// If crt_config.h defines BOARDSMITH_SAMPLE_HOOK, the firmware defines this function, which the time evaluator calls
// after it has taken what TVMPlatformTimerStop returned last as its result number index, from 0. Batches of calls that
// took too little time are measured again and are no results.
void boardsmith_sample_timed(uint32_t index);

// ---- Calls ----------------------------------------------------------------------

// Called before and after every call of a packed function by its handle, from the RPC server, a time evaluator or the
// AOT executor, so that a port can record what runs and since when. Nested calls are not reported: f is the function
// that the host called. An end follows each begin, also after an error. Defaults (weak): no effect.
void boardsmith_call_begins(TVMFunctionHandle f);
void boardsmith_call_ends(void);

// What a function takes: its first arguments are tensors, and so are at least `least` and at most `most` of all.
// Tensors have the types kTVMDLTensorHandle and kTVMNDArrayHandle.
typedef struct boardsmith_signature {
  TVMBackendPackedCFunc function;
  uint8_t first;
  uint8_t least;  // 0 ends a list
  uint8_t most;
} boardsmith_signature_t;

// If crt_config.h defines BOARDSMITH_SIGNATURES, a call of a function of the system library that does not match its
// signature is refused before the function runs, with kTvmErrorFunctionCallNumArguments or
// kTvmErrorFunctionCallWrongArgType. Checked are calls that boardsmith_call_begins reports, and what a time evaluator
// calls, once. A function without a signature takes anything. Generated code defines both:
// boardsmith_library_signatures returns the list, which stays valid, or NULL. A firmware without it links too.
extern const boardsmith_signature_t boardsmith_signatures[];
const boardsmith_signature_t* boardsmith_library_signatures(void);

// Called when a host begins a session: settings of the session before are no longer valid. Default (weak): no effect.
void boardsmith_session_begins(void);

// ---- Formatting -----------------------------------------------------------------

// Writes at most size - 1 bytes and a NUL (nothing if size is 0) and returns the bytes written, without the NUL.
// Formats: %s %c %d %i %u %x %p %%, l, ll, z, width, zero fill. From any other conversion on, the format is printed
// unchanged, because the size of that argument is unknown. A NULL for %s is printed as (null).
BOARDSMITH_PRINTF(3, 0)
size_t boardsmith_vformat(char* out, size_t size, const char* fmt, va_list args);

// Called after TVMLogf sent this line of size_bytes bytes, without a NUL. TVMLogf owns the text. Default (weak): no
// effect.
void boardsmith_logged(const char* text, size_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif  // BOARDSMITH_BOARDSMITH_H_
