// SPDX-License-Identifier: Apache-2.0
//
// Damaged and incomplete frames: which answers are sent, and when.
#define _DEFAULT_SOURCE  // mmap
#include <sys/mman.h>

#include "client.h"

// Sends a request that is valid but too short for its function: the answer is an Exception with another text than
// damage has.
static void send_alive(void) { msg_request_send(msg_request(9)); }

// Takes the device's next message; returns its code, 0 if there is none.
static int32_t next_answer(void) {
  int32_t code = 0;
  const size_t n = host_receive(host_reply);
  if (n != 0U) {
    host_reply[n] = 0;
    assert_memory_equal(host_reply, host_id, 2);
    (void)memcpy(&code, &host_reply[11], 4);
  }
  return code;
}

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
  (void)msg_request(9);
  send_alive();
  assert_int_equal(next_answer(), 5);
  assert_string_equal(host_text(), "boardsmith: damaged copy");
  assert_int_equal(host_answer(), 5);
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
  send_alive();
  assert_int_equal(next_answer(), 5);
  assert_int_equal(host_answer(), 5);
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

// ---- Every damage of one bit or byte --------------------------------------------------------------------------------

enum { EVERY_MOST = 1600, EVERY_TEXTS = 4 };

// The Exceptions of damaged requests, as boardsmith.md names them: the CRC of a request that is longer than the packet
// buffer arrives after the request was refused or its copy begun.
static const char* const every_texts[EVERY_TEXTS] = {"boardsmith: damaged request", "boardsmith: damaged copy",
                                                     "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES", OUTSIDE};

// The request to damage, and a damaged copy of it.
static struct {
  uint8_t whole[EVERY_MOST];
  size_t whole_bytes;
  uint8_t wire[EVERY_MOST];
  size_t bytes;
  uint8_t* tensor;      // that the request writes
  size_t tensor_bytes;  // 0: it writes none
  uint8_t wanted[LONG_COPY];
  char damage[64];
  size_t cases;
  size_t cut;                 // of them, those that another frame's start cuts off
  char undamaged[64];         // the text of the whole request's Exception, "" if it has none
  size_t texts[EVERY_TEXTS];  // answers with each of every_texts
  size_t missed;              // answers that count as valid, because the CRC is
  bool open;  // it ends with ff fd ff: with the next frame's ff fd these are a frame's start, until the gap has passed
} every;

// Returns whether session id and type of the damaged request arrive whole after a frame's start, by the protocol's
// rules. *cut: whether a frame with such a header is cut off by another one's start.
static bool header_arrives(bool* cut) {
  uint8_t plain[7];
  size_t n = sizeof plain + 1U;  // behind a frame's start: so many bytes of it; more: no header follows
  bool whole = false;
  bool escape = false;
  *cut = false;
  for (size_t i = 0; i < every.bytes; i++) {
    const uint8_t byte = every.wire[i];
    if (!escape) {
      escape = (byte == 0xFFU);
      if (escape) {
        continue;
      }
    } else {
      escape = false;
      if (byte == 0xFDU) {
        *cut = *cut || whole;
        n = 0;
        continue;
      }
      if (byte == 0xFFU) {
        escape = (n > sizeof plain);  // outside of a frame any of several ff may begin one
      }
      if (byte == 0xFEU) {
        continue;
      }
    }
    if (n < sizeof plain) {
      plain[n] = byte;
      if (n == 6U) {
        whole = whole || ((plain[4] == host_id[0]) && (plain[5] == host_id[1]) && (plain[6] == 0x10U));
      }
      n++;
    }
  }
  every.open = escape && (n < 4U);
  return whole;
}

