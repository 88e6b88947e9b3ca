// SPDX-License-Identifier: Apache-2.0
//
// Tensors that a host describes: access requires known memory.
#include "client.h"

// A tensor as a host describes it.
typedef struct described {
  uint64_t data;
  uint64_t offset;
  int64_t extent[2];  // the second one only if rank is 2
  uint32_t rank;
  uint32_t type;  // code, bits, lanes
} described_t;

#define INT8 0x00010801U  // in this order, from below: code 1, 8 bits, 1 lane

static void msg_described(message_t* m, const described_t* t) {
  msg_u64(m, t->data);
  msg_u64(m, 1);
  msg_u32(m, t->rank);
  msg_u32(m, t->type);
  msg_raw(m, t->extent, 8U * t->rank);
  msg_u64(m, t->offset);
}

// Calls add with the tensor in one place and good ones in the others; returns the answer's code.
static int32_t add_with(const described_t* t, uint32_t place, uint64_t good) {
  const described_t fine = {good, 0, {8, 0}, 1, INT8};
  message_t* m = msg_call(0);
  msg_u32(m, 3);
  msg_u32(m, 7);
  msg_u32(m, 7);
  msg_u32(m, 7);
  for (uint32_t i = 0; i < 3U; i++) {
    msg_described(m, (i == place) ? t : &fine);
  }
  msg_request_send(m);
  return host_answer();
}

// An operator only gets tensors that lie, with all their bytes, in one block or window.
static void test_tensors_of_calls(void** state) {
  (void)state;
  static uint8_t own[64];
  static boardsmith_window_t window;
  boot();
  open_library();
  const uint64_t a = host_allocate(64);
  const uint64_t freed = host_allocate(4096);
  message_t* m = msg_request(14);
  msg_u32(m, 2);
  msg_u32(m, 6);
  msg_u32(m, 3);
  msg_u64(m, 1);
  msg_u64(m, freed);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  const uint64_t w = (uint64_t)(uintptr_t)own;
  boardsmith_window_add(&window, own, sizeof own, 0);
  const described_t bad[] = {
      {0x41414140, 0, {8, 0}, 1, INT8},
      {0, 0, {8, 0}, 1, INT8},
      {0, 0, {0, 0}, 1, INT8},  // without bytes, but of no block either
      {a - 1U, 0, {8, 0}, 1, INT8},
      {a - 8U, 8, {8, 0}, 1, INT8},                // data itself lies outside
      {a + 8U, UINT64_MAX - 7U, {8, 0}, 1, INT8},  // data + byte_offset wraps to a
      {a, UINT64_MAX, {8, 0}, 1, INT8},
      {a, 1ULL << 32, {8, 0}, 1, INT8},  // truncated to 32 bits it is 0
      {a, 0, {65, 0}, 1, INT8},
      {a + 60U, 0, {8, 0}, 1, INT8},
      {a, 60, {8, 0}, 1, INT8},
      {a + 65U, 0, {0, 0}, 1, INT8},
      {a, 0, {-1, 0}, 1, INT8},
      {a, 0, {INT64_MAX, 0}, 1, INT8},
      {a, 0, {1LL << 32, 1LL << 32}, 2, INT8},  // its product is 0 in 64 bits
      {a, 0, {1LL << 31, 2}, 2, INT8},          // and in 32
      {a, 0, {0, 1LL << 40}, 2, INT8},
      {a, 0, {17, 0}, 1, 0x00012002U},  // float32
      {a, 0, {1, 0}, 1, 0xFFFFFF01U},   // 255 bits, 65535 lanes
      {freed, 0, {8, 0}, 1, INT8},
      {w, 0, {65, 0}, 1, INT8},
  };
  const size_t calls = device_calls;
  for (size_t i = 0; i < (sizeof bad / sizeof bad[0]); i++) {
    for (uint32_t place = 0; place < 3U; place++) {
      assert_int_equal(add_with(&bad[i], place, a), 5);
      assert_string_equal(host_text(), OUTSIDE);
    }
  }
  assert_int_equal(device_calls, calls);
  const described_t good[] = {{a, 0, {8, 0}, 1, INT8},
                              {a + 56U, 0, {8, 0}, 1, INT8},
                              {a, 56, {8, 0}, 1, INT8},
                              {w, 0, {8, 0}, 1, INT8},
                              {w + 56U, 0, {8, 0}, 1, INT8}};
  for (size_t i = 0; i < (sizeof good / sizeof good[0]); i++) {
    assert_int_equal(add_with(&good[i], 0, a), 4);
  }
  const described_t none = {a + 64U, 0, {0, 0}, 1, INT8};  // no bytes, at its block's end
  assert_int_equal(add_with(&none, 1, a), 5);
  assert_string_equal(host_text(), "add: needs tensors of one length");
  boardsmith_window_remove(&window);
  assert_int_equal(add_with(&good[3], 0, a), 5);
  assert_string_equal(host_text(), OUTSIDE);
}

