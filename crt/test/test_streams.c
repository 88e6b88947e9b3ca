// SPDX-License-Identifier: Apache-2.0
//
// Copies and other messages that are longer than the packet buffer.
#include "client.h"

static void test_stream(void** state) {
  (void)state;
  boot();
  const uint64_t a = host_allocate(LONG_COPY + 8);
  uint8_t* memory = (uint8_t*)(uintptr_t)a;
  (void)memset(memory, 0xEE, LONG_COPY + 8);
  msg_send(msg_copy_to(a, LONG_COPY + 8, 4, pattern(), LONG_COPY));
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(&memory[4], pattern(), LONG_COPY);
  assert_int_equal(memory[3], 0xEE);
  assert_int_equal(memory[LONG_COPY + 4], 0xEE);
  assert_int_equal(host_copy_from(a, LONG_COPY + 8, 4, LONG_COPY), 8);
  assert_memory_equal(&host_reply[15], pattern(), LONG_COPY);
  expect_alive();
}

// Runs of ff, alone and beside other bytes, in parts of every length: each ff is two bytes on the wire.
static void test_escapes(void** state) {
  (void)state;
  static uint8_t bytes[LONG_COPY];
  for (size_t run = 0; run <= 9U; run++) {
    for (size_t i = 0; i < sizeof bytes; i++) {
      bytes[i] = ((run == 9U) || ((i % (run + 1U + (i / 512U))) < run)) ? 0xFFU : (uint8_t)(0xFDU + (i % 2U));
    }
    for (device_step = 1; device_step <= 17U; device_step++) {
      boot();
      const uint64_t a = host_allocate(LONG_COPY);
      msg_send(msg_copy_to(a, LONG_COPY, 0, bytes, LONG_COPY));
      assert_int_equal(host_answer(), 4);
      assert_memory_equal((const void*)(uintptr_t)a, bytes, LONG_COPY);
      assert_int_equal(host_copy_from(a, LONG_COPY, 0, LONG_COPY), 8);
      assert_memory_equal(&host_reply[15], bytes, LONG_COPY);
    }
  }
  device_step = SIZE_MAX;
  expect_alive();
}

// Feeds a long message until its answer, which must come before its last kilobyte; then the rest, without effect.
static void expect_refused(message_t* m, const char* text) {
  const size_t n = msg_wire(m);
  size_t fed = 0;
  while ((device_out_bytes == 0U) && (fed < n)) {
    (void)device_feed(&host_wire[fed], 1);
    fed++;
  }
  assert_in_range(fed, 1, n - 1024U);
  expect_exception(text);
  (void)device_feed(&host_wire[fed], n - fed);
  expect_silence();
  expect_alive();
}

static void test_stream_outside(void** state) {
  (void)state;
  static uint8_t own[LONG_COPY + 64];
  static boardsmith_window_t window;
  boot();
  const uint64_t a = host_allocate(LONG_COPY);
  expect_refused(msg_copy_to(a, LONG_COPY, 1, pattern(), LONG_COPY), OUTSIDE);
  expect_refused(msg_copy_to(a - 1U, LONG_COPY, 0, pattern(), LONG_COPY), OUTSIDE);
  expect_refused(msg_copy_to(0, LONG_COPY, 0, pattern(), LONG_COPY), OUTSIDE);
  expect_refused(msg_copy_to((uint64_t)(uintptr_t)own, LONG_COPY, 0, pattern(), LONG_COPY), OUTSIDE);
  boardsmith_window_add(&window, own, LONG_COPY, 0);  // read-only
  expect_refused(msg_copy_to((uint64_t)(uintptr_t)own, LONG_COPY, 0, pattern(), LONG_COPY), OUTSIDE);
  assert_int_equal(host_copy_from((uint64_t)(uintptr_t)own, LONG_COPY, 0, LONG_COPY), 8);
  boardsmith_window_add(&window, own, LONG_COPY, 1);
  msg_send(msg_copy_to((uint64_t)(uintptr_t)own, LONG_COPY, 0, pattern(), LONG_COPY));
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(own, pattern(), LONG_COPY);
  assert_int_equal(own[LONG_COPY], 0);
  boardsmith_window_remove(&window);
  assert_int_equal(host_copy_from((uint64_t)(uintptr_t)own, LONG_COPY, 0, 4), 5);
  send_packed(14, "06 03", "");  // freed memory is not known any more
  assert_int_equal(host_answer(), 5);
  message_t* m = msg_request(14);
  msg_u32(m, 2);
  msg_u32(m, 6);
  msg_u32(m, 3);
  msg_u64(m, 1);
  msg_u64(m, a);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  expect_refused(msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY), OUTSIDE);
}

static void test_too_long(void** state) {
  (void)state;
  boot();
  message_t* m = msg_call(1);  // a call with a long string
  msg_u32(m, 1);
  msg_u32(m, 11);
  msg_u64(m, LONG_COPY);
  msg_raw(m, pattern(), LONG_COPY);
  msg_close(m);
  expect_refused(m, "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  m = msg_copy_to(0, 1, 0, pattern(), LONG_COPY);  // a copy whose two lengths differ
  m->bytes[3] ^= 1U;
  expect_refused(m, "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  const uint64_t a = host_allocate(LONG_COPY);
  m = msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY);
  m->bytes[55] ^= 1U;  // its count of bytes
  expect_refused(m, OUTSIDE);
  m = msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY);
  (void)memset(&m->bytes[31], 0x7F, 4);  // its rank
  expect_refused(m, OUTSIDE);
  m = msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY);
  m->bytes[0] ^= 1U;  // another session's: ignored
  msg_send(m);
  expect_silence();
  // A damaged length field makes a request endless: it is refused at once, without waiting for the rest.
  m = msg_request(15);
  msg_u32(m, 0);
  msg_close(m);
  const size_t n = msg_wire(m);
  host_wire[5] = 0x40;
  (void)device_feed(host_wire, n);
  expect_exception("message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  expect_alive();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stream),
      cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_stream_outside),
      cmocka_unit_test(test_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
