// SPDX-License-Identifier: Apache-2.0
//
// The RPC server against every captured example, against what stops other receivers for good, and against damage.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device.h"

// ---- Captured examples --------------------------------------------------------------------------

static size_t from_hex(uint8_t* out, const char* hex) {
  size_t n = 0;
  unsigned byte = 0;
  int used = 0;
  while (sscanf(hex, " %2x%n", &byte, &used) == 1) {
    out[n++] = (uint8_t)byte;
    hex += used;
  }
  return n;
}

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

// A server that cannot start aborts with the first error that it met.
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

static void test_captured_frames(void** state) {
  (void)state;
  boot_captured();
  expect_wire("ff fd 30 00 00 00 42 83 10 25 00 00 00 00 00 00 00 09 00 00 00 01 00 00 00 0b 00 00 00 11 00 00 00 00 00 00 "
              "00 72 75 6e 74 69 6d 65 2e 53 79 73 74 65 6d 4c 69 62 5a 3c",
              "ff fd 1f 00 00 00 42 83 10 14 00 00 00 00 00 00 00 04 00 00 00 01 00 00 00 03 00 00 00 00 80 02 80 00 00 00 "
              "00 a1 56");
  TVMLogf("hi\n");
  expect_wire("", "ff fd 05 00 00 00 00 00 03 68 69 1a 8f");
  assert_int_equal(device_log_bytes, 2);
  assert_memory_equal(device_log, "hi", 2);
  // StreamSync's answer is the captured void reply, frame and all.
  expect_wire("ff fd 04 00 00 00 01 02 03 04 09 c4", "");                   // too short for a request, whole
  expect_wire("ff fd 07 00 00 00 11 22 10 ff ff 00 fe fd 0b f3", "");       // an escaped data byte, another session
  expect_wire("ff fd 04 00 00 00 11 22 10 56 ff ff 75", "");                // an escaped CRC byte
  expect_wire("ff fd 00 00 00 00 83 44", "");                               // nothing in it
  expect_wire("ff fd 03 00 00 00 00 00 02 66 77", "");                      // Terminate: the session is over
  device_sessions = 0;
  assert_true(host_start(0x42));  // the next session has the next nonce
  assert_int_equal(device_sessions, 1);
  assert_int_equal(host_id[1], (((0x83U << 5) | (0x83U >> 5)) + 1U) & 0xFFU);
}

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
  expect_packet("15 00 00 00 00 00 00 00  02 00 00 00  05 00 00 00 00 00 00 00  30 2e 38 2e 30  00 00 00 00", VOID_REPLY);
  // An exception's text is what the function left: handle 0x80008002 is `boom`.
  expect_packet("10 00 00 00 00 00 00 00  03 00 00 00  02 80 00 80 00 00 00 00  00 00 00 00",
                "18 00 00 00 00 00 00 00  05 00 00 00  01 00 00 00  0b 00 00 00  04 00 00 00 00 00 00 00  62 6f 6f 6d");
  expect_packet("00 00 00 00 00 00 00 00", "");  // an empty packet asks for nothing
}

