// SPDX-License-Identifier: Apache-2.0
//
// runtime.RPCTimeEvaluator, with a simulated timer.
#include <math.h>

#include "platform.h"
#include "timer.h"

static int before_calls, after_calls, yields;
static int before_error, after_error;
static int called;        // calls of the timed function
static int fail_at = -1;  // the call with this number fails
static double per_call;   // seconds one takes

tvm_crt_error_t TVMPlatformBeforeMeasurement(void) {
  assert_int_equal(timer.running, 0);
  before_calls++;
  return (tvm_crt_error_t)before_error;
}
tvm_crt_error_t TVMPlatformAfterMeasurement(void) {
  assert_int_equal(timer.running, 0);
  after_calls++;
  return (tvm_crt_error_t)after_error;
}
void TVMPlatformYield(void) {
  assert_int_equal(timer.running, 0);
  yields++;
}

static int begins, ends;
static TVMFunctionHandle running;  // NULL: none
void boardsmith_call_begins(TVMFunctionHandle f) {
  assert_null(running);
  running = f;
  begins++;
}
void boardsmith_call_ends(void) {
  assert_non_null(running);
  running = NULL;
  ends++;
}

static int returns;  // the type of what timed returns

static int timed(TVMValue* a, int* c, int n, TVMValue* r, int* rc, void* h) {
  (void)h;
  assert_int_equal(n, 2);
  assert_int_equal(a[1].v_int64, 5);
  assert_int_equal(c[0], kTVMOpaqueHandle);
  assert_null(r->v_handle);
  assert_int_equal(*rc, kTVMNullptr);
  *rc = returns;
  r->v_int64 = 1;
  if (returns == kTVMBytes) {
    TVMByteArray* bytes = NULL;
    assert_int_equal(TVMPlatformMemoryAllocate(sizeof *bytes, cpu, (void**)&bytes), 0);
    assert_int_equal(TVMPlatformMemoryAllocate(4, cpu, (void**)&bytes->data), 0);
    bytes->size = 4;
    r->v_handle = bytes;
  }
  if (returns == kTVMNDArrayHandle) {
    const int64_t shape[1] = {4};
    assert_int_equal(TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, (TVMArrayHandle*)&r->v_handle), 0);
  }
  timer.now += per_call;
  return (called++ == fail_at) ? 0x4711 : 0;
}

static const TVMBackendPackedCFunc funcs[] = {timed};
static const TVMFuncRegistry registry = {"\001\000timed\000", funcs};
static const TVMModule lib = {&registry};
const TVMModule* TVMSystemLibEntryPoint(void) { return &lib; }

static TVMValue args[12];
static int codes[12];

static void start(int number, int repeat, int min_repeat_ms, int zero_limit) {
  TVMModuleHandle m;
  platform_reset();
  (void)memset(&timer, 0, sizeof timer);
  timer.now = 100;
  before_calls = 0;
  after_calls = 0;
  yields = 0;
  before_error = 0;
  after_error = 0;
  called = 0;
  begins = 0;
  ends = 0;
  running = NULL;
  fail_at = -1;
  per_call = 0;
  returns = kTVMArgInt;
  (void)memset(args, 0, sizeof args);
  (void)memset(codes, 0, sizeof codes);
  assert_int_equal(TVMModCreateFromCModule(&lib, &m), 0);
  args[0].v_handle = m;
  codes[0] = kTVMModuleHandle;
  args[1].v_str = "timed";
  codes[1] = kTVMStr;
  args[2].v_int64 = 1;
  args[4].v_int64 = number;
  args[5].v_int64 = repeat;
  args[6].v_int64 = min_repeat_ms;
  args[7].v_int64 = zero_limit;
  args[9].v_int64 = 1;
  args[11].v_str = "";
  codes[11] = kTVMStr;
}

static int create(int n, TVMFunctionHandle* out) {
  TVMValue r;
  int rc;
  const int error = call_global("runtime.RPCTimeEvaluator", args, codes, n, &r, &rc);
  if (error == 0) {
    assert_int_equal(rc, kTVMPackedFuncHandle);
    *out = r.v_handle;
  } else {
    assert_int_equal(rc, kTVMNullptr);
  }
  return error;
}

