// SPDX-License-Identifier: Apache-2.0
//
// Functions that the firmware provides to the runtime. The firmware must define the "required" ones; the others have a
// weak default that a definition replaces. The runtime calls none of them from an interrupt.
#ifndef TVM_RUNTIME_CRT_PLATFORM_H_
#define TVM_RUNTIME_CRT_PLATFORM_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// Required. Called on an unrecoverable error: resets or stops, does not return. error is a tvm_crt_error_t or the
// firmware's own number.
#if defined(__GNUC__)
void TVMPlatformAbort(tvm_crt_error_t error) __attribute__((noreturn));
#else
void TVMPlatformAbort(tvm_crt_error_t error);
#endif

// Required only if crt_config.h sets BOARDSMITH_USE_PLATFORM_FORMAT; otherwise the runtime uses its own formatter. Like
// vsnprintf, but returns the bytes written.
BOARDSMITH_PRINTF(3, 0)
size_t TVMPlatformFormatMessage(char* out_buf, size_t out_buf_size_bytes, const char* fmt, va_list args);

// Required. Allocates num_bytes, aligned for int64_t and double. On failure returns an error code and leaves *out_ptr
// unchanged.
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr);

// Required. Frees an allocation of TVMPlatformMemoryAllocate. Must return an error code for any other pointer, not
// crash: the pointer may come from the host.
tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev);

// Required. Starts the timer; kTvmErrorPlatformTimerBadState if it runs already.
tvm_crt_error_t TVMPlatformTimerStart(void);

// Required. Stops it and stores the time since the start, in seconds.
// kTvmErrorPlatformTimerBadState if it does not run.
tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_seconds);

// Called before and after each timed batch of calls, outside the timed interval, for instance to set a trigger pin or a
// clock. A nonzero result ends the measurement with that code. Defaults: no effect.
tvm_crt_error_t TVMPlatformBeforeMeasurement(void);
tvm_crt_error_t TVMPlatformAfterMeasurement(void);

// Fills buffer with random bytes that differ from reset to reset; the session
// nonce comes from here. Default: kTvmErrorFunctionCallNotImplemented.
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* buffer, size_t num_bytes);

// By convention, main() calls it first, to set up clocks, memory and timer. The runtime never calls it.
tvm_crt_error_t TVMPlatformInitialize(void);

// Called between the repeats of a long measurement, outside the timed interval, and after each block of bytes that the
// RPC server processed (not after each single byte inside a message), for instance to feed a watchdog or yield to an
// operating system. Default: no effect. Not a function of TVM's.
void TVMPlatformYield(void);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_PLATFORM_H_
