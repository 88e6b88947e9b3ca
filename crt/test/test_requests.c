// SPDX-License-Identifier: Apache-2.0
//
// Requests that make other receivers hang, calls in every form, and the hooks around calls.
#include "client.h"

static void test_strange_messages(void** state) {
  (void)state;
  boot();
  static const uint8_t types[] = {0x01, 0x03, 0x04, 0x0F, 0x11, 0xFF};
  for (size_t i = 0; i < sizeof types; i++) {
    message_t* m = msg_begin(types[i]);
    msg_raw(m, "\x01some text that is not for a device", 30);
    msg_send(m);
    expect_silence();
    expect_alive();
  }
  for (size_t n = 0; n < 3U; n++) {  // shorter than a header
    message_t* m = msg_begin(0x10);
    m->size = n;
    msg_send(m);
    expect_silence();
    expect_alive();
  }
  message_t* m = msg_begin(0x00);  // no version
  m->bytes[1] = 0;
  msg_send(m);
  expect_silence();
  expect_alive();
  m = msg_begin(0x00);  // no nonce
  m->bytes[0] = 0;
  m->bytes[1] = 0;
  msg_raw(m, "\x01", 1);
  msg_send(m);
  expect_silence();
  expect_alive();
}

static void test_other_sessions(void** state) {
  (void)state;
  boot();
  const uint8_t id = host_id[1];
  host_id[1] ^= 0x5AU;
  message_t* m = msg_request(9);
  msg_request_send(m);
  expect_silence();
  host_id[1] = id;
  expect_alive();
  assert_true(host_start(0x22));  // a new session without an end of the old one
  expect_alive();
  m = msg_begin(0x02);
  msg_send(m);
  m = msg_request(9);  // after the end
  msg_request_send(m);
  expect_silence();
  assert_true(host_start(0x23));
  expect_alive();
  device_boot();
  assert_int_equal(host_receive(host_reply), 3);
  m = msg_request(9);  // before the beginning
  msg_request_send(m);
  expect_silence();
  (void)memset(host_id, 0, 2);
  m = msg_request(9);
  msg_request_send(m);
  expect_silence();
  assert_true(host_start(0x24));
  expect_alive();
}

#define Z8 "00 00 00 00 00 00 00 00 "

static void test_strange_requests(void** state) {
  (void)state;
  boot();
  static const uint32_t codes[] = {0, 4, 5, 8, 0x80000000U, 0xFFFFFFFFU};
  for (size_t i = 0; i < (sizeof codes / sizeof codes[0]); i++) {
    message_t* m = msg_request(codes[i]);
    msg_u32(m, 0);
    msg_request_send(m);
    expect_exception("unsupported request");
    expect_alive();
  }
  send_packed(21, "", "");
  expect_exception("unsupported request");
  send_packed(0x7FFFFFFF, "00", Z8);
  expect_exception("unsupported request");
  send_packed(11, "06", "01 00 00 00 00 00 00 00");
  expect_exception("unsupported request");
  send_packed(12, "06 00", Z8 Z8);
  expect_exception("unsupported request");
  send_packed(18, "06", Z8);
  assert_int_equal(host_answer(), 4);
  assert_int_equal(host_handle(), 0);
  for (uint32_t code = 9; code <= 20U; code++) {  // wrong count, wrong types, cut short, unknown type
    send_packed(code, "", "");
    expect_exception("wrong arguments");
    send_packed(code, "02 02 02 02 02", Z8 Z8 Z8 Z8 Z8);
    expect_exception("wrong arguments");
    send_packed(code, "00 00", Z8);
    expect_exception("short request");
    send_packed(code, "0d", Z8);
    expect_exception("unsupported type");
    send_packed(code, "08", Z8);
    expect_exception("unsupported type");
    send_packed(code, "0b", "ff ff ff ff ff ff ff ff");  // a string of 2^64 - 1 bytes
    expect_exception("short request");
    send_packed(code, "07", Z8 Z8 "ff ff ff 7f 00 08 01 00" Z8);  // a tensor of rank 2^31 - 1
    expect_exception("short request");
    message_t* m = msg_request(code);
    msg_u32(m, 0xFFFFFFFFU);  // 2^32 - 1 arguments
    msg_request_send(m);
    expect_exception("short request");
    m = msg_request(code);
    msg_request_send(m);
    expect_exception("short request");
    expect_alive();
  }
  send_packed(10, "03 00", Z8 "08" Z8);
  expect_exception("wrong arguments");
  send_packed(10, "03 00", "10 00 00 00 00 00 00 00 0d 00 00 00 00 00 00 00");  // no such array
  assert_int_equal(host_answer(), 5);
  send_packed(10, "03 00", "07 80 00 00 00 00 00 00 09 00 00 00 00 00 00 00");  // no such module
  assert_int_equal(host_answer(), 5);
  send_packed(14, "06 03", Z8 "10 00 00 00 00 00 00 00");  // no such allocation
  expect_exception("error 0x803");
  send_packed(13, "06 00 00 05", Z8 "ff ff ff ff ff ff ff ff 01 00 00 00 00 00 00 00" Z8);  // 2^64 - 1 bytes
  assert_int_equal(host_answer(), 5);
  send_packed(13, "06 00 00 05", Z8 "01 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00" Z8);  // alignment 3
  assert_int_equal(host_answer(), 5);
  message_t* m = msg_request(2);  // session arguments
  msg_u64(m, 0);
  msg_u32(m, 1);
  msg_request_send(m);
  expect_exception("wrong arguments");
  m = msg_request(2);
  msg_request_send(m);
  expect_exception("wrong arguments");
  for (uint32_t code = 3; code <= 7U; code += (code == 3U) ? 3U : 1U) {  // a call and the copies, cut everywhere
    for (size_t n = 0; n < 60U; n++) {
      m = msg_request(code);
      (void)memset(&m->bytes[m->size], 0, n);
      m->size += n;
      msg_request_send(m);
      assert_int_equal(host_answer(), 5);
    }
  }
  m = msg_request(9);  // a length that is not the message's
  msg_u32(m, 0);
  msg_send(m);
  assert_int_equal(host_answer(), 5);
  expect_alive();
}

