// SPDX-License-Identifier: Apache-2.0
//
// Log lines to the host, between frames. Weak: a firmware may define its own.
#include <boardsmith/boardsmith.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/platform.h>

#include "server.h"

#ifndef BOARDSMITH_LOG_BYTES
#define BOARDSMITH_LOG_BYTES 192U  // of stack; longer lines are cut
#endif

TVM_WEAK void TVMLogf(const char* fmt, ...) {
  char line[BOARDSMITH_LOG_BYTES];
  va_list args;
  if ((server_active == NULL) || (server_active->transmitter == TRANSMIT_SENDING)) {
    return;  // cannot be sent: before the start, or inside a frame
  }
  va_start(args, fmt);
#ifdef BOARDSMITH_USE_PLATFORM_FORMAT
  size_t bytes = TVMPlatformFormatMessage(line, sizeof line, fmt, args);
  bytes = (bytes < sizeof line) ? bytes : (sizeof line - 1U);
#else
  size_t bytes = boardsmith_vformat(line, sizeof line, fmt, args);
#endif
  va_end(args);
  if ((bytes != 0U) && (line[bytes - 1U] == '\n')) {
    bytes--;
  }
  if (bytes != 0U) {  // an empty line would make a TVM host hang
    transmit_message(server_active, HEADER(SESSION_LOG), line, bytes);
    boardsmith_logged(line, bytes);
  }
}