// Copies, fills and checksums follow the same rule; those that write need writable windows.
static void test_tensors_of_requests(void** state) {
  (void)state;
  static uint8_t own[64];
  static boardsmith_window_t window;
  boot();
  const uint64_t a = host_allocate(64);
  const uint64_t w = (uint64_t)(uintptr_t)own;
  const uint64_t fill = host_global("tvm.contrib.random.random_fill");
  const uint64_t crc = host_global("boardsmith.crc32");
  boardsmith_window_add(&window, own, sizeof own, 0);
  const struct {
    uint64_t data;
    uint64_t offset;
    bool read, write;
  } cases[] = {{a, 0, true, true},        {a, 56, true, true},  {a, 57, false, false},
               {a - 8U, 8, false, false}, {w, 0, true, false},  {w, 56, true, false},
               {w, 57, false, false},     {0, 0, false, false}, {a, 1ULL << 32, false, false}};
  for (size_t i = 0; i < (sizeof cases / sizeof cases[0]); i++) {
    const int32_t read = cases[i].read ? 4 : 5;
    const int32_t write = cases[i].write ? 4 : 5;
    assert_int_equal(host_copy_from(cases[i].data, 8, cases[i].offset, 8), cases[i].read ? 8 : 5);
    msg_send(msg_copy_to(cases[i].data, 8, cases[i].offset, "abcdefgh", 8));
    assert_int_equal(host_answer(), write);
    for (int from = 0; from < 2; from++) {
      message_t* m = msg_request(16);
      msg_u32(m, 3);
      msg_u32(m, 7);
      msg_u32(m, 7);
      msg_u32(m, 3);
      for (int k = 0; k < 2; k++) {
        const bool other = (k == from);
        msg_tensor(m, other ? a : cases[i].data, 8, 8, other ? 8 : cases[i].offset);
      }
      msg_u64(m, 0);
      msg_request_send(m);
      assert_int_equal(host_answer(), (from == 0) ? write : read);
    }
    for (int k = 0; k < 2; k++) {
      message_t* m = msg_request(3);
      msg_u64(m, (k == 0) ? fill : crc);
      msg_u32(m, 1);
      msg_u32(m, 7);
      msg_tensor(m, cases[i].data, 8, 8, cases[i].offset);
      msg_request_send(m);
      assert_int_equal(host_answer(), (k == 0) ? write : read);
    }
  }
  message_t* m = msg_request(16);  // into a smaller tensor
  msg_u32(m, 3);
  msg_u32(m, 7);
  msg_u32(m, 7);
  msg_u32(m, 3);
  msg_tensor(m, a, 8, 32, 0);
  msg_tensor(m, a, 8, 8, 40);
  msg_u64(m, 0);
  msg_request_send(m);
  expect_exception(OUTSIDE);
  m = msg_request(17);  // memory to be allocated has no address
  msg_u32(m, 2);
  msg_u32(m, 7);
  msg_u32(m, 4);
  msg_tensor(m, a, 8, 8, 0);
  msg_request_send(m);
  expect_exception("wrong arguments");
  boardsmith_window_remove(&window);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensors_of_calls),
      cmocka_unit_test(test_tensors_of_requests),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
