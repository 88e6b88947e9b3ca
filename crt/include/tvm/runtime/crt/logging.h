// SPDX-License-Identifier: Apache-2.0
//
// Log lines to the host, and checks for programming errors. Do not use CHECK for data from the link.
#ifndef TVM_RUNTIME_CRT_LOGGING_H_
#define TVM_RUNTIME_CRT_LOGGING_H_

#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/platform.h>

#define TVM_CRT_LOG_LEVEL_DEBUG 3
#define TVM_CRT_LOG_LEVEL_INFO 2
#define TVM_CRT_LOG_LEVEL_WARN 1
#define TVM_CRT_LOG_LEVEL_ERROR 0

#include "crt_config.h"

#ifndef TVM_CRT_LOG_LEVEL
#define TVM_CRT_LOG_LEVEL TVM_CRT_LOG_LEVEL_INFO
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Sends one line of text to the host, at most 255 bytes; a newline at its end is dropped. The RPC server provides this
// function; a firmware without the server, or with its own log, defines it. Formats: %s %c %d %i %u %x %p, with l, ll,
// z, width, zero fill. From any other conversion of printf on, the format is printed unchanged; compilers do not warn
// about these. A NULL for %s is printed as (null).
BOARDSMITH_PRINTF(1, 2) void TVMLogf(const char* fmt, ...);

#ifdef __cplusplus
}
#endif

// LOG(level, fmt, ...): logs if TVM_CRT_LOG_LEVEL is level or higher.
#define LOG(level, ...)                 \
  do {                                  \
    if (TVM_CRT_LOG_LEVEL >= (level)) { \
      TVMLogf(__VA_ARGS__);             \
    }                                   \
  } while (0)
#define LOG_ERROR(...) LOG(TVM_CRT_LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARN(...) LOG(TVM_CRT_LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_INFO(...) LOG(TVM_CRT_LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...) LOG(TVM_CRT_LOG_LEVEL_DEBUG, __VA_ARGS__)

// CHECK(x): if x is 0, logs `<file>:<line>: Check failed: <x>` and aborts with
// kTvmErrorPlatformCheckFailure.
#define CHECK(x)                                                  \
  do {                                                            \
    if (!(x)) {                                                   \
      TVMLogf("%s:%d: Check failed: %s", __FILE__, __LINE__, #x); \
      TVMPlatformAbort(kTvmErrorPlatformCheckFailure);            \
    }                                                             \
  } while (0)

// CHECK_EQ(x, y, fmt, ...) and the others: the same for a comparison, with a second line for the message.
#define CHECK_BINARY_OP(op, x, y, ...)                                           \
  do {                                                                           \
    if (!((x)op(y))) {                                                           \
      TVMLogf("%s:%d: Check failed: %s %s %s", __FILE__, __LINE__, #x, #op, #y); \
      TVMLogf(__VA_ARGS__);                                                      \
      TVMPlatformAbort(kTvmErrorPlatformCheckFailure);                           \
    }                                                                            \
  } while (0)
#define CHECK_LT(x, y, ...) CHECK_BINARY_OP(<, x, y, __VA_ARGS__)
#define CHECK_GT(x, y, ...) CHECK_BINARY_OP(>, x, y, __VA_ARGS__)
#define CHECK_LE(x, y, ...) CHECK_BINARY_OP(<=, x, y, __VA_ARGS__)
#define CHECK_GE(x, y, ...) CHECK_BINARY_OP(>=, x, y, __VA_ARGS__)
#define CHECK_EQ(x, y, ...) CHECK_BINARY_OP(==, x, y, __VA_ARGS__)
#define CHECK_NE(x, y, ...) CHECK_BINARY_OP(!=, x, y, __VA_ARGS__)

#endif  // TVM_RUNTIME_CRT_LOGGING_H_