// Calls the evaluator; the results go to out, which has room for them.
static int evaluate(TVMFunctionHandle f, double* out, size_t count) {
  TVMValue values[2] = {{.v_handle = NULL}, {.v_int64 = 5}};
  int value_codes[2] = {kTVMOpaqueHandle, kTVMArgInt};
  TVMValue r;
  int rc;
  const int live = platform_memory.count;
  const int error = TVMFuncCall(f, values, value_codes, 2, &r, &rc);
  if (error == 0) {
    TVMByteArray* bytes = r.v_handle;
    assert_int_equal(rc, kTVMBytes);
    assert_int_equal(bytes->size, count * sizeof(double));
    for (size_t i = 0; i < count; i++) {
      out[i] = ((const double*)(const void*)bytes->data)[i];
    }
    assert_int_equal(TVMByteArrayFree(bytes), 0);
  } else {
    assert_int_equal(rc, kTVMNullptr);
  }
  assert_int_equal(platform_memory.count, live);
  assert_int_equal(timer.running, 0);
  assert_int_equal(timer.starts, timer.stops + ((timer.start_error != 0) ? 1 : 0));
  return error;
}

static void test_plain(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[3];
  start(10, 3, 0, 100);
  assert_int_equal(create(12, &f), 0);
  per_call = 0.25;
  assert_int_equal(evaluate(f, out, 3), 0);
  assert_int_equal(called, 31);  // one to warm up
  assert_int_equal(before_calls, 3);
  assert_int_equal(after_calls, 3);
  assert_int_equal(yields, 3);
  for (int i = 0; i < 3; i++) {
    assert_true(out[i] == 0.25);
  }
}

static void test_handles(void** state) {
  (void)state;
  TVMFunctionHandle first;
  TVMFunctionHandle second;
  double out[1];
  start(1, 1, 0, 0);
  assert_int_equal(create(12, &first), 0);
  start(1, 1, 0, 0);
  assert_int_equal(create(12, &second), 0);
  assert_int_equal((uintptr_t)first >> 16, 0xffff);
  assert_int_equal((uintptr_t)first & 0x8000U, 0x8000);
  assert_int_equal((uintptr_t)second, (uintptr_t)first + 1U);
  assert_int_equal(evaluate(first, out, 1), kTvmErrorTimeEvaluatorBadHandle);
  assert_int_equal(evaluate(second, out, 1), 0);
  assert_int_equal(evaluate((void*)((uintptr_t)second + 1U), out, 1), kTvmErrorTimeEvaluatorBadHandle);
  assert_int_equal(evaluate((void*)(uintptr_t)0xffff8000U, out, 1), kTvmErrorTimeEvaluatorBadHandle);
}