// Returns whether the damaged request is a frame with a valid CRC: CRC-16 misses one in 65536 insertions.
static bool crc_valid(void) {
  size_t at = every.bytes - 1U;
  const uint8_t high = every.wire[at];
  at -= (high == 0xFFU) ? 2U : 1U;
  const uint8_t low = every.wire[at];
  at -= (low == 0xFFU) ? 1U : 0U;
  for (; at > (every.bytes - 8U); at--) {  // bytes of an insertion may follow the CRC
    const uint16_t crc = host_crc(every.wire, at);
    if ((every.wire[at] == (uint8_t)crc) && (every.wire[at + 1U] == (uint8_t)(crc >> 8))) {
      return true;
    }
  }
  return false;
}

static void every_prepare(void) {
  if (every.tensor_bytes != 0U) {
    (void)memset(every.tensor, 0x5A, every.tensor_bytes);
  }
  device_out_bytes = 0;
  host_at = 0;
}

// Checks the text of an Exception: one of four, that of the undamaged request if the damage is outside of the frame, or
// any if the CRC is valid.
static void every_check_text(void) {
  for (size_t i = 0; i < EVERY_TEXTS; i++) {
    if (strcmp(host_text(), every_texts[i]) == 0) {
      every.texts[i]++;
      return;
    }
  }
  if ((strcmp(host_text(), every.undamaged) != 0) && !crc_valid()) {
    fail_msg("%s: Exception `%s`", every.damage, host_text());
  }
}

// Checks the one answer, which was just taken, against what became of the tensor.
static void every_check_answer(int32_t code) {
  static uint8_t before[LONG_COPY];
  (void)memset(before, 0x5A, sizeof before);
  if (code == 5) {
    every_check_text();
  }
  if (every.tensor_bytes == 0U) {
    return;
  }
  const void* const tensor = every.tensor;
  if (code == 4) {
    if (memcmp(tensor, every.wanted, every.tensor_bytes) != 0) {
      every.missed++;
      if (!crc_valid()) {
        fail_msg("%s: Return, but other contents", every.damage);
      }
    }
  } else if ((code != 5) || (strcmp(host_text(), "boardsmith: damaged copy") != 0)) {
    assert_memory_equal(tensor, before, every.tensor_bytes);
  } else {
    // The answer means that the contents are unknown.
  }
}

// Checks that a short request is answered, and nothing else.
static void every_expect_next(void) {
  if ((next_answer() != 5) || (strcmp(host_text(), "short request") != 0)) {
    fail_msg("%s: the next request was lost", every.damage);
  }
  assert_int_equal(next_answer(), 0);
  device_idle(1000);
  assert_int_equal(next_answer(), 0);
}

// The damaged request alone, then another one.
static void every_case_alone(bool answered) {
  every_prepare();
  (void)device_feed(every.wire, every.bytes);
  device_idle(350);  // the gap and 100 ms
  const int32_t code = next_answer();
  if ((code != 0) != answered) {
    fail_msg("%s: answer %d", every.damage, (int)code);
  }
  every_check_answer(code);
  assert_int_equal(next_answer(), 0);
  device_idle(1000);
  assert_int_equal(next_answer(), 0);
  send_alive();
  every_expect_next();
}

// The damaged request, and at once another one.
static void every_case_followed(bool answered) {
  every_prepare();
  (void)device_feed(every.wire, every.bytes);
  send_alive();
  if (answered) {
    const int32_t code = next_answer();
    if (code == 0) {
      fail_msg("%s: no answer before the next request's", every.damage);
    }
    every_check_answer(code);
  }
  every_expect_next();
}

// The damaged request, and at once the end of the session (type 02), or the start of another (00): no answer after it.
static void every_case_ended(uint8_t type) {
  every_prepare();
  (void)device_feed(every.wire, every.bytes);
  while (next_answer() != 0) {  // before it
  }
  message_t* m = msg_begin(type);
  (void)memcpy(m->bytes, (type == 0U) ? "\x37" : "\0", 2);
  msg_raw(m, "\1", (type == 0U) ? 1U : 0U);
  msg_send(m);
  device_idle(1000);
  size_t n = host_receive(host_reply);
  if (type == 0U) {
    assert_int_equal(n, 4);
    assert_int_equal(host_reply[2], 1);
    n = host_receive(host_reply);
  }
  if (n != 0U) {
    fail_msg("%s: an answer after the session's end", every.damage);
  }
}

