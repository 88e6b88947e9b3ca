// SPDX-License-Identifier: Apache-2.0
//
// What this runtime has beyond TVM's: memory that the host may touch, the clock,
// functions in flash, formatting.
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

// ---- Memory that the host may touch -------------------------------------------

// A stretch of memory that the host may read and, if writable, write, besides what
// the runtime itself allocated for it: a user's buffer, a pool, linked parameters. A function
// that returns an address for use in tensors registers the memory there. A tensor of a call may
// lie in a window that is not writable: whether the function writes to it the runtime cannot know.
typedef struct boardsmith_window {
  struct boardsmith_window* next;
  uintptr_t base;
  size_t size_bytes;
  int writable;
} boardsmith_window_t;

// Fills in and registers window, which the caller owns and which must stay until it is
// removed. Registering it again moves it.
void boardsmith_window_add(boardsmith_window_t* window, void* base, size_t size_bytes, int writable);

// Removes window; one that is not registered is left alone. A long copy is checked when it
// begins: remove a window, or free memory that the host may write, only in a function that the
// host calls, or while no session is open.
void boardsmith_window_remove(boardsmith_window_t* window);

// 1 if all of [addr, addr + size_bytes) lies inside one live allocation
// (TVMDeviceAllocDataSpace, an array's data) or one window, a writable one if writable is
// nonzero; else 0. A size of 0 asks about addr alone.
int boardsmith_memory_known(const void* addr, size_t size_bytes, int writable);

// Stores the bytes of a compact tensor's elements, byte_offset not counted.
// kTvmErrorFunctionCallInvalidArg if an extent is negative, the size is 2 GiB or more, or the rank
// is negative or above TVM_CRT_MAX_NDIM (where crt_config.h sets it).
int boardsmith_tensor_bytes(int32_t ndim, const int64_t* shape, DLDataType dtype, size_t* size_bytes);

// ---- Functions in flash -------------------------------------------------------

// A firmware may define this table: its functions are global ones, without
// TVMFuncRegisterGlobal and without RAM. It has to be in an object, not in an archive.
extern const TVMFuncRegistry boardsmith_functions;

// boardsmith.crc32(tensor) -> int: the IEEE CRC-32 of the tensor's elements, for that table. A device
// that has it takes copies of any length in one message, and answers reads of any length in one.
int boardsmith_crc32_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                            void* resource_handle);

// The IEEE CRC-32 (as in zlib) of bytes.
uint32_t boardsmith_crc32(const void* data, size_t size_bytes);

// The CRC-32 of bytes that follow others, whose CRC-32 is crc.
uint32_t boardsmith_crc32_more(uint32_t crc, const void* data, size_t size_bytes);

// ---- Clock ----------------------------------------------------------------------

// Milliseconds since any moment, wrapping at 2^32. Default (weak): always 0, which
// means that there is no clock.
uint32_t boardsmith_now_ms(void);

// Milliseconds without a byte after which the RPC server abandons a frame that is not complete; without a clock it never
// does. A firmware calls the server more often than that, also without bytes. crt_config.h may set it.
#ifndef BOARDSMITH_FRAME_GAP_MS
#define BOARDSMITH_FRAME_GAP_MS 250U
#endif

// count / per_second, rounded to nearest, as TVMPlatformTimerStop stores it: without the double arithmetic of a compiler's library,
// of which a core without doubles would need much more.
double boardsmith_seconds(uint64_t count, uint32_t per_second);

// ---- Calls ----------------------------------------------------------------------

// Default (weak): nothing. Called around every call of a packed function by its handle, as the RPC server, a
// time evaluator and the AOT executor make them: a port notes what runs, and since when. Of calls inside calls only the
// outermost one is told, so f is what the host asked for; ends follows each begins, also after an error.
void boardsmith_call_begins(TVMFunctionHandle f);
void boardsmith_call_ends(void);

// Default (weak): nothing. A host began a session: what the one before had asked for holds no longer.
void boardsmith_session_begins(void);

// ---- Formatting -----------------------------------------------------------------

// Writes at most size - 1 bytes and a NUL (nothing if size is 0) and returns the bytes
// written, without the NUL. Formats: %s %c %d %i %u %x %p %%, l, ll, z, width, zero fill. From
// any other conversion on the format is printed as it stands: how wide its argument is nobody
// can tell, so none behind it could be found. A NULL for %s is printed as (null).
BOARDSMITH_PRINTF(3, 0)
size_t boardsmith_vformat(char* out, size_t size, const char* fmt, va_list args);

// Default (weak): nothing. TVMLogf sent this line of size_bytes bytes, without a NUL; the text is TVMLogf's.
void boardsmith_logged(const char* text, size_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif  // BOARDSMITH_BOARDSMITH_H_