// The examples that hold addresses of the device that was captured: the same with this one's.
static void test_captured_copies(void** state) {
  (void)state;
  uint64_t data = 0;
  boot_captured();
  message_t* m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size],
                      "38 00 00 00 00 00 00 00  0d 00 00 00  04 00 00 00  06 00 00 00 00 00 00 00 00 00 00 00 05 00 00 00"
                      "01 00 00 00 00 00 00 00  10 00 00 00 00 00 00 00  40 00 00 00 00 00 00 00  00 08 01 00 00 00 00 00");
  msg_send(m);
  assert_int_equal(host_answer(), 4);
  assert_int_not_equal(host_handle(), 0);
  m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size],
                      "38 00 00 00 00 00 00 00  11 00 00 00  02 00 00 00  07 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00 "
                      "01 00 00 00 00 00 00 00  01 00 00 00  00 08 01 00 02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00");
  msg_send(m);
  assert_int_equal(host_answer(), 4);
  assert_int_equal(host_reply[3], 0x14);
  data = host_handle();
  m = msg_begin(0x10);
  m->size += from_hex(&m->bytes[m->size],
                      "36 00 00 00 00 00 00 00  07 00 00 00 20 ec b0 2b 8b 55 00 00  01 00 00 00 00 00 00 00  01 00 00 00 "
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
  const size_t bytes = from_hex(want, "30 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 0c 00 00 00 "
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
  (void)from_hex(want, "20 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
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
  // What comes later is no frame, were it a session's start: byte by byte, then in one stretch.
  uint8_t start[16];
  const size_t start_bytes = from_hex(start, "ff fd 04 00 00 00 42 00 00 01 df 5a");
  for (size_t i = 0; i < start_bytes; i++) {
    assert_int_equal(device_feed(&start[i], 1), kTvmErrorPlatformShutdown);
  }
  assert_int_equal(device_feed(start, start_bytes), kTvmErrorPlatformShutdown);
  assert_int_equal(device_out_bytes, 0);
}

// ---- Nothing stops it ---------------------------------------------------------------------------

static void boot(void) {
  device_boot();
  assert_int_equal(host_receive(host_reply), 3);
  assert_true(host_start(0x21));
}

// Checks that a valid request is answered, once.
static void expect_alive(void) { assert_int_equal(host_global("runtime.SystemLib"), 0x80028000U); }

static void expect_exception(const char* text) {
  assert_int_equal(host_answer(), 5);
  if (strncmp(host_text(), text, strlen(text)) != 0) {
    fail_msg("exception is `%s`, want `%s`", host_text(), text);
  }
}

#define OUTSIDE "tensor outside known memory"

static void expect_silence(void) { assert_int_equal(host_answer(), 0); }

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

// Sends packed arguments: codes, then value bytes.
static void send_packed(uint32_t code, const char* codes, const char* values) {
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
  assert_int_equal(host_answer(), 5);
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

// Calls a function of the system library by its index.
static message_t* msg_call(uint32_t index) {
  message_t* m = msg_request(3);
  msg_u64(m, 0x80008000U + index);
  return m;
}

static void open_library(void) {
  message_t* m = msg_request(3);
  msg_u64(m, 0x80028000U);
  msg_u32(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
}

static void test_calls(void** state) {
  (void)state;
  boot();
  open_library();
  message_t* m = msg_call(0);
  msg_u32(m, 0);
  msg_request_send(m);
  expect_exception("add: wants three tensors");
  m = msg_call(3);
  msg_u32(m, 0);
  msg_request_send(m);
  expect_exception("unsupported type");
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

// A tensor as a host describes it.
typedef struct described {
  uint64_t data;
  uint64_t offset;
  int64_t extent[2];  // the second one only if rank is 2
  uint32_t rank;
  uint32_t type;      // code, bits, lanes
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

// An operator never sees a tensor that does not lie, with all its bytes, in one block or window.
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
      {0, 0, {0, 0}, 1, INT8},                            // without bytes, but of no block either
      {a - 1U, 0, {8, 0}, 1, INT8},
      {a - 8U, 8, {8, 0}, 1, INT8},                       // data itself lies outside
      {a + 8U, UINT64_MAX - 7U, {8, 0}, 1, INT8},         // data + byte_offset wraps to a
      {a, UINT64_MAX, {8, 0}, 1, INT8},
      {a, 1ULL << 32, {8, 0}, 1, INT8},                   // truncated to 32 bits it is 0
      {a, 0, {65, 0}, 1, INT8},
      {a + 60U, 0, {8, 0}, 1, INT8},
      {a, 60, {8, 0}, 1, INT8},
      {a + 65U, 0, {0, 0}, 1, INT8},
      {a, 0, {-1, 0}, 1, INT8},
      {a, 0, {INT64_MAX, 0}, 1, INT8},
      {a, 0, {1LL << 32, 1LL << 32}, 2, INT8},            // its product is 0 in 64 bits
      {a, 0, {1LL << 31, 2}, 2, INT8},                    // and in 32
      {a, 0, {0, 1LL << 40}, 2, INT8},
      {a, 0, {17, 0}, 1, 0x00012002U},                    // float32
      {a, 0, {1, 0}, 1, 0xFFFFFF01U},                     // 255 bits, 65535 lanes
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
  const described_t good[] = {
      {a, 0, {8, 0}, 1, INT8}, {a + 56U, 0, {8, 0}, 1, INT8}, {a, 56, {8, 0}, 1, INT8}, {w, 0, {8, 0}, 1, INT8}, {w + 56U, 0, {8, 0}, 1, INT8}};
  for (size_t i = 0; i < (sizeof good / sizeof good[0]); i++) {
    assert_int_equal(add_with(&good[i], 0, a), 4);
  }
  const described_t none = {a + 64U, 0, {0, 0}, 1, INT8};  // no bytes, at its block's end
  assert_int_equal(add_with(&none, 1, a), 5);
  assert_string_equal(host_text(), "add: wants tensors of one length");
  boardsmith_window_remove(&window);
  assert_int_equal(add_with(&good[3], 0, a), 5);
  assert_string_equal(host_text(), OUTSIDE);
}

// Copies, fills and checksums keep to the same rule, and those that write to writable windows.
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
  } cases[] = {{a, 0, true, true},      {a, 56, true, true},         {a, 57, false, false}, {a - 8U, 8, false, false},
               {w, 0, true, false},     {w, 56, true, false},        {w, 57, false, false}, {0, 0, false, false},
               {a, 1ULL << 32, false, false}};
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
  message_t* m = msg_request(16);  // into what is smaller
  msg_u32(m, 3);
  msg_u32(m, 7);
  msg_u32(m, 7);
  msg_u32(m, 3);
  msg_tensor(m, a, 8, 32, 0);
  msg_tensor(m, a, 8, 8, 40);
  msg_u64(m, 0);
  msg_request_send(m);
  expect_exception(OUTSIDE);
  m = msg_request(17);  // what is to be allocated has no address
  msg_u32(m, 2);
  msg_u32(m, 7);
  msg_u32(m, 4);
  msg_tensor(m, a, 8, 8, 0);
  msg_request_send(m);
  expect_exception("wrong arguments");
  boardsmith_window_remove(&window);
}

// An operator that takes more arguments than it was given finds zeros, not what the host has put there.
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

// The firmware is told of each call that the host makes, of one inside it not, and of its end whatever comes of it.
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

// Creates an executor of the idle model; returns its module, 0 when refused.
static uint64_t create_executor(void) {
  const uint64_t create = host_global("tvm.aot_executor.create");
  uint64_t module = 0;
  message_t* m = msg_request(3);
  msg_u64(m, create);
  msg_u32(m, 3);
  msg_u32(m, 9);
  msg_u32(m, 6);
  msg_u32(m, 11);
  msg_u64(m, 0x8000);
  msg_u64(m, 1);
  msg_u64(m, 4);
  msg_raw(m, "idle", 4);
  msg_request_send(m);
  if (host_answer() == 4) {
    (void)memcpy(&module, &host_reply[35], 8);
  }
  return module;
}

// What a host that died has left is gone with the next session; what the firmware has taken itself stays.
static void test_former_session(void** state) {
  (void)state;
  const DLDevice cpu = {kDLCPU, 0};
  const DLDataType int8 = {kDLInt, 8, 1};
  const int64_t shape[1] = {5};
  void* own = NULL;
  TVMArrayHandle array = NULL;
  TVMModuleHandle module = NULL;
  boot();
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 64, 1, int8, &own), 0);
  assert_int_equal(TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, &array), 0);
  open_library();
  const size_t live = device_allocations;
  for (int round = 0; round < 3; round++) {
    const uint64_t a = host_allocate(1000);
    assert_int_not_equal(a, 0);
    assert_int_not_equal(host_allocate(1), 0);
    const uint64_t executor = create_executor();
    assert_int_equal(executor, 0x8001);  // both slots are taken
    assert_int_equal(create_executor(), 0);
    message_t* m = msg_request(3);  // get_input(0): an array of which the host holds a reference
    msg_u64(m, 0x80018004U);
    msg_u32(m, 1);
    msg_u32(m, 0);
    msg_u64(m, 0);
    msg_request_send(m);
    assert_int_equal(host_answer(), 4);
    if (round == 1) {  // the module alone was freed
      m = msg_request(10);
      msg_u32(m, 2);
      msg_u32(m, 3);
      msg_u32(m, 0);
      msg_u64(m, executor);
      msg_u64(m, 9);
      msg_request_send(m);
      assert_int_equal(host_answer(), 4);
    }
    assert_true(device_allocations > live);
    assert_true(host_start((uint8_t)(0x21 + round)));
    assert_int_equal(device_allocations, live);
    assert_int_equal(host_copy_from(a, 1000, 0, 1000), 5);
    assert_int_equal(host_copy_from((uint64_t)(uintptr_t)own, 64, 0, 64), 8);
    assert_int_equal(host_copy_from((uint64_t)(uintptr_t)array->data, 5, 0, 5), 8);
    expect_alive();
  }
  // A module of the firmware's own stays, too.
  assert_int_equal(TVMModCreateFromCModule(&lib_module, &module), 0);
  assert_true(host_start(0x31));
  assert_int_equal(create_executor(), 0);
  assert_int_equal(TVMModFree(module), 0);
  assert_int_equal(create_executor(), 0x8001);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, own), 0);
  assert_int_equal(TVMArrayFree(array), 0);
}