static void every_case(void) {
  bool cut = false;
  const bool answered = header_arrives(&cut);
  every.cases++;
  every.cut += cut ? 1U : 0U;
  every_case_alone(answered);
  if (every.open) {
    return;
  }
  every_case_followed(answered);
  if (cut) {
    every_case_ended(0x02);
    boot();
    every_case_ended(0x00);
    boot();
  }
}

static void every_flip(size_t at, unsigned bit) {
  (void)memcpy(every.wire, every.whole, every.whole_bytes);
  every.bytes = every.whole_bytes;
  every.wire[at] ^= (uint8_t)(1U << bit);
  (void)snprintf(every.damage, sizeof every.damage, "bit %u of byte %zu of %zu", bit, at, every.bytes);
  every_case();
}

static void every_loss(size_t at) {
  every.bytes = every.whole_bytes - 1U;
  (void)memcpy(every.wire, every.whole, at);
  (void)memcpy(&every.wire[at], &every.whole[at + 1U], every.bytes - at);
  (void)snprintf(every.damage, sizeof every.damage, "loss of byte %zu of %zu", at, every.whole_bytes);
  every_case();
}

static void every_insertion(size_t at, unsigned byte) {
  every.bytes = every.whole_bytes + 1U;
  (void)memcpy(every.wire, every.whole, at);
  every.wire[at] = (uint8_t)byte;
  (void)memcpy(&every.wire[at + 1U], &every.whole[at], every.whole_bytes - at);
  (void)snprintf(every.damage, sizeof every.damage, "%02x before byte %zu of %zu", byte, at, every.whole_bytes);
  every_case();
}

// Damages a request, or only its last bytes, in every way. all: inserts all 256 bytes, otherwise those with a meaning
// and the neighbours.
static void every_damage(const message_t* m, size_t last, bool all) {
  every.whole_bytes = host_frame(every.whole, m->bytes, m->size);
  (void)device_feed(every.whole, every.whole_bytes);
  const bool refused = (next_answer() == 5);
  (void)snprintf(every.undamaged, sizeof every.undamaged, "%.60s", refused ? host_text() : "");
  for (size_t at = (last < every.whole_bytes) ? (every.whole_bytes - last) : 0U; at < every.whole_bytes; at++) {
    for (unsigned bit = 0; bit < 8U; bit++) {
      every_flip(at, bit);
    }
    every_loss(at);
    for (unsigned byte = 0; byte < 256U; byte++) {
      if (all || (byte == 0U) || (byte >= 0xFDU) || (byte == every.whole[at])) {
        every_insertion(at, byte);
      }
    }
  }
}

// Makes a copy of n bytes whose contents have ff, ff fd, ff fe and runs of ff; the last bytes vary the CRC.
static message_t* every_copy(size_t n, uint32_t vary) {
  static const uint8_t special[] = {0x11, 0xFF, 0x22, 0xFF, 0xFD, 0xFF, 0xFE, 0xFF, 0xFF, 0xFF, 0xFD, 0x00,
                                    0xFF, 0xFF, 0xFF, 0xFF, 0x10, 0xFD, 0xFE, 0xFF, 0xFD, 0x00, 0x00, 0x00};
  (void)memset(every.wanted, 0x5A, sizeof every.wanted);
  for (size_t i = 0; i < n; i++) {
    every.wanted[i] = special[(i * 5U) % sizeof special];
  }
  (void)memcpy(every.wanted, special, (n < sizeof special) ? n : sizeof special);
  (void)memcpy(&every.wanted[n - 3U], &vary, 3);
  return msg_copy_to((uintptr_t)every.tensor, (int64_t)every.tensor_bytes, 0, every.wanted, n);
}

