// SPDX-License-Identifier: Apache-2.0
//
// The last error's text.
#include <stdarg.h>

#include "runtime.h"

static char last_error[BOARDSMITH_LAST_ERROR_BYTES];

void TVMAPISetLastError(const char* msg) {
  size_t i = 0;
  while ((i < (sizeof last_error - 1U)) && (msg[i] != '\0')) {
    last_error[i] = msg[i];
    i++;
  }
  last_error[i] = '\0';
}

const char* TVMGetLastError(void) { return last_error; }

void TVMAPIErrorf(const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)boardsmith_vformat(last_error, sizeof last_error, fmt, args);
  va_end(args);
}
