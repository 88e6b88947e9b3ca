// SPDX-License-Identifier: Apache-2.0
//
// What the firmware gives to the runtime. "Required" functions are defined by the
// firmware; the others have a weak default that a definition replaces. None is
// called from an interrupt by the runtime.
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

// Required. Something went wrong that nothing can be done about: resets or stops;
// does not return. error is a tvm_crt_error_t or the firmware's own number.
#if defined(__GNUC__)
void TVMPlatformAbort(tvm_crt_error_t error) __attribute__((noreturn));
#else
void TVMPlatformAbort(tvm_crt_error_t error);
#endif

// Required only if crt_config.h sets BOARDSMITH_USE_PLATFORM_FORMAT; otherwise the
// runtime formats by itself and never calls it. The contract of vsnprintf, but
// returns the bytes written.
BOARDSMITH_PRINTF(3, 0)
size_t TVMPlatformFormatMessage(char* out_buf, size_t out_buf_size_bytes, const char* fmt, va_list args);

// Required. Gives num_bytes, aligned for int64_t and double. On failure returns a
// code and leaves *out_ptr.
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr);

// Required. Takes back what TVMPlatformMemoryAllocate gave. A pointer that it did not give
// must be reported by a code, not by a crash: it may have come from the host.
tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev);

// Required. Starts the stop watch; kTvmErrorPlatformTimerBadState if it runs.
tvm_crt_error_t TVMPlatformTimerStart(void);

// Required. Stops it and stores the time since the start, in seconds.
// kTvmErrorPlatformTimerBadState if it does not run.
tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_seconds);

// Default: nothing. Around each timed batch of calls, outside the timed stretch
// (a trigger pin, a clock setting). Nonzero ends the measurement with that code.
tvm_crt_error_t TVMPlatformBeforeMeasurement(void);
tvm_crt_error_t TVMPlatformAfterMeasurement(void);

// Fills buffer with random bytes that differ from reset to reset; the session
// nonce comes from here. Default: kTvmErrorFunctionCallNotImplemented.
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* buffer, size_t num_bytes);

// By convention. Clocks, memory, timer; main() calls it first. The runtime never does.
tvm_crt_error_t TVMPlatformInitialize(void);

// Default: nothing. Called between the repeats of a long measurement, outside the timed stretch, and after each
// stretch of bytes that the RPC server took in (not after each single one inside a message): room for a watchdog or an
// operating system. Not a function of TVM's.
void TVMPlatformYield(void);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_PLATFORM_H_
