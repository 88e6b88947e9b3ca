// SPDX-License-Identifier: Apache-2.0
//
// The part of printf that log lines and errors use.
#include "platform.h"
#include "timer.h"

static char text[64];

// Formats into all of text, or into size bytes.
static size_t format_into(size_t size, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)memset(text, '#', sizeof text);
  const size_t n = boardsmith_vformat(text, size, fmt, args);
  va_end(args);
  return n;
}

#define EXPECT(want, ...)                                                  \
  do {                                                                     \
    assert_int_equal(format_into(sizeof text, __VA_ARGS__), strlen(want)); \
    assert_string_equal(text, want);                                       \
  } while (0)

static void test_conversions(void** state) {
  (void)state;
  EXPECT("", "%s", "");
  EXPECT("a b % 100%", "%s %c %% %u%%", "a", 'b', 100U);
  EXPECT("-2147483648 2147483647 4294967295", "%d %i %u", INT32_MIN, INT32_MAX, UINT32_MAX);
  EXPECT("0 ff ffffffff", "%x %x %x", 0U, 0xffU, UINT32_MAX);
  EXPECT("-1 1 ffffffffffffffff", "%ld %lu %llx", -1L, 1UL, UINT64_MAX);
  EXPECT("-9223372036854775808 18446744073709551615", "%lld %llu", INT64_MIN, UINT64_MAX);
  EXPECT("12 3", "%zu %d", (size_t)12, 3);
  EXPECT("1234", "%p", (void*)(uintptr_t)0x1234U);
}

static void test_widths(void** state) {
  (void)state;
  EXPECT("    x|   -3|0000000c|-03", "%5s|%5d|%08x|%03d", "x", -3, 12U, -3);
  EXPECT("long", "%2s", "long");
  EXPECT("00000000000000000007", "%020d", 7);
}

static void test_room(void** state) {
  (void)state;
  for (size_t size = 1; size < 9U; size++) {
    assert_int_equal(format_into(size, "%s%d", "abc", 1234), (size > 8U) ? 7U : (size - 1U));
    assert_memory_equal(text, "abc1234", size - 1U);
    assert_int_equal(text[size - 1U], '\0');
    assert_int_equal(text[size], '#');
  }
  assert_int_equal(format_into(0, "%s", "abc"), 0);
  assert_int_equal(text[0], '#');
}

// From an unknown conversion on, the format is printed unchanged.
static void test_unknown_conversion(void** state) {
  (void)state;
  EXPECT("1 %3:d %s", "%d %3:d %s", 1, 2, "three");
  EXPECT("1 %f %d %s", "%d %f %d %s", 1, 2.5, 3, "four");
  EXPECT("%.2f ms in %s", "%.2f ms in %s", 2.5, "conv");
  EXPECT("%-5s|%d", "%-5s|%d", "x", 1);
  EXPECT("%hhd %s", "%hhd %s", 1, "x");
  EXPECT("%*d %s", "%*d %s", 5, 1, "x");
  EXPECT("7%", "%d%", 7);
  EXPECT("7%05", "%d%05", 7);
  EXPECT("7%ll", "%d%ll", 7);
}

static void test_null(void** state) {
  (void)state;
  EXPECT("(null)  (null) 5", "%s %7s %d", (const char*)NULL, (const char*)NULL, 5);
  platform_reset();
  TVMAPISetLastError(NULL);
  assert_string_equal(TVMGetLastError(), "(null)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conversions),        cmocka_unit_test(test_widths), cmocka_unit_test(test_room),
      cmocka_unit_test(test_unknown_conversion), cmocka_unit_test(test_null),
  };
  (void)int8;
  (void)call_global;
  return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