// A failed creation keeps the existing evaluator.
static void test_bad_arguments(void** state) {
  (void)state;
  TVMFunctionHandle f;
  TVMFunctionHandle good;
  double out[1];
  start(1, 1, 0, 0);
  assert_int_equal(create(12, &good), 0);
  for (int n = 0; n < 12; n++) {
    assert_int_equal(create(n, &f), kTvmErrorFunctionCallNumArguments);
  }
  for (int i = 0; i < 12; i++) {
    const int right = codes[i];
    codes[i] = kTVMOpaqueHandle;
    assert_int_equal(create(12, &f), kTvmErrorFunctionCallWrongArgType);
    codes[i] = kTVMNullptr;
    assert_int_equal(create(12, &f), kTvmErrorFunctionCallWrongArgType);
    codes[i] = right;
  }
  args[1].v_str = "absent";
  assert_int_equal(create(12, &f), kTvmErrorFunctionNameNotFound);
  args[1].v_str = "timed";
  args[0].v_handle = NULL;
  assert_int_not_equal(create(12, &f), 0);
  args[0].v_handle = (void*)(uintptr_t)0x8000U;
  static const int64_t bad[] = {0, -1, INT64_MIN, -(1LL << 31)};
  for (size_t i = 0; i < 4U; i++) {
    args[4].v_int64 = bad[i];
    assert_int_equal(create(12, &f), kTvmErrorFunctionCallInvalidArg);
  }
  args[4].v_int64 = 1;
  args[5].v_int64 = -1;
  assert_int_equal(create(12, &f), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(evaluate(good, out, 1), 0);
}

// The hooks report the evaluator, which the host called, not the calls that it makes.
static void test_call_hooks(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[2];
  start(3, 2, 0, 0);
  assert_int_equal(create(12, &f), 0);
  begins = 0;
  ends = 0;
  assert_int_equal(evaluate(f, out, 2), 0);
  assert_int_equal(begins, 1);
  assert_int_equal(ends, 1);
  fail_at = 9;
  assert_int_equal(evaluate(f, out, 2), 0x4711);
  assert_int_equal(begins, 2);
  assert_int_equal(ends, 2);
}

static void test_no_repeats(void** state) {
  (void)state;
  TVMFunctionHandle f;
  start(1, 0, 0, 0);
  assert_int_equal(create(12, &f), 0);
  assert_int_equal(evaluate(f, NULL, 0), 0);
  assert_int_equal(called, 1);
}

// number grows to the estimate of the first batch, or by the golden ratio, and keeps that value.
static void test_min_repeat(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[2];
  start(10, 2, 100, 100);
  assert_int_equal(create(12, &f), 0);
  per_call = 1.0 / 1024;  // 10 take 9.8 ms; 0.1 * 1024 + 1 = 103.4
  assert_int_equal(evaluate(f, out, 2), 0);
  assert_int_equal(called, 1 + 10 + 103 + 103);
  assert_true((out[0] == 1.0 / 1024) && (out[1] == 1.0 / 1024));

  start(100, 1, 100, 100);
  assert_int_equal(create(12, &f), 0);
  per_call = 1.0 / 1024;  // 97.7 ms: 103.4 are wanted, 161.8 is the golden ratio
  assert_int_equal(evaluate(f, out, 1), 0);
  assert_int_equal(called, 1 + 100 + 161);
}

// The golden ratio exactly as a double multiplies: trunc(number * 1.618).
static void test_golden_ratio(void** state) {
  (void)state;
  for (int number = 1; number < 3000; number += 7) {
    TVMFunctionHandle f;
    double out[1];
    start(number, 1, 1000, 100);
    assert_int_equal(create(12, &f), 0);
    per_call = 0.999 / number;
    assert_int_equal(evaluate(f, out, 1), 0);
    const int wanted = (int)((1.0 / (0.999 / number)) + 1.0);
    const int golden = (int)(number * 1.618);
    // The batch's time is a sum: its last bits do not matter here.
    assert_in_range(called - 1 - number, (wanted > golden) ? wanted - 1 : golden, (wanted > golden) ? wanted : golden);
  }
}

// A time of 0 is accepted after this number of batches.
static void test_zero_time(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[2] = {1, 1};
  start(2, 2, 10, 5);
  assert_int_equal(create(12, &f), 0);
  assert_int_equal(evaluate(f, out, 2), 0);
  assert_int_equal(called, 1 + (2 * 5 * 2));
  assert_true((out[0] == 0) && (out[1] == 0));

  start(2, 1, 10, 0);
  assert_int_equal(create(12, &f), 0);
  assert_int_equal(evaluate(f, out, 1), 0);
  assert_int_equal(called, 1 + 2);

  start(2, 1, 0, 100);  // no minimum time
  assert_int_equal(create(12, &f), 0);
  assert_int_equal(evaluate(f, out, 1), 0);
  assert_int_equal(called, 1 + 2);
}

static void test_function_fails(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[2];
  for (int i = 0; i < 5; i++) {
    start(2, 2, 0, 100);
    assert_int_equal(create(12, &f), 0);
    fail_at = i;
    assert_int_equal(evaluate(f, out, 2), 0x4711);
    assert_int_equal(called, i + 1);
    assert_int_equal(before_calls, after_calls);
  }
}

static void test_platform_fails(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[1];
  start(1, 1, 0, 100);
  assert_int_equal(create(12, &f), 0);
  before_error = 0x11;
  assert_int_equal(evaluate(f, out, 1), 0x11);
  assert_int_equal(after_calls, 0);
  before_error = 0;
  timer.start_error = 0x12;
  assert_int_equal(evaluate(f, out, 1), 0x12);
  assert_int_equal(after_calls, 1);
  timer.start_error = 0;
  timer.starts = timer.stops;
  timer.stop_error = 0x13;
  assert_int_equal(evaluate(f, out, 1), 0x13);
  timer.stop_error = 0;
  after_error = 0x14;
  assert_int_equal(evaluate(f, out, 1), 0x14);
  after_error = 0;
  platform_memory.fail_at = platform_memory.taken;
  assert_int_equal(evaluate(f, out, 1), kTvmErrorPlatformNoMemory);
  assert_int_equal(evaluate(f, out, 1), 0);
}

// The first of several errors is returned, not a combination.
static void test_errors_in_a_row(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[1];
  start(1, 1, 0, 100);
  assert_int_equal(create(12, &f), 0);
  after_error = 0x24;
  timer.stop_error = 0x13;
  assert_int_equal(evaluate(f, out, 1), 0x13);
  called = 0;
  fail_at = 1;  // behind the warm-up
  assert_int_equal(evaluate(f, out, 1), 0x4711);
  timer.start_error = 0x18;
  assert_int_equal(evaluate(f, out, 1), 0x18);
}

// Invalid times are passed on, and measured only once.
static void test_broken_timer(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[1];
  const double bad[] = {-1.0, (double)NAN, (double)INFINITY, -(double)INFINITY};
  for (size_t i = 0; i < 4U; i++) {
    start(1, 1, 10, 100);
    assert_int_equal(create(12, &f), 0);
    per_call = bad[i];
    assert_int_equal(evaluate(f, out, 1), 0);
    assert_int_equal(before_calls, 1);
    assert_true(!(out[0] >= 0) || isinf(out[0]));
  }
}

static void test_tiny_times(void** state) {
  (void)state;
  // The estimate of the first batch exceeds an int; the second batch fails.
  TVMFunctionHandle f;
  double out[1];
  start(1, 1, 1000, 100);
  assert_int_equal(create(12, &f), 0);
  timer.now = 0;
  per_call = 5e-324;
  fail_at = 100;
  assert_int_equal(evaluate(f, out, 1), 0x4711);
}

static void test_too_many_repeats(void** state) {
  (void)state;
  TVMFunctionHandle f;
  start(1, 1 << 27, 0, 100);
  assert_int_equal(create(12, &f), kTvmErrorFunctionCallInvalidArg);
  start(1, (1 << 27) - 1, 0, 100);
  assert_int_equal(create(12, &f), 0);
  assert_int_equal(evaluate(f, NULL, 0), kTvmErrorPlatformNoMemory);
  assert_int_equal(called, 0);
}

// The results of the timed function are freed.
static void test_results_freed(void** state) {
  (void)state;
  static const int types[] = {kTVMBytes, kTVMNDArrayHandle};
  TVMFunctionHandle f;
  double out[2];
  for (size_t i = 0; i < 2U; i++) {
    start(3, 2, 0, 100);
    assert_int_equal(create(12, &f), 0);
    returns = types[i];
    assert_int_equal(evaluate(f, out, 2), 0);  // compares live allocations
    assert_int_equal(called, 7);
  }
}

// The module is gone when the evaluator is called.
static void test_module_freed(void** state) {
  (void)state;
  TVMFunctionHandle f;
  double out[1];
  start(1, 1, 0, 100);
  assert_int_equal(create(12, &f), 0);
  assert_int_equal(TVMModFree(args[0].v_handle), 0);
  assert_int_equal(evaluate(f, out, 1), -1);
  assert_string_equal(TVMGetLastError(), "invalid handle: 80008000");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),          cmocka_unit_test(test_handles),
      cmocka_unit_test(test_bad_arguments),  cmocka_unit_test(test_no_repeats),
      cmocka_unit_test(test_min_repeat),     cmocka_unit_test(test_golden_ratio),
      cmocka_unit_test(test_zero_time),      cmocka_unit_test(test_function_fails),
      cmocka_unit_test(test_platform_fails), cmocka_unit_test(test_broken_timer),
      cmocka_unit_test(test_tiny_times),     cmocka_unit_test(test_too_many_repeats),
      cmocka_unit_test(test_module_freed),   cmocka_unit_test(test_call_hooks),
      cmocka_unit_test(test_results_freed),  cmocka_unit_test(test_errors_in_a_row),
  };
  (void)int8;
  return cmocka_run_group_tests_name("time evaluator", tests, NULL, NULL);
}
