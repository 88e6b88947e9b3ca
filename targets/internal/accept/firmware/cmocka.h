// SPDX-License-Identifier: Apache-2.0
//
// What the runtime's unit tests need of cmocka and of the C library, on a board: no output, no heap, no processes.
#ifndef ACCEPT_CMOCKA_H_
#define ACCEPT_CMOCKA_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The line of the first assertion that was wrong; 0: none. The tests go on after it.
extern int32_t unit_wrong_line;

void unit_check(int right, int32_t line);

// A first-fit heap of its own.
void* unit_malloc(size_t bytes);
void unit_free(void* p);

// As snprintf, of %s, %u and %08x.
int unit_print(char* text, size_t bytes, const char* format, ...);

#define assert_true(c) unit_check((c) ? 1 : 0, __LINE__)
#define assert_int_equal(a, b) unit_check((uintmax_t)(a) == (uintmax_t)(b), __LINE__)
#define assert_int_not_equal(a, b) unit_check((uintmax_t)(a) != (uintmax_t)(b), __LINE__)
#define assert_in_range(a, low, high) \
  unit_check(((uintmax_t)(a) >= (uintmax_t)(low)) && ((uintmax_t)(a) <= (uintmax_t)(high)), __LINE__)
#define assert_null(p) unit_check((p) == NULL, __LINE__)
#define assert_non_null(p) unit_check((p) != NULL, __LINE__)
#define assert_ptr_equal(a, b) unit_check((const void*)(a) == (const void*)(b), __LINE__)
#define assert_ptr_not_equal(a, b) unit_check((const void*)(a) != (const void*)(b), __LINE__)
#define assert_memory_equal(a, b, n) unit_check(memcmp((a), (b), (n)) == 0, __LINE__)
#define assert_string_equal(a, b) unit_check(strcmp((a), (b)) == 0, __LINE__)

struct CMUnitTest {
  void (*run)(void** state);
};
#define cmocka_unit_test(f) {f}
#define cmocka_run_group_tests(tests, before, after) unit_run((tests), sizeof(tests) / sizeof((tests)[0]))
#define cmocka_run_group_tests_name(name, tests, before, after) cmocka_run_group_tests(tests, before, after)

static inline int unit_run(const struct CMUnitTest* tests, size_t count) {
  for (size_t i = 0; i < count; i++) {
    void* state = NULL;
    tests[i].run(&state);
  }
  return 0;
}

#define malloc unit_malloc
#define free unit_free
#define snprintf unit_print
#define fprintf(...) 0
#define print_error(...) ((void)0)
#define fail_msg(...) unit_check(0, __LINE__)
#define abort() unit_check(0, __LINE__)

#endif  // ACCEPT_CMOCKA_H_