static int32_t free_handle(uint64_t handle, uint64_t type) {
  message_t* m = msg_request(10);
  msg_u32(m, 2);
  msg_u32(m, 3);
  msg_u32(m, 0);
  msg_u64(m, handle);
  msg_u64(m, type);
  msg_request_send(m);
  return host_answer();
}

static int32_t free_data(uint64_t data) {
  message_t* m = msg_request(14);
  msg_u32(m, 2);
  msg_u32(m, 6);
  msg_u32(m, 3);
  msg_u64(m, 1);
  msg_u64(m, data);
  msg_request_send(m);
  return host_answer();
}

// Calls a function that returns an array; the array's data and handle go to out.
static void call_for_array(uint64_t function, uint64_t* data, uint64_t* handle) {
  message_t* m = msg_request(3);
  msg_u64(m, function);
  msg_u32(m, 1);
  msg_u32(m, 0);
  msg_u64(m, 0);
  msg_request_send(m);
  assert_int_equal(host_answer(), 4);
  assert_int_equal(host_reply[31], 13);
  (void)memcpy(data, &host_reply[39], 8);
  (void)memcpy(handle, &host_reply[79], 8);
}

// The host frees what it allocated, and gives back what it was given; the rest has another owner.
static void test_owners(void** state) {
  (void)state;
  const DLDevice cpu = {kDLCPU, 0};
  const DLDataType int8 = {kDLInt, 8, 1};
  const int64_t shape[1] = {5};
  const uint64_t get_input = 0x80018004U;
  void* own = NULL;
  uint64_t data;
  uint64_t handle;
  uint64_t again;
  boot();
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 64, 1, int8, &own), 0);
  assert_int_equal(TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, &lib_own), 0);
  open_library();
  const size_t live = device_allocations;
  // An executor's storage lives as long as the executor.
  const uint64_t executor = create_executor();
  assert_int_equal(executor, 0x8001);
  call_for_array(get_input, &data, &handle);
  assert_int_equal(free_data(data), 5);
  assert_int_equal(free_handle(handle, 13), 4);
  assert_int_equal(free_handle(handle, 13), 5);  // once too often
  assert_int_equal(free_data(data), 5);
  call_for_array(get_input, &again, &handle);
  assert_int_equal(again, data);
  msg_send(msg_copy_to(data, 16, 0, "0123456789abcdef", 16));
  assert_int_equal(host_answer(), 4);
  assert_int_equal(free_handle(executor, 9), 4);
  assert_int_equal(host_copy_from(data, 16, 0, 16), 8);  // the host still has a reference to it
  assert_int_equal(free_data(data), 5);
  assert_int_equal(free_handle(handle, 13), 4);
  assert_int_equal(host_copy_from(data, 16, 0, 16), 5);
  assert_int_equal(device_allocations, live);
  // So does an array's, with the array.
  call_for_array(0x80008005U, &data, &handle);
  assert_int_equal(free_data(data), 5);
  assert_int_equal(free_data(handle), 5);
  assert_int_equal(host_copy_from(data, 5, 0, 5), 8);
  assert_int_equal(free_handle(handle, 13), 4);
  assert_int_equal(free_handle(handle, 13), 5);
  assert_int_equal(device_allocations, live);
  // What the firmware has taken itself the host may use, and not free.
  assert_int_equal(free_data((uint64_t)(uintptr_t)own), 5);
  assert_int_equal(free_data((uint64_t)(uintptr_t)lib_own->data), 5);
  for (int i = 0; i < 3; i++) {  // a reference more, for the host, is no reference less for the firmware
    call_for_array(0x80008006U, &data, &handle);
    assert_int_equal(((TVMNDArray*)lib_own)->reference_count, 1);
    assert_int_equal(free_handle(handle, 13), 4);
    assert_int_equal(free_handle(handle, 13), 4);
    assert_int_equal(((TVMNDArray*)lib_own)->reference_count, 1);
  }
  assert_int_equal(host_copy_from(data, 5, 0, 5), 8);
  TVMModuleHandle module = NULL;
  assert_int_equal(TVMModCreateFromCModule(&lib_module, &module), 0);
  assert_int_equal(free_handle((uint64_t)(uintptr_t)module, 9), 4);  // like the system library it stays
  assert_int_equal(create_executor(), 0);
  // An address inside a block is not the block's.
  const uint64_t a = host_allocate(64);
  assert_int_equal(free_data(a + 8U), 5);
  assert_int_equal(free_data(a - 8U), 5);
  assert_int_equal(free_data(a), 4);
  assert_int_equal(free_data(a), 5);
  // The firmware may free all that is its own, and what a request of the host's has taken.
  const uint64_t b = host_allocate(64);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, (void*)(uintptr_t)b), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, lib_own->data), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMModFree(module), 0);
  assert_int_equal(TVMArrayFree(lib_own), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, own), 0);
}

