// SPDX-License-Identifier: Apache-2.0
//
// The RPC server against every captured example.
#include "client.h"

// Feeds one hex text and expects the device to write another, byte for byte.
static void expect_wire(const char* in, const char* want) {
  uint8_t bytes[256];
  uint8_t answer[256];
  (void)device_feed(bytes, from_hex(bytes, in));
  const size_t n = from_hex(answer, want);
  assert_int_equal(device_out_bytes, n);
  assert_memory_equal(device_out, answer, n);
  device_out_bytes = 0;
}

// The same for one request and its reply, of which only the RPC packets are given.
static void expect_packet(const char* in, const char* want) {
  uint8_t answer[256];
  message_t* m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size], in);
  msg_send(m);
  const size_t n = from_hex(answer, want);
  const size_t got = host_receive(host_reply);
  assert_int_equal(got, (n == 0U) ? 0U : (n + 3U));
  if (n != 0U) {
    assert_memory_equal(&host_reply[3], answer, n);
  }
  assert_int_equal(host_receive(host_reply), 0);
}

#define TERMINATE "fe ff fd 03 00 00 00 00 00 02 66 77"
#define VOID_REPLY "0c 00 00 00 00 00 00 00 04 00 00 00 01 00 00 00 04 00 00 00"

static void boot_captured(void) {
  uint8_t want[16];
  device_random = 0x44;
  device_boot();
  const size_t n = from_hex(want, TERMINATE);
  assert_int_equal(device_out_bytes, n);
  assert_memory_equal(device_out, want, n);
  device_out_bytes = 0;
  expect_wire(TERMINATE, "");
  expect_wire("ff fd 04 00 00 00 42 00 00 01 df 5a", "ff fd 04 00 00 00 42 83 01 01 e4 0b");
  host_id[0] = 0x42;
  host_id[1] = 0x83;
}

// Starts a server and returns the code that it aborts with; 0: it starts.
static int start_aborts(void) {
  static jmp_buf aborted;
  device_abort_to = &aborted;
  const int code = setjmp(aborted);
  if (code == 0) {
    (void)MicroTVMRpcServerInit(device_write, NULL);
  }
  device_abort_to = NULL;
  return code;
}

// A server that cannot start aborts with the first error.
static void test_no_start(void** state) {
  (void)state;
  static const struct {
    size_t memory;
    tvm_crt_error_t random, want;
  } cases[] = {
      {0, kTvmErrorNoError, kTvmErrorPlatformNoMemory},
      {SIZE_MAX, kTvmErrorFunctionCallNotImplemented, kTvmErrorFunctionCallNotImplemented},
      {0, kTvmErrorFunctionCallNotImplemented, kTvmErrorPlatformNoMemory},
  };
  for (size_t i = 0; i < (sizeof cases / sizeof cases[0]); i++) {
    device_boot();
    device_memory_left = cases[i].memory;
    device_random_error = cases[i].random;
    const int code = start_aborts();
    device_random_error = kTvmErrorNoError;
    assert_int_equal(code, cases[i].want);
  }
}

// Before its first session a server answers no request, not even of the session 0 with the type 0.
static void test_no_session(void** state) {
  (void)state;
  device_boot();
  host_at = device_out_bytes;
  (void)memset(host_id, 0, sizeof host_id);
  for (unsigned type = 0; type <= 0x10U; type += 0x10U) {
    message_t* m = msg_begin((uint8_t)type);
    msg_u64(m, 4);
    msg_u32(m, 9);
    msg_send(m);
    expect_silence();
  }
}

static void test_captured_frames(void** state) {
  (void)state;
  boot_captured();
  expect_wire(
      "ff fd 30 00 00 00 42 83 10 25 00 00 00 00 00 00 00 09 00 00 00 01 00 00 00 0b 00 00 00 11 00 00 00 00 00 00 "
      "00 72 75 6e 74 69 6d 65 2e 53 79 73 74 65 6d 4c 69 62 5a 3c",
      "ff fd 1f 00 00 00 42 83 10 14 00 00 00 00 00 00 00 04 00 00 00 01 00 00 00 03 00 00 00 00 80 02 80 00 00 00 "
      "00 a1 56");
  TVMLogf("hi\n");
  expect_wire("", "ff fd 05 00 00 00 00 00 03 68 69 1a 8f");
  assert_int_equal(device_log_bytes, 2);
  assert_memory_equal(device_log, "hi", 2);
  TVMLogf("%d and %s%c", -12, "more", '\n');
  assert_int_equal(device_log_bytes, 12);
  assert_memory_equal(device_log, "-12 and more", 12);
  device_out_bytes = 0;
  // StreamSync's answer is the captured void reply, frame and all.
  expect_wire("ff fd 04 00 00 00 01 02 03 04 09 c4", "");              // too short for a request, whole
  expect_wire("ff fd 07 00 00 00 11 22 10 ff ff 00 fe fd 0b f3", "");  // an escaped data byte, another session
  expect_wire("ff fd 04 00 00 00 11 22 10 56 ff ff 75", "");           // an escaped CRC byte
  expect_wire("ff fd 00 00 00 00 83 44", "");                          // nothing in it
  expect_wire("ff fd 03 00 00 00 00 00 02 66 77", "");                 // Terminate: the session is over
  device_sessions = 0;
  assert_true(host_start(0x42));  // the next session has the next nonce
  assert_int_equal(device_sessions, 1);
  assert_int_equal(host_id[1], (((0x83U << 5) | (0x83U >> 5)) + 1U) & 0xFFU);
}