static uint16_t frame_crc(const message_t* m) {
  const size_t n = msg_wire(m);
  size_t at = n - 1U;
  const uint8_t high = host_wire[at];
  at -= (high == 0xFFU) ? 2U : 1U;
  return (uint16_t)(host_wire[at] | (high << 8));
}

// Makes such a copy with a CRC that equals crc in the bits of mask.
static message_t* every_copy_with_crc(size_t n, uint16_t crc, uint16_t mask) {
  for (uint32_t vary = 0; vary < (1U << 24); vary++) {
    message_t* const m = every_copy(n, vary);
    if (((frame_crc(m) ^ crc) & mask) == 0U) {
      return m;
    }
  }
  fail_msg("no contents have this CRC");
  return NULL;
}

static const uint16_t every_crcs[][2] = {{0x1234, 0xFFFF}, {0xFF12, 0xFFFF}, {0x12FF, 0xFFFF}, {0xFFFF, 0xFFFF},
                                         {0xFE00, 0xFF00}, {0xFDFF, 0xFFFF}, {0x7FFD, 0xFFFF}, {0xFDFE, 0xFFFF}};

static void every_end(void) {
  print_message("%zu damages, %zu cut the request off, %zu are missed by CRC-16\n", every.cases, every.cut,
                every.missed);
  assert_true(every.cut > 100U);
  assert_true(every.missed < 5U);
}

static void every_start(size_t bytes) {
  static boardsmith_window_t window;
  boot();
  every.tensor_bytes = bytes;
  every.missed = 0;
  if (every.tensor == NULL) {  // always the same address, which is in the request: CRC-16 misses some damages of others
    void* const address = (void*)0x20000000;
    every.tensor = mmap(address, LONG_COPY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_equal(every.tensor, address);
  }
  boardsmith_window_add(&window, every.tensor, bytes, 1);
}

// Each damage of a short request: one answer, or none if its header is damaged; and the next request works.
static void test_every_damage_of_short(void** state) {
  (void)state;
  static const size_t steps[] = {SIZE_MAX, 1};
  for (size_t k = 0; k < 2U; k++) {
    every_start(64);
    device_step = steps[k];
    for (size_t i = 0; i < (sizeof every_crcs / sizeof every_crcs[0]); i++) {
      every_damage(every_copy_with_crc(40, every_crcs[i][0], every_crcs[i][1]), (i == 0U) ? SIZE_MAX : 8U, k == i);
    }
    every.tensor_bytes = 0;
    static const size_t lengths[] = {5, 0, 1, 2, 17};  // 17: the length is 32 and one bit of it is damaged
    for (size_t i = 0; i < (sizeof lengths / sizeof lengths[0]); i++) {
      message_t* m = msg_request(9);
      msg_raw(m, "\1\0\0\0\v\0\0\0\5\0\0\0\0\0\0\0abcde", lengths[i]);
      msg_close(m);
      every_damage(m, SIZE_MAX, false);
    }
  }
  device_step = SIZE_MAX;
  every_end();
}

// The same for copies that are streamed into the tensor.
static void test_every_damage_of_streamed(void** state) {
  (void)state;
  every.cases = 0;
  every.cut = 0;
  (void)memset(every.texts, 0, sizeof every.texts);
  every_start(640);
  for (size_t i = 0; i < (sizeof every_crcs / sizeof every_crcs[0]); i++) {
    every_damage(every_copy_with_crc(600, every_crcs[i][0], every_crcs[i][1]), (i == 0U) ? SIZE_MAX : 8U, false);
  }
  for (size_t i = 0; i < EVERY_TEXTS; i++) {
    assert_true(every.texts[i] > 0U);
  }
  every_end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_damage_of_short), cmocka_unit_test(test_every_damage_of_streamed),
      cmocka_unit_test(test_damaged_request),       cmocka_unit_test(test_gap),
      cmocka_unit_test(test_gap_in_each_field),     cmocka_unit_test(test_noise_after_refused),
      cmocka_unit_test(test_damaged_copy),          cmocka_unit_test(test_no_clock),
      cmocka_unit_test(test_write_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