// ---- Copies that stream -------------------------------------------------------------------------

enum { LONG_COPY = 4096 };

static uint8_t pattern[LONG_COPY];

static void make_pattern(void) {
  for (size_t i = 0; i < sizeof pattern; i++) {
    pattern[i] = (uint8_t)((i * 7U) ^ (i >> 5));
  }
}

static void test_stream(void** state) {
  (void)state;
  make_pattern();
  boot();
  const uint64_t a = host_allocate(LONG_COPY + 8);
  uint8_t* memory = (uint8_t*)(uintptr_t)a;
  (void)memset(memory, 0xEE, LONG_COPY + 8);
  msg_send(msg_copy_to(a, LONG_COPY + 8, 4, pattern, LONG_COPY));
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(&memory[4], pattern, LONG_COPY);
  assert_int_equal(memory[3], 0xEE);
  assert_int_equal(memory[LONG_COPY + 4], 0xEE);
  assert_int_equal(host_copy_from(a, LONG_COPY + 8, 4, LONG_COPY), 8);
  assert_memory_equal(&host_reply[15], pattern, LONG_COPY);
  expect_alive();
}

// Feeds a long message until it is answered, which has to be before its last kilobyte; then the rest, which changes nothing.
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
  make_pattern();
  boot();
  const uint64_t a = host_allocate(LONG_COPY);
  expect_refused(msg_copy_to(a, LONG_COPY, 1, pattern, LONG_COPY), OUTSIDE);
  expect_refused(msg_copy_to(a - 1U, LONG_COPY, 0, pattern, LONG_COPY), OUTSIDE);
  expect_refused(msg_copy_to(0, LONG_COPY, 0, pattern, LONG_COPY), OUTSIDE);
  expect_refused(msg_copy_to((uint64_t)(uintptr_t)own, LONG_COPY, 0, pattern, LONG_COPY),
                 OUTSIDE);
  boardsmith_window_add(&window, own, LONG_COPY, 0);  // read-only
  expect_refused(msg_copy_to((uint64_t)(uintptr_t)own, LONG_COPY, 0, pattern, LONG_COPY),
                 OUTSIDE);
  assert_int_equal(host_copy_from((uint64_t)(uintptr_t)own, LONG_COPY, 0, LONG_COPY), 8);
  boardsmith_window_add(&window, own, LONG_COPY, 1);
  msg_send(msg_copy_to((uint64_t)(uintptr_t)own, LONG_COPY, 0, pattern, LONG_COPY));
  assert_int_equal(host_answer(), 4);
  assert_memory_equal(own, pattern, LONG_COPY);
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
  expect_refused(msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY), OUTSIDE);
}

