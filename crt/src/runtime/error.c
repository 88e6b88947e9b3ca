// SPDX-License-Identifier: Apache-2.0
//
// The last error's text.
#include <boardsmith/boardsmith.h>
#include <stdarg.h>
#include <tvm/runtime/crt/crt.h>

#include "state.h"

#define LAST_ERROR (boardsmith_runtime.last_error)

void TVMAPISetLastError(const char* msg) { TVMAPIErrorf("%s", msg); }

const char* TVMGetLastError(void) { return LAST_ERROR; }

void TVMAPIErrorf(const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)boardsmith_vformat(LAST_ERROR, sizeof LAST_ERROR, fmt, args);
  va_end(args);
}