// clang-format off
static void test_captured_requests(void** state) {
  (void)state;
  boot_captured();
  // SystemLib() and ModuleGetFunction(mod, "add", 1), then one that is not there.
  expect_packet("10 00 00 00 00 00 00 00  03 00 00 00  00 80 02 80 00 00 00 00  00 00 00 00",
                "20 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 03 00 00 00"
                "09 00 00 00 00 00 00 00  00 80 00 00 00 00 00 00");
  expect_packet("37 00 00 00 00 00 00 00  03 00 00 00  01 80 02 80 00 00 00 00  03 00 00 00 "
                "09 00 00 00 0b 00 00 00 00 00 00 00  00 80 00 00 00 00 00 00"
                "03 00 00 00 00 00 00 00 61 64 64  01 00 00 00 00 00 00 00",
                "20 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 03 00 00 00 "
                "0a 00 00 00 00 00 00 00  00 80 00 80 00 00 00 00");
  expect_packet("37 00 00 00 00 00 00 00  03 00 00 00  01 80 02 80 00 00 00 00  03 00 00 00 "
                "09 00 00 00 0b 00 00 00 00 00 00 00  00 80 00 00 00 00 00 00"
                "03 00 00 00 00 00 00 00 61 64 65  01 00 00 00 00 00 00 00",
                "18 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 04 00 00 00  04 00 00 00 00 00 00 00");
  expect_packet("20 00 00 00 00 00 00 00  0a 00 00 00  02 00 00 00  03 00 00 00 00 00 00 00  00 80 00 80 00 00 00 00 "
                "0a 00 00 00 00 00 00 00",
                VOID_REPLY);
  expect_packet("20 00 00 00 00 00 00 00  0f 00 00 00  02 00 00 00  06 00 00 00 03 00 00 00  01 00 00 00 00 00 00 00 "
                "00 00 00 00 00 00 00 00",
                VOID_REPLY);
  expect_packet("15 00 00 00 00 00 00 00  02 00 00 00  05 00 00 00 00 00 00 00  30 2e 38 2e 30  "
                "00 00 00 00", VOID_REPLY);
  // The exception has the function's last-error text: handle 0x80008002 is `boom`.
  expect_packet("10 00 00 00 00 00 00 00  03 00 00 00  02 80 00 80 00 00 00 00  00 00 00 00",
                "18 00 00 00 00 00 00 00  05 00 00 00  01 00 00 00  0b 00 00 00  04 00 00 00 00 00 00 00  62 6f 6f 6d");
  expect_packet("00 00 00 00 00 00 00 00", "");  // an empty packet has no answer
}

// The examples with addresses of the captured device, with the addresses of this one.
static void test_captured_copies(void** state) {
  (void)state;
  uint64_t data = 0;
  boot_captured();
  message_t* m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size],
                      "38 00 00 00 00 00 00 00  0d 00 00 00  04 00 00 00  "
                      "06 00 00 00 00 00 00 00 00 00 00 00 05 00 00 00"
                      "01 00 00 00 00 00 00 00  10 00 00 00 00 00 00 00  40 00 00 00 00 00 00 00  "
                      "00 08 01 00 00 00 00 00");
  msg_send(m);
  assert_int_equal(host_answer(), 4);
  assert_int_not_equal(host_handle(), 0);
  m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size],
                      "38 00 00 00 00 00 00 00  11 00 00 00  02 00 00 00  "
                      "07 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00 "
                      "01 00 00 00 00 00 00 00  01 00 00 00  00 08 01 00 02 00 00 00 00 00 00 00  "
                      "00 00 00 00 00 00 00 00");
  msg_send(m);
  assert_int_equal(host_answer(), 4);
  assert_int_equal(host_reply[3], 0x14);
  data = host_handle();
  m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size],
                      "36 00 00 00 00 00 00 00  07 00 00 00 20 ec b0 2b 8b 55 00 00  "
                      "01 00 00 00 00 00 00 00  01 00 00 00 "
                      "00 08 01 00 02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00  02 ff");
  (void)memcpy(&m->bytes[15], &data, 8);
  const size_t n = msg_wire(m);
  assert_memory_equal(&host_wire[n - 5U], "\x02\xff\xff", 3);  // the tensor's ff travels as two
  (void)device_feed(host_wire, n);
  uint8_t want[64];
  const size_t reply = from_hex(want, "ff fd 17 00 00 00 42 83 10 " VOID_REPLY " 26 07");
  assert_int_equal(device_out_bytes, reply);
  assert_memory_equal(device_out, want, reply);
  assert_int_equal(host_answer(), 4);
  assert_memory_equal((void*)(uintptr_t)data, "\x02\xff", 2);
  ((uint8_t*)(uintptr_t)data)[0] = 6;
  ((uint8_t*)(uintptr_t)data)[1] = 3;
  assert_int_equal(host_copy_from(data, 2, 0, 2), 8);
  assert_memory_equal(&host_reply[3], "\x06\0\0\0\0\0\0\0\x08\0\0\0\x06\x03", 14);
}
// clang-format on

