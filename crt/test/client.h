// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of the RPC server: a session, requests, and the expected answers.
#ifndef BOARDSMITH_TEST_CLIENT_H_
#define BOARDSMITH_TEST_CLIENT_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device.h"

static inline size_t from_hex(uint8_t* out, const char* hex) {
  size_t n = 0;
  unsigned byte = 0;
  int used = 0;
  while (sscanf(hex, " %2x%n", &byte, &used) == 1) {
    out[n++] = (uint8_t)byte;
    hex += used;
  }
  return n;
}

static inline void boot(void) {
  device_boot();
  assert_int_equal(host_receive(host_reply), 3);
  assert_true(host_start(0x21));
}

// Checks that a valid request is answered, once.
static inline void expect_alive(void) { assert_int_equal(host_global("runtime.SystemLib"), 0x80028000U); }

static inline void expect_exception(const char* text) {
  assert_int_equal(host_answer(), 5);
  if (strncmp(host_text(), text, strlen(text)) != 0) {
    fail_msg("exception is `%s`, want `%s`", host_text(), text);
  }
}

#define OUTSIDE "tensor outside known memory"

static inline void expect_silence(void) { assert_int_equal(host_answer(), 0); }

// Sends packed arguments: codes, then value bytes.
static inline void send_packed(uint32_t code, const char* codes, const char* values) {
  uint8_t bytes[128];
  message_t* m = msg_request(code);
  const size_t n = from_hex(bytes, codes);
  msg_u32(m, (uint32_t)n);
  for (size_t i = 0; i < n; i++) {
    msg_u32(m, bytes[i]);
  }
  msg_raw(m, bytes, from_hex(bytes, values));
  msg_request_send(m);
}

// Calls a function of the system library by its index.
static inline message_t* msg_call(uint32_t index) {
  message_t* m = msg_request(3);
  msg_u64(m, 0x80008000U + index);
  return m;
}

static inline void open_library(void) {
  message_t* m = msg_request(3);
  msg_u64(m, 0x80028000U);
  msg_u32(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
}

enum { LONG_COPY = 4096 };

// Returns LONG_COPY bytes that a copy has to keep.
static inline const uint8_t* pattern(void) {
  static uint8_t bytes[LONG_COPY];
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] = (uint8_t)((i * 7U) ^ (i >> 5));
  }
  return bytes;
}

#endif  // BOARDSMITH_TEST_CLIENT_H_