static void test_calls(void** state) {
  (void)state;
  boot();
  open_library();
  message_t* m = msg_call(0);
  msg_u32(m, 0);
  msg_request_send(m);
  expect_exception("add: needs three tensors");
  m = msg_call(3);
  msg_u32(m, 0);
  msg_request_send(m);
  expect_exception("unsupported type");
  m = msg_call(8);
  msg_u32(m, 0);
  msg_request_send(m);
  expect_exception("error 0x3");
  m = msg_call(9);  // no such function
  msg_u32(m, 0);
  msg_request_send(m);
  expect_exception("invalid handle: 80008009");
  m = msg_call(1);  // nothing in, nothing out
  msg_u32(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  m = msg_call(1);
  msg_u32(m, 1);
  msg_u32(m, 11);
  msg_u64(m, 3);
  msg_raw(m, "abc", 3);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(&host_reply[35], "\3\0\0\0\0\0\0\0abc", 11);
  const size_t live = device_allocations;
  m = msg_call(1);
  msg_u32(m, 1);
  msg_u32(m, 12);
  msg_u64(m, 3);
  msg_raw(m, "a\0c", 3);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(&host_reply[35], "\3\0\0\0\0\0\0\0a\0c", 11);
  assert_int_equal(device_allocations, live);
  // Forty arguments do not fit behind the request: they come from the arena, and go back to it.
  m = msg_call(1);
  msg_u32(m, 40);
  for (uint32_t i = 0; i < 40U; i++) {
    msg_u32(m, (i == 0U) ? 2U : 4U);
  }
  const double pi = 3.25;
  msg_raw(m, &pi, 8);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(&host_reply[35], &pi, 8);
  assert_int_equal(device_allocations, live);
  // Tensors in, tensors out.
  const uint64_t a = host_allocate(4);
  const uint64_t b = host_allocate(4);
  const uint64_t c = host_allocate(4);
  msg_send(msg_copy_to(a, 4, 0, "\1\2\3\4", 4));
  assert_int_equal(host_answer(), 4);
  msg_send(msg_copy_to(b, 4, 0, "\x10\x20\x30\x40", 4));
  assert_int_equal(host_answer(), 4);
  m = msg_call(0);
  msg_u32(m, 3);
  msg_u32(m, 7);
  msg_u32(m, 7);
  msg_u32(m, 7);
  msg_tensor(m, a, 8, 4, 0);
  msg_tensor(m, b, 8, 4, 0);
  msg_tensor(m, c, 8, 4, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_int_equal(host_copy_from(c, 4, 1, 3), 8);
  assert_memory_equal(&host_reply[15], "\x22\x33\x44", 3);
  m = msg_request(16);  // copy among: c -> a
  msg_u32(m, 3);
  msg_u32(m, 7);
  msg_u32(m, 7);
  msg_u32(m, 3);
  msg_tensor(m, c, 8, 2, 2);
  msg_tensor(m, a, 8, 2, 1);
  msg_u64(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_memory_equal((void*)(uintptr_t)a, "\x01\x33\x44\x04", 4);
  const uint64_t crc = host_global("boardsmith.crc32");
  m = msg_request(3);
  msg_u64(m, crc);
  msg_u32(m, 1);
  msg_u32(m, 7);
  (void)memcpy((void*)(uintptr_t)a, "1234", 4);
  msg_tensor(m, a, 8, 4, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(&host_reply[35], "\xA3\xE0\xE3\x9B\0\0\0\0", 8);  // CRC-32 of "1234"
  device_memory_left = 0;
  assert_int_equal(host_allocate(4), 0);
  device_memory_left = SIZE_MAX;
  expect_alive();
}

// An operator that reads more arguments than it was given finds zeros, not data of the host.
static void test_unused_values(void** state) {
  (void)state;
  boot();
  open_library();
  const uint64_t a = host_allocate(8);
  for (uint32_t n = 0; n < 40U; n++) {  // from some number on they lie in the arena
    uint8_t noise[400];
    (void)memset(noise, 0x41, sizeof noise);
    message_t* m = msg_call(1);
    msg_u32(m, 1);
    msg_u32(m, 11);
    msg_u64(m, sizeof noise);
    msg_raw(m, noise, sizeof noise);
    msg_request_send(m);
    assert_int_equal(host_answer(), 4);
    for (uint32_t type = 3; type <= 11U; type += 4U) {  // opaque, tensor, string
      m = msg_call(7);
      const uint32_t count = (type == 3U) ? n : (n / 8U);
      msg_u32(m, count);
      for (uint32_t i = 0; i < count; i++) {
        msg_u32(m, type);
      }
      for (uint32_t i = 0; i < count; i++) {
        if (type == 7U) {
          msg_tensor(m, a, 8, 8, 0);
        } else if (type == 11U) {
          msg_u64(m, 3);
          msg_raw(m, "abc", 3);
        } else {
          msg_u64(m, UINT64_MAX);
        }
      }
      msg_request_send(m);
      assert_int_equal(host_answer(), 4);
      assert_int_equal(host_value(), 0);
    }
  }
}

static void call_nothing(uint32_t index) {
  message_t* m = msg_call(index);
  msg_u32(m, 0);
  msg_request_send(m);
  assert_int_not_equal(host_answer(), 0);
}

// The hooks report each call of the host, no nested call, and its end even after an error.
static void test_call_hooks(void** state) {
  (void)state;
  boot();
  open_library();
  device_calls = 0;
  call_nothing(1);  // echo
  assert_int_equal(device_calls, 1);
  assert_ptr_equal(device_call, (void*)(uintptr_t)0x80008001U);
  assert_int_equal(device_calls_open, 0);
  call_nothing(2);  // boom
  assert_int_equal(device_calls, 2);
  assert_int_equal(device_calls_open, 0);
  call_nothing(77);  // there is none: nothing is entered
  assert_int_equal(device_calls, 2);
  (void)host_global("runtime.SystemLib");  // no call
  assert_int_equal(device_calls, 2);
}

// A chunk of bytes is followed by a yield, one that holds several messages too; single bytes inside a message are not.
static void test_yield(void** state) {
  (void)state;
  boot();
  message_t* m = msg_begin(0x02);
  const size_t n = msg_wire(m);
  device_yields = 0;
  (void)device_feed(host_wire, n);
  assert_int_equal(device_yields, 1);
  for (size_t i = 0; i < 1000U; i++) {
    (void)device_feed(host_wire, n);
  }
  assert_int_equal(device_yields, 1001);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_strange_messages),
      cmocka_unit_test(test_other_sessions),
      cmocka_unit_test(test_strange_requests),
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_unused_values),
      cmocka_unit_test(test_call_hooks),
      cmocka_unit_test(test_yield),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
