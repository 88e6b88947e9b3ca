// SPDX-License-Identifier: Apache-2.0
//
// An image without a model and with only the required platform functions.
#include "platform.h"
#include "timer.h"

static void test_no_system_library(void** state) {
  (void)state;
  TVMValue r;
  int rc;
  platform_reset();
  assert_int_equal(call_global("runtime.SystemLib", NULL, NULL, 0, &r, &rc), kTvmErrorFunctionNameNotFound);
  assert_string_equal(TVMGetLastError(), "no system library");
}

static void test_defaults(void** state) {
  (void)state;
  uint8_t byte = 7;
  assert_int_equal(TVMPlatformBeforeMeasurement(), kTvmErrorNoError);
  assert_int_equal(TVMPlatformAfterMeasurement(), kTvmErrorNoError);
  assert_int_equal(TVMPlatformGenerateRandom(&byte, 1), kTvmErrorFunctionCallNotImplemented);
  assert_int_equal(byte, 7);
  assert_int_equal(boardsmith_now_ms(), 0);
  TVMPlatformYield();
  boardsmith_call_begins(NULL);
  boardsmith_call_ends();
  boardsmith_session_begins();
  boardsmith_logged("", 0);
}

// Without a source of random bytes a tensor cannot be filled.
static void test_no_random(void** state) {
  (void)state;
  int64_t shape[1] = {4};
  DLTensor t = {NULL, cpu, 1, int8, shape, NULL, 0};
  TVMValue arg = {.v_handle = &t};
  TVMValue r;
  int code = kTVMDLTensorHandle;
  int rc;
  platform_reset();
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 4, 1, int8, &t.data), 0);
  assert_int_equal(call_global("tvm.contrib.random.random_fill", &arg, &code, 1, &r, &rc),
                   kTvmErrorFunctionCallNotImplemented);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, t.data), 0);
}

// No registered functions and no table of the firmware: only the six built-in functions.
static void test_globals(void** state) {
  (void)state;
  TVMValue r;
  int rc;
  platform_reset();
  assert_int_equal(TVMFuncCall((void*)(uintptr_t)0x80028006U, NULL, NULL, 0, &r, &rc), -1);
  assert_string_equal(TVMGetLastError(), "invalid handle: 80028006");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_system_library),
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_no_random),
      cmocka_unit_test(test_globals),
  };
  return cmocka_run_group_tests_name("bare", tests, NULL, NULL);
}
