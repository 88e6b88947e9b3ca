// SPDX-License-Identifier: Apache-2.0
//
// A recorded session: whole, in pieces, and damaged in ten thousand ways.
#include "client.h"

// All messages of the host in one session.
static message_t session[16];
static size_t session_messages;

static void record(message_t* m) {
  session[session_messages] = *m;
  session_messages++;
  msg_send(m);
  assert_int_not_equal(host_answer(), 0);
}

// Puts the recorded session, with this session's id, onto the wire; returns its bytes.
static size_t replay(uint8_t* out, size_t first) {
  size_t n = 0;
  for (size_t i = first; i < session_messages; i++) {
    (void)memcpy(session[i].bytes, host_id, 2);
    n += host_frame(&out[n], session[i].bytes, session[i].size);
  }
  return n;
}

// Opens a session and records all messages of the host: look-ups, allocations, short and long copies, calls.
static void record_session(void) {
  boot();
  session_messages = 0;
  message_t* m = msg_request(3);
  msg_u64(m, 0x80028000U);
  msg_u32(m, 0);
  msg_close(m);
  record(m);
  uint64_t t[3];
  for (int i = 0; i < 3; i++) {
    m = msg_request(17);
    msg_u32(m, 2);
    msg_u32(m, 7);
    msg_u32(m, 4);
    msg_tensor(m, 0, 8, 600, 0);
    msg_close(m);
    record(m);
    // The session's data belong to the firmware, so that they exist in all later sessions.
    const DLDevice cpu = {kDLCPU, 0};
    const DLDataType int8 = {kDLInt, 8, 1};
    void* own = NULL;
    assert_int_equal(TVMDeviceAllocDataSpace(cpu, 600, 1, int8, &own), 0);
    t[i] = (uint64_t)(uintptr_t)own;
  }
  record(msg_copy_to(t[0], 600, 0, pattern(), 200));
  record(msg_copy_to(t[1], 600, 0, pattern(), 600));
  m = msg_call(0);
  msg_u32(m, 3);
  msg_u32(m, 7);
  msg_u32(m, 7);
  msg_u32(m, 7);
  for (int i = 0; i < 3; i++) {
    msg_tensor(m, t[i], 8, 600, 0);
  }
  msg_close(m);
  record(m);
  m = msg_request(6);
  msg_tensor(m, t[2], 8, 600, 0);
  msg_u64(m, 600);
  msg_close(m);
  record(m);
  m = msg_call(1);
  msg_u32(m, 2);
  msg_u32(m, 11);
  msg_u32(m, 12);
  msg_u64(m, 3);
  msg_raw(m, "abc", 3);
  msg_u64(m, 3);
  msg_raw(m, "abc", 3);
  msg_close(m);
  record(m);
}

static void test_pieces(void** state) {
  (void)state;
  static uint8_t want[8192];
  size_t want_bytes = 0;
  static const size_t steps[] = {SIZE_MAX, 1, 2, 3, 5, 7, 64, 127, 128, 129};
  static uint8_t bytes[40000];
  record_session();
  const size_t n = replay(bytes, 4);  // after the allocations, whose addresses vary
  for (size_t i = 0; i < (sizeof steps / sizeof steps[0]); i++) {
    device_step = steps[i];
    (void)device_feed(bytes, n);
    if (i == 0U) {
      want_bytes = device_out_bytes;
      (void)memcpy(want, device_out, want_bytes);
      assert_true(want_bytes > 600U);
    }
    assert_int_equal(device_out_bytes, want_bytes);
    assert_memory_equal(device_out, want, want_bytes);
    device_out_bytes = 0;
    host_at = 0;
  }
  device_step = SIZE_MAX;
}

static uint32_t next_random(uint32_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

// Damages the recording in one to four places: a bit flipped, bytes dropped, bytes doubled, the end cut off.
static size_t damage(uint8_t* out, size_t n, uint32_t* seed) {
  for (uint32_t k = (next_random(seed) % 4U) + 1U; k != 0U; k--) {
    const size_t at = next_random(seed) % n;
    const size_t run = 1U + (next_random(seed) % 8U);
    switch (next_random(seed) % 8U) {
      case 0:
      case 1:
      case 2:
        out[at] ^= (uint8_t)(1U << (next_random(seed) % 8U));
        break;
      case 3:
      case 4:
        if ((at + run) < n) {
          (void)memmove(&out[at], &out[at + run], n - at - run);
          n -= run;
        }
        break;
      case 5:
      case 6:
        if ((at + run) < n) {
          (void)memmove(&out[at + run], &out[at], n - at);
          n += run;
        }
        break;
      default:
        n = at + 1U;
        break;
    }
  }
  return n;
}

static void test_ten_thousand_corruptions(void** state) {
  (void)state;
  static uint8_t bytes[40000];
  const char* text = getenv("SEED");
  uint32_t seed = (text != NULL) ? (uint32_t)strtoul(text, NULL, 0) : 20817U;
  print_message("corruptions: SEED=%u\n", seed);
  seed |= 1U;
  for (int round = 0; round < 10000; round++) {
    if ((round % 50) == 0) {  // the recording allocates and does not free
      record_session();
    }
    assert_true(host_start((uint8_t)(1U + (next_random(&seed) % 255U))));
    const size_t n = damage(bytes, replay(bytes, 0), &seed);
    device_step = 1U + (next_random(&seed) % 300U);
    (void)device_feed(bytes, n);
    device_step = SIZE_MAX;
    device_idle(300);
    device_out_bytes = 0;
    host_at = 0;
    if (!host_start((uint8_t)(1U + (next_random(&seed) % 255U)))) {
      fail_msg("no session after corruption %d", round);
    }
    expect_alive();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_ten_thousand_corruptions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
