// SPDX-License-Identifier: Apache-2.0
//
// The runtime's double arithmetic against this computer's.
#include "platform.h"
#include "runtime/double.h"
#include "timer.h"

static uint64_t state = 88172645463325252U;

// Any 64 bits, the same ones in each run (xorshift).
static uint64_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static uint64_t bits_of(double x) {
  uint64_t bits;
  (void)memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double double_of(uint64_t bits) {
  double x;
  (void)memcpy(&x, &bits, sizeof x);
  return x;
}

static void check_quotient(uint64_t a, uint64_t b) {
  const double want = double_of(a) / double_of(b);
  const uint64_t got = boardsmith_double_quotient(a, b);
  if ((want != want) ? (got != 0x7ff8000000000000U) : (got != bits_of(want))) {
    fail_msg("%016llx / %016llx: got %016llx, want %016llx", (unsigned long long)a, (unsigned long long)b,
             (unsigned long long)got, (unsigned long long)bits_of(want));
  }
}

// Zeros, the limits of the denormal, normal and infinite ranges, numbers next to powers of two, NaNs: all pairs, of
// both signs.
static void test_edges(void** unused) {
  (void)unused;
  static const uint64_t edges[] = {
      0,
      1,
      2,
      3,
      0x0007ffffffffffffU,
      0x0008000000000000U,
      0x000fffffffffffffU,
      0x0010000000000000U,
      0x0010000000000001U,
      0x001fffffffffffffU,
      0x0020000000000000U,
      0x3fe0000000000000U,
      0x3fefffffffffffffU,
      0x3ff0000000000000U,
      0x3ff0000000000001U,
      0x3fffffffffffffffU,
      0x4000000000000000U,
      0x4008000000000000U,
      0x7fdfffffffffffffU,
      0x7fe0000000000000U,
      0x7fefffffffffffffU,
      0x7ff0000000000000U,
      0x7ff0000000000001U,
      0x7ff8000000000000U,
      0x7fffffffffffffffU,
  };
  enum { COUNT = sizeof edges / sizeof edges[0] };
  const uint64_t minus = (uint64_t)1 << 63;
  for (int i = 0; i < COUNT; i++) {
    for (int j = 0; j < COUNT; j++) {
      check_quotient(edges[i], edges[j]);
      check_quotient(edges[i] | minus, edges[j]);
      check_quotient(edges[i], edges[j] | minus);
      check_quotient(edges[i] | minus, edges[j] | minus);
    }
  }
}

// Random bits; then numbers close to each other, with few bits, and with quotients at both ends of the range.
static void test_quotients(void** unused) {
  (void)unused;
  const uint64_t fraction = ((uint64_t)1 << 52) - 1U;
  for (int i = 0; i < 50000; i++) {
    const uint64_t a = any();
    const uint64_t b = any();
    check_quotient(a, b);
    check_quotient((a & fraction) | 0x3ff0000000000000U, (b & fraction) | 0x3ff0000000000000U);
    check_quotient(bits_of((double)(a >> 40)), bits_of((double)(b >> 50)));
    check_quotient((a & fraction) | 0x0020000000000000U, (b & fraction) | ((b >> 55) << 52) | 0x3ff0000000000000U);
    check_quotient(a & fraction, (b & fraction) | 0x3fe0000000000000U);
    check_quotient((a & fraction) | 0x7fe0000000000000U, (b & fraction) | 0x3fe0000000000000U);
    check_quotient(a, a + (b & 3U));
  }
}

static void test_numbers(void** unused) {
  (void)unused;
  assert_true(boardsmith_double_of(0) == 0U);
  for (int i = 0; i < 50000; i++) {
    const uint64_t n = any() >> (any() & 63U);
    const uint64_t tie = ((n | 1U) << 11) | 0x400U;
    assert_true(boardsmith_double_of(n) == bits_of((double)n));
    assert_true(boardsmith_double_of(tie) == bits_of((double)tie));
    assert_true(boardsmith_double_of(~n) == bits_of((double)~n));
    assert_true(boardsmith_double_of((uint64_t)1 << (n & 63U)) == bits_of((double)((uint64_t)1 << (n & 63U))));
  }
}

static void test_seconds(void** unused) {
  (void)unused;
  assert_true(boardsmith_seconds(0, 1000) == 0.0);
  assert_true(boardsmith_seconds(25000000, 25000000) == 1.0);
  assert_true(boardsmith_seconds(22, 7) == 22.0 / 7.0);
  assert_true(boardsmith_seconds(UINT64_MAX, UINT32_MAX) == (double)UINT64_MAX / (double)UINT32_MAX);
  assert_true(boardsmith_quotient(-1.0, 3.0) == -1.0 / 3.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_quotients),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_seconds),
  };
  (void)platform_reset;
  (void)call_global;
  return cmocka_run_group_tests_name("double", tests, NULL, NULL);
}