static void test_too_long(void** state) {
  (void)state;
  make_pattern();
  boot();
  message_t* m = msg_call(1);  // a call with a long string
  msg_u32(m, 1);
  msg_u32(m, 11);
  msg_u64(m, LONG_COPY);
  msg_raw(m, pattern, LONG_COPY);
  msg_close(m);
  expect_refused(m, "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  m = msg_copy_to(0, 1, 0, pattern, LONG_COPY);  // a copy whose two lengths differ
  m->bytes[3] ^= 1U;
  expect_refused(m, "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  const uint64_t a = host_allocate(LONG_COPY);
  m = msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY);
  m->bytes[55] ^= 1U;  // its count of bytes
  expect_refused(m, OUTSIDE);
  m = msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY);
  (void)memset(&m->bytes[31], 0x7F, 4);  // its rank
  expect_refused(m, OUTSIDE);
  m = msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY);
  m->bytes[0] ^= 1U;  // another session's: passed over in silence
  msg_send(m);
  expect_silence();
  // A damaged length field makes a request endless: it is refused at once, and what follows is not waited for.
  m = msg_request(15);
  msg_u32(m, 0);
  msg_close(m);
  const size_t n = msg_wire(m);
  host_wire[5] = 0x40;
  (void)device_feed(host_wire, n);
  expect_exception("message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  expect_alive();
}