static void test_captured_timer(void** state) {
  (void)state;
  boot_captured();
  message_t* m = msg_request(3);
  static const uint32_t codes[12] = {9, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11};
  static const uint64_t numbers[9] = {1, 0, 1, 2, 0, 100, 0, 1, 0};
  msg_u64(m, 0x80028000U);
  msg_u32(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  const uint64_t evaluator = host_global("runtime.RPCTimeEvaluator");
  assert_int_equal(evaluator, 0x80028002U);
  m = msg_request(3);
  msg_u64(m, evaluator);
  msg_u32(m, 12);
  msg_raw(m, codes, sizeof codes);
  msg_u64(m, 0x8000);
  msg_u64(m, 4);
  msg_raw(m, "echo", 4);
  msg_raw(m, numbers, sizeof numbers);
  msg_u64(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  uint64_t timer;
  (void)memcpy(&timer, &host_reply[35], 8);
  assert_int_equal(timer, 0xFFFF8001U);
  m = msg_request(3);
  msg_u64(m, timer);
  msg_u32(m, 0);
  msg_close(m);
  // The handle's ff bytes are escaped on the wire.
  static const uint8_t escaped[] = {0x01, 0x80, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};
  const size_t n = msg_wire(m);
  assert_memory_equal(&host_wire[6 + 3 + 12], escaped, sizeof escaped);
  (void)device_feed(host_wire, n);
  assert_int_equal(host_answer(), 4);
  uint8_t want[64];
  const size_t bytes = from_hex(want,
                                "30 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 0c 00 00 00 "
                                "0c 00 00 00 00 00 00 00  10 00 00 00 00 00 00 00");
  assert_memory_equal(&host_reply[3], want, bytes);
  double seconds[2];
  (void)memcpy(seconds, &host_reply[3 + bytes], sizeof seconds);
  assert_true((seconds[0] == 0.5) && (seconds[1] == 0.5));
}

static void test_captured_packet_size(void** state) {
  (void)state;
  boot_captured();
  const uint64_t f = host_global("tvm.rpc.server.GetCRTMaxPacketSize");
  message_t* m = msg_request(3);
  msg_u64(m, f);
  msg_u32(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  uint8_t want[64];
  (void)from_hex(want,
                 "20 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
  assert_memory_equal(&host_reply[3], want, 32);
  uint64_t size;
  (void)memcpy(&size, &host_reply[35], 8);
  assert_int_equal(size, TVM_CRT_MAX_PACKET_SIZE_BYTES - 11);
}

static void test_shutdown(void** state) {
  (void)state;
  uint8_t bytes[32];
  boot_captured();
  message_t* m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size], "04 00 00 00 00 00 00 00  01 00 00 00");
  const size_t n = msg_wire(m);
  assert_int_equal(device_feed(host_wire, n), kTvmErrorPlatformShutdown);
  assert_int_equal(device_out_bytes, 0);
  assert_int_equal(device_feed(bytes, from_hex(bytes, TERMINATE)), kTvmErrorPlatformShutdown);
  assert_int_equal(device_out_bytes, 0);
  // After Shutdown nothing is a frame, not even a session's start: byte by byte, then at once.
  uint8_t start[16];
  const size_t start_bytes = from_hex(start, "ff fd 04 00 00 00 42 00 00 01 df 5a");
  for (size_t i = 0; i < start_bytes; i++) {
    assert_int_equal(device_feed(&start[i], 1), kTvmErrorPlatformShutdown);
  }
  assert_int_equal(device_feed(start, start_bytes), kTvmErrorPlatformShutdown);
  assert_int_equal(device_out_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_captured_frames),   cmocka_unit_test(test_no_start),
      cmocka_unit_test(test_captured_requests), cmocka_unit_test(test_captured_copies),
      cmocka_unit_test(test_captured_timer),    cmocka_unit_test(test_captured_packet_size),
      cmocka_unit_test(test_shutdown),          cmocka_unit_test(test_no_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
