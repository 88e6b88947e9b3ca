// SPDX-License-Identifier: Apache-2.0
//
// Damaged and incomplete frames: which answers are sent, and when.
#include "client.h"

static void test_damaged_request(void** state) {
  (void)state;
  boot();
  message_t* m = msg_request(9);
  msg_u32(m, 1);
  msg_u32(m, 11);
  msg_u64(m, 5);
  msg_raw(m, "abcde", 5);
  msg_close(m);
  const size_t n = msg_wire(m);
  for (size_t i = 9; i < n; i++) {  // behind length and session header
    (void)msg_wire(m);
    host_wire[i] ^= 0x04U;
    (void)device_feed(host_wire, n);
    device_idle(400);
    expect_exception("boardsmith: damaged request");
    expect_alive();
  }
  for (size_t i = 6; i < 9U; i++) {  // in the header: not a request of this session
    (void)msg_wire(m);
    host_wire[i] ^= 0x04U;
    (void)device_feed(host_wire, n);
    device_idle(400);
    expect_silence();
    expect_alive();
  }
  for (size_t i = 9; i < n; i++) {  // an ff that is no escape
    (void)msg_wire(m);
    host_wire[i] = 0xFF;
    (void)device_feed(host_wire, n);
    device_idle(400);
    expect_exception("boardsmith: damaged request");
    expect_alive();
  }
}

// A request whose rest is late gets an exception at once. A frame of which less has arrived waits for its rest.
static void test_gap(void** state) {
  (void)state;
  boot();
  message_t* m = msg_request(9);
  msg_u32(m, 1);
  msg_u32(m, 11);
  msg_u64(m, 5);
  msg_raw(m, "abcde", 5);
  msg_close(m);
  const size_t n = msg_wire(m);
  for (size_t cut = 2; cut < n; cut++) {
    (void)device_feed(host_wire, cut);
    device_idle(200);
    expect_silence();
    device_idle(100);
    if (cut < 9U) {
      device_idle(1000);
      expect_silence();
      (void)device_feed(&host_wire[cut], n - cut);
      assert_int_equal(host_answer(), 4);
    } else {
      expect_exception("boardsmith: damaged request");
      (void)device_feed(&host_wire[cut], n - cut);  // too late
      device_idle(400);
      expect_silence();
    }
    (void)msg_request(9);
    expect_alive();
    m = msg_request(9);
    msg_u32(m, 1);
    msg_u32(m, 11);
    msg_u64(m, 5);
    msg_raw(m, "abcde", 5);
    msg_close(m);
    (void)msg_wire(m);
  }
  // Cut off by the next frame: no answer but that frame's.
  (void)device_feed(host_wire, n - 3U);
  expect_alive();
}

// Bytes arrive one by one, with a pause after each: the request is valid if no single pause is too long.
static void test_gap_in_each_field(void** state) {
  (void)state;
  boot();
  message_t* m = msg_request(9);
  msg_u32(m, 1);
  msg_u32(m, 11);
  msg_u64(m, 5);
  msg_raw(m, "abcde", 5);
  msg_close(m);
  const size_t n = msg_wire(m);
  device_step = 1;
  for (size_t first = 1; first < n; first++) {
    for (size_t second = first + 1U; second < n; second++) {
      (void)device_feed(host_wire, first);
      device_idle(0);
      device_clock_ms += 100;
      (void)device_feed(&host_wire[first], second - first);
      device_clock_ms += 200;
      device_idle(0);
      (void)device_feed(&host_wire[second], n - second);
      assert_int_equal(host_answer(), 4);
    }
  }
  device_step = SIZE_MAX;
}

// After a refused message that is long, a pause ends the search for pairs of ff: a single one before the next frame
// does not hide that frame's start.
static void test_noise_after_refused(void** state) {
  static const uint8_t noise = 0xFF;
  (void)state;
  boot();
  const uint64_t a = host_allocate(16);
  msg_send(msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY));
  assert_int_equal(host_answer(), 5);
  device_idle(1000);
  (void)device_feed(&noise, 1);
  device_idle(1000);
  expect_alive();
}

static void test_damaged_copy(void** state) {
  (void)state;
  boot();
  const uint64_t a = host_allocate(LONG_COPY);
  message_t* m = msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY);
  const size_t n = msg_wire(m);
  host_wire[1000] ^= 0x01U;
  (void)device_feed(host_wire, n);
  expect_exception("boardsmith: damaged copy");
  expect_alive();
  m = msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY);
  (void)msg_wire(m);
  (void)device_feed(host_wire, 1000);  // it stops in the middle
  device_idle(400);
  expect_exception("boardsmith: damaged copy");
  device_idle(400);
  expect_silence();
  m = msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY);
  (void)msg_wire(m);
  (void)device_feed(host_wire, 1000);  // it is cut off by the next frame
  expect_alive();
  msg_send(msg_copy_to(a, LONG_COPY, 0, pattern(), LONG_COPY));
  assert_int_equal(host_answer(), 4);
  assert_memory_equal((void*)(uintptr_t)a, pattern(), LONG_COPY);
}

// Without a clock an incomplete frame is abandoned when the next one begins.
static void test_no_clock(void** state) {
  (void)state;
  boot();
  message_t* m = msg_request(9);
  msg_request_send(m);
  (void)host_answer();
  const size_t n = msg_wire(m);
  (void)device_feed(host_wire, n - 1U);
  size_t none = 0;
  for (int i = 0; i < 100; i++) {
    (void)MicroTVMRpcServerLoop(device, NULL, &none);
  }
  expect_silence();
  expect_alive();
}

// The device's link fails once at every write: no partial frame follows, and the next session works and begins with a
// nop.
static void test_write_failures(void** state) {
  (void)state;
  device_boot();
  assert_int_equal(host_receive(host_reply), 3);
  for (size_t writes = 0; writes < 24U; writes++) {
    device_writes_left = writes;
    message_t* m = msg_begin(0x00);
    m->bytes[0] = 0x31;
    m->bytes[1] = 0;
    msg_raw(m, "\1", 1);
    msg_send(m);
    m = msg_request(9);
    msg_request_send(m);
    device_out_bytes = 0;
    host_at = 0;
    device_writes_left = SIZE_MAX;
    assert_true(host_start(0x32));
    expect_alive();
  }
  device_writes_left = 2;
  message_t* m = msg_request(9);
  msg_request_send(m);
  device_writes_left = SIZE_MAX;
  device_out_bytes = 0;
  host_at = 0;
  m = msg_request(9);
  msg_request_send(m);
  assert_int_equal(device_out[0], 0xFE);
  assert_int_equal(host_answer(), 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_damaged_request),   cmocka_unit_test(test_gap),
      cmocka_unit_test(test_gap_in_each_field), cmocka_unit_test(test_noise_after_refused),
      cmocka_unit_test(test_damaged_copy),      cmocka_unit_test(test_no_clock),
      cmocka_unit_test(test_write_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