// ---- Damage -------------------------------------------------------------------------------------

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
  for (size_t i = 6; i < 9U; i++) {  // in the header: nobody's
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
      expect_silence();
    } else {
      expect_exception("boardsmith: damaged request");
    }
    (void)device_feed(&host_wire[cut], n - cut);  // too late
    device_idle(400);
    expect_silence();
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

// A pause in each place, bytes that come one by one: as long as none is too long the request is healthy, however long
// it takes.
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

static void test_damaged_copy(void** state) {
  (void)state;
  make_pattern();
  boot();
  const uint64_t a = host_allocate(LONG_COPY);
  message_t* m = msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY);
  const size_t n = msg_wire(m);
  host_wire[1000] ^= 0x01U;
  (void)device_feed(host_wire, n);
  expect_exception("boardsmith: damaged copy");
  expect_alive();
  m = msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY);
  (void)msg_wire(m);
  (void)device_feed(host_wire, 1000);  // it stops in the middle
  device_idle(400);
  expect_exception("boardsmith: damaged copy");
  device_idle(400);
  expect_silence();
  m = msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY);
  (void)msg_wire(m);
  (void)device_feed(host_wire, 1000);  // it is cut off by the next frame
  expect_alive();
  msg_send(msg_copy_to(a, LONG_COPY, 0, pattern, LONG_COPY));
  assert_int_equal(host_answer(), 4);
  assert_memory_equal((void*)(uintptr_t)a, pattern, LONG_COPY);
}

// Without a clock a frame that stops is given up when the next one begins.
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

// The device's link fails at every write once: nothing is torn, the next session works and begins with a nop.
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

// ---- A session, whole and in pieces, and then ten thousand times damaged --------------------------

// All that the host says in one session, message by message.
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

// Opens a session and records all that the host says in it: look-ups, allocations, short and long copies, calls.
static void record_session(void) {
  make_pattern();
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
    // What the session works on stays over all that follow: it is the firmware's own.
    const DLDevice cpu = {kDLCPU, 0};
    const DLDataType int8 = {kDLInt, 8, 1};
    void* own = NULL;
    assert_int_equal(TVMDeviceAllocDataSpace(cpu, 600, 1, int8, &own), 0);
    t[i] = (uint64_t)(uintptr_t)own;
  }
  record(msg_copy_to(t[0], 600, 0, pattern, 200));
  record(msg_copy_to(t[1], 600, 0, pattern, 600));
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
  const size_t n = replay(bytes, 4);  // behind the allocations, whose addresses differ from time to time
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
      cmocka_unit_test(test_captured_frames),
      cmocka_unit_test(test_no_start),
      cmocka_unit_test(test_captured_requests),
      cmocka_unit_test(test_captured_copies),
      cmocka_unit_test(test_captured_timer),
      cmocka_unit_test(test_captured_packet_size),
      cmocka_unit_test(test_shutdown),
      cmocka_unit_test(test_strange_messages),
      cmocka_unit_test(test_other_sessions),
      cmocka_unit_test(test_strange_requests),
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_tensors_of_calls),
      cmocka_unit_test(test_tensors_of_requests),
      cmocka_unit_test(test_unused_values),
      cmocka_unit_test(test_owners),
      cmocka_unit_test(test_call_hooks),
      cmocka_unit_test(test_yield),
      cmocka_unit_test(test_former_session),
      cmocka_unit_test(test_stream),
      cmocka_unit_test(test_stream_outside),
      cmocka_unit_test(test_too_long),
      cmocka_unit_test(test_damaged_request),
      cmocka_unit_test(test_gap),
      cmocka_unit_test(test_gap_in_each_field),
      cmocka_unit_test(test_damaged_copy),
      cmocka_unit_test(test_no_clock),
      cmocka_unit_test(test_write_failures),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_ten_thousand_corruptions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
