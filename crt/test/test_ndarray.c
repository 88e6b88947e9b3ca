// SPDX-License-Identifier: Apache-2.0
//
// Arrays, their references, the sizes of tensors, copies, random contents.
#include <math.h>

#include "platform.h"
#include "timer.h"

static uint32_t random_state = 1;
static int random_error;

tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* out, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    random_state = (random_state * 1664525U) + 1013904223U;
    out[i] = (uint8_t)(random_state >> 24);
  }
  return (tvm_crt_error_t)random_error;
}

static const DLDataType float32 = {kDLFloat, 32, 1};

static void test_tensor_bytes(void** state) {
  (void)state;
  const int64_t shape[] = {2, 3, 4};
  const int64_t zero[] = {2, 0, 4};
  const int64_t negative[] = {2, -1};
  const int64_t overflow[] = {INT64_MAX, 2};
  const int64_t wraps[] = {1LL << 32, 1LL << 32};
  const DLDataType boolean = {kDLUInt, 1, 1};
  const DLDataType int4x3 = {kDLInt, 4, 3};
  const DLDataType widest = {kDLInt, 255, 65535};
  size_t bytes = 77;
  assert_int_equal(boardsmith_tensor_bytes(3, shape, float32, &bytes), 0);
  assert_int_equal(bytes, 96);
  assert_int_equal(boardsmith_tensor_bytes(0, NULL, float32, &bytes), 0);
  assert_int_equal(bytes, 4);
  assert_int_equal(boardsmith_tensor_bytes(3, zero, float32, &bytes), 0);
  assert_int_equal(bytes, 0);
  assert_int_equal(boardsmith_tensor_bytes(1, shape, boolean, &bytes), 0);
  assert_int_equal(bytes, 2);
  assert_int_equal(boardsmith_tensor_bytes(1, shape, int4x3, &bytes), 0);
  assert_int_equal(bytes, 4);
  assert_int_equal(boardsmith_tensor_bytes(1, shape, widest, &bytes), 0);
  assert_int_equal(bytes, 2U * (((255U * 65535U) + 7U) / 8U));
  bytes = 77;
  assert_int_equal(boardsmith_tensor_bytes(2, negative, int8, &bytes), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(boardsmith_tensor_bytes(2, overflow, int8, &bytes), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(boardsmith_tensor_bytes(2, wraps, int8, &bytes), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(boardsmith_tensor_bytes(1, overflow, float32, &bytes), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(boardsmith_tensor_bytes(-1, shape, int8, &bytes), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(boardsmith_tensor_bytes(INT32_MIN, shape, int8, &bytes), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(bytes, 77);
}

// There is no limit on the rank.
static void test_high_rank(void** state) {
  (void)state;
  int64_t shape[200];
  TVMNDArray a;
  for (size_t i = 0; i < 200U; i++) {
    shape[i] = (i == 100U) ? 3 : 1;
  }
  platform_reset();
  assert_int_equal(TVMNDArray_Empty(200, shape, int8, cpu, &a), 0);
  assert_int_equal(a.dl_tensor.shape[100], 3);
  assert_int_equal(TVMNDArray_DataSizeBytes(&a), 3);
  assert_int_equal(TVMNDArray_Release(&a), 0);
}

static void test_empty(void** state) {
  (void)state;
  int64_t shape[2] = {3, 5};
  TVMNDArray a;
  platform_reset();
  (void)memset(&a, 0x55, sizeof a);
  assert_int_equal(TVMNDArray_Empty(2, shape, int8, cpu, &a), 0);
  shape[0] = 99;  // the shape was copied
  assert_int_equal(a.dl_tensor.ndim, 2);
  assert_int_equal(a.dl_tensor.shape[0], 3);
  assert_int_equal(a.dl_tensor.shape[1], 5);
  assert_null(a.dl_tensor.strides);
  assert_int_equal(a.dl_tensor.byte_offset, 0);
  assert_int_equal(a.dl_tensor.device.device_type, kDLCPU);
  assert_int_equal(a.dl_tensor.dtype.bits, 8);
  assert_int_equal(a.reference_count, 1);
  for (int i = 0; i < 15; i++) {
    assert_int_equal(((uint8_t*)a.dl_tensor.data)[i], 0);
  }
  assert_int_equal(boardsmith_memory_known(a.dl_tensor.data, 15, 1), 1);
  assert_int_equal(boardsmith_memory_known(a.dl_tensor.data, 16, 0), 0);  // the shape is not the host's
  assert_int_equal(boardsmith_memory_known(a.dl_tensor.shape, 8, 0), 0);
  assert_int_equal((uintptr_t)a.dl_tensor.shape % 8U, 0);
  TVMNDArray_IncrementReference(&a);
  assert_int_equal(TVMNDArray_DecrementReference(&a), 1);
  assert_int_equal(TVMNDArray_DecrementReference(&a), 0);
  assert_int_equal(TVMNDArray_DecrementReference(&a), 0);
  assert_int_equal(TVMNDArray_Release(&a), 0);
  assert_int_equal(platform_memory.count, 0);

  // A scalar, and one whose data a user replaced by a buffer of their own.
  uint8_t mine[4];
  assert_int_equal(TVMNDArray_Empty(0, NULL, float32, cpu, &a), 0);
  assert_int_equal(TVMNDArray_DataSizeBytes(&a), 4);
  a.dl_tensor.data = mine;
  assert_int_equal(TVMNDArray_Release(&a), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_create_and_view(void** state) {
  (void)state;
  const int64_t shape[2] = {4, 6};
  const int64_t flat[1] = {24};
  const int64_t larger[1] = {25};
  TVMNDArray a;
  TVMNDArray view;
  platform_reset();
  assert_int_equal(TVMNDArray_Create(2, shape, int8, cpu, &a), 0);
  assert_null(a.dl_tensor.data);
  assert_int_equal(a.dl_tensor.shape[1], 6);
  assert_int_equal(TVMNDArray_Release(&a), 0);

  assert_int_equal(TVMNDArray_Empty(2, shape, int8, cpu, &a), 0);
  assert_int_equal(TVMNDArray_CreateView(&a, larger, 1, int8, &view), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMNDArray_CreateView(&a, flat, 1, int8, &view), 0);
  assert_ptr_equal(view.dl_tensor.data, a.dl_tensor.data);
  assert_int_equal(view.dl_tensor.ndim, 1);
  assert_int_equal(TVMNDArray_Release(&view), 0);  // the data stays
  assert_int_equal(boardsmith_memory_known(a.dl_tensor.data, 24, 1), 1);
  assert_int_equal(TVMNDArray_Release(&a), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_array_handles(void** state) {
  (void)state;
  const int64_t shape[2] = {3, 5};
  TVMArrayHandle h = NULL;
  TVMArrayHandle other = NULL;
  platform_reset();
  assert_int_equal(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &h), 0);
  assert_int_equal(TVMArrayAlloc(shape, 2, kDLInt, 8, 1, kDLCPU, 0, &other), 0);
  assert_int_equal(h->dtype.bits, 32);
  assert_int_equal(boardsmith_memory_known(h->data, 60, 1), 1);
  assert_int_equal(boardsmith_memory_known(h, 1, 0), 0);  // the array itself is not the host's
  TVMNDArray_IncrementReference((TVMNDArray*)h);
  assert_int_equal(TVMArrayFree(h), 0);
  assert_int_equal(boardsmith_memory_known(h->data, 60, 1), 1);
  assert_int_equal(TVMArrayFree(h), 0);
  assert_int_equal(platform_memory.count, 2);
  assert_int_equal(TVMArrayFree(h), kTvmErrorFunctionCallInvalidArg);  // twice
  assert_int_equal(TVMArrayFree(NULL), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMArrayFree((TVMArrayHandle)(void*)((uint8_t*)other + 8)), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMArrayFree(other->data), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, other), kTvmErrorFunctionCallInvalidArg);  // not memory
  assert_int_equal(TVMArrayFree(other), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_array_failures(void** state) {
  (void)state;
  const int64_t shape[2] = {3, 5};
  const int64_t bad[1] = {-3};
  TVMArrayHandle h = NULL;
  platform_reset();
  for (int i = 0; i < 2; i++) {
    platform_memory.taken = 0;
    platform_memory.fail_at = i;
    assert_int_equal(TVMArrayAlloc(shape, 2, kDLInt, 8, 1, kDLCPU, 0, &h), kTvmErrorPlatformNoMemory);
    assert_int_equal(platform_memory.count, 0);
  }
  platform_memory.fail_at = -1;
  assert_int_equal(TVMArrayAlloc(bad, 1, kDLInt, 8, 1, kDLCPU, 0, &h), kTvmErrorFunctionCallInvalidArg);
  assert_null(h);
  assert_int_equal(platform_memory.count, 0);
}

static void test_copy(void** state) {
  (void)state;
  int64_t four[1] = {4};
  int64_t two[1] = {2};
  int64_t stride[1] = {1};
  const DLDataType int16 = {kDLInt, 16, 1};
  uint8_t from_data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  uint8_t to_data[8] = {0};
  DLTensor from = {from_data, cpu, 1, int8, four, NULL, 3};
  DLTensor to = {to_data, cpu, 1, int16, two, NULL, 1};
  assert_int_equal(TVMDeviceCopyDataFromTo(&from, &to, NULL), 0);
  const uint8_t want[8] = {0, 3, 4, 5, 6, 0, 0, 0};
  assert_memory_equal(to_data, want, 8);
  to.dtype.bits = 8;
  assert_int_equal(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorFunctionCallInvalidArg);
  to.dtype.bits = 16;
  to.strides = stride;
  assert_int_equal(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorFunctionCallInvalidArg);
  to.strides = NULL;
  to.ndim = -1;
  assert_int_equal(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorFunctionCallInvalidArg);
  assert_memory_equal(to_data, want, 8);
}

// ---- random_fill --------------------------------------------------------------------------------

static int fill(DLTensor* t) {
  TVMValue arg = {.v_handle = t};
  TVMValue r;
  int code = kTVMDLTensorHandle;
  int rc;
  return call_global("tvm.contrib.random.random_fill", &arg, &code, 1, &r, &rc);
}

// The value of a half or a bfloat16.
static double small_float(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = 1.0 + ((bits & ((1 << mantissa_bits) - 1)) / (double)(1 << mantissa_bits));
  assert_int_not_equal(exponent, 0);
  return ldexp(mantissa, exponent - ((1 << (exponent_bits - 1)) - 1)) * (((bits >> 15) != 0) ? -1.0 : 1.0);
}

static void check_spread(double least, double most, double sum, int n) {
  assert_true((least >= -2.0) && (most < 2.0));
  assert_true((least < -1.5) && (most > 1.5));  // of both signs
  assert_true(fabs(sum / n) < 0.4);
}

static void test_random_floats(void** state) {
  (void)state;
  static const struct {
    uint8_t code, bits;
  } types[] = {{kDLFloat, 16}, {kDLFloat, 32}, {kDLFloat, 64}, {kDLBfloat, 16}};
  int64_t shape[1] = {500};
  for (size_t i = 0; i < 4U; i++) {
    DLTensor t = {NULL, cpu, 1, {types[i].code, types[i].bits, 1}, shape, NULL, 0};
    double least = 9;
    double most = -9;
    double sum = 0;
    platform_reset();
    assert_int_equal(TVMDeviceAllocDataSpace(cpu, 4000, 1, int8, &t.data), 0);
    assert_int_equal(fill(&t), 0);
    for (int k = 0; k < 500; k++) {
      double v;
      if (types[i].bits == 64U) {
        v = ((double*)t.data)[k];
      } else if (types[i].bits == 32U) {
        v = (double)((float*)t.data)[k];
      } else {
        v = small_float(((uint16_t*)t.data)[k], (types[i].code == kDLFloat) ? 5 : 8);
      }
      assert_true(fabs(v) >= 1.0);
      least = fmin(least, v);
      most = fmax(most, v);
      sum += v;
    }
    check_spread(least, most, sum, 500);
  }
}

static void test_random_integers(void** state) {
  (void)state;
  static const struct {
    uint8_t code, bits;
    int bytes;
  } types[] = {{kDLInt, 8, 1}, {kDLUInt, 8, 1}, {kDLInt, 16, 2}, {kDLInt, 32, 4}, {kDLUInt, 64, 8}};
  int64_t shape[1] = {64};
  for (size_t i = 0; i < 5U; i++) {
    DLTensor t = {NULL, cpu, 1, {types[i].code, types[i].bits, 1}, shape, NULL, 8};
    uint8_t seen = 0;
    platform_reset();
    assert_int_equal(TVMDeviceAllocDataSpace(cpu, 8U + (64U * 8U), 1, int8, &t.data), 0);
    uint8_t* bytes = t.data;
    (void)memset(bytes, 0, 8U + (64U * 8U));
    assert_int_equal(fill(&t), 0);
    for (int k = 0; k < 8; k++) {
      assert_int_equal(bytes[k], 0);  // what lies before the tensor
    }
    for (int k = 0; k < (64 * types[i].bytes); k++) {
      seen |= bytes[8 + k];
    }
    assert_int_equal(seen, 0xff);
    for (int k = 64 * types[i].bytes; k < (64 * 8); k++) {
      assert_int_equal(bytes[8 + k], 0);  // and behind it
    }
  }
}

static void test_random_bool(void** state) {
  (void)state;
  static const DLDataType types[] = {{kDLUInt, 1, 1}, {kDLBool, 8, 1}};
  int64_t shape[1] = {100};
  for (size_t i = 0; i < 2U; i++) {
    DLTensor t = {NULL, cpu, 1, types[i], shape, NULL, 0};
    int ones = 0;
    platform_reset();
    assert_int_equal(TVMDeviceAllocDataSpace(cpu, 100, 1, int8, &t.data), 0);
    assert_int_equal(fill(&t), 0);
    for (int k = 0; k < 100; k++) {
      assert_in_range(((uint8_t*)t.data)[k], 0, 1);
      ones += ((uint8_t*)t.data)[k];
    }
    assert_in_range(ones, 20, 80);
  }
}

static void test_random_refused(void** state) {
  (void)state;
  int64_t shape[1] = {10};
  uint8_t mine[10] = {0};
  boardsmith_window_t w;
  DLTensor t = {mine, cpu, 1, int8, shape, NULL, 0};
  TVMValue arg = {.v_handle = &t};
  TVMValue r;
  int code = kTVMStr;
  int rc;
  platform_reset();
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);  // unknown memory
  boardsmith_window_add(&w, mine, 10, 0);
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);  // not writable
  boardsmith_window_add(&w, mine, 10, 1);
  assert_int_equal(fill(&t), 0);
  t.byte_offset = 1;
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);  // one byte beyond
  t.byte_offset = UINT64_MAX;
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);
  t.byte_offset = 0;
  t.dtype = (DLDataType){kDLInt, 4, 2};
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);
  t.dtype = (DLDataType){kDLOpaqueHandle, 8, 1};
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);
  t.dtype = (DLDataType){kDLFloat, 8, 1};
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);
  t.dtype = (DLDataType){kDLInt, 0, 1};
  assert_int_equal(fill(&t), 0);  // no bits, no bytes
  t.dtype = int8;
  shape[0] = 0;
  assert_int_equal(fill(&t), 0);
  shape[0] = -1;
  assert_int_equal(fill(&t), kTvmErrorFunctionCallInvalidArg);
  shape[0] = 10;
  random_error = kTvmErrorFunctionCallNotImplemented;
  assert_int_equal(fill(&t), kTvmErrorFunctionCallNotImplemented);
  random_error = 0;
  assert_int_equal(call_global("tvm.contrib.random.random_fill", &arg, &code, 0, &r, &rc),
                   kTvmErrorFunctionCallNumArguments);
  assert_int_equal(call_global("tvm.contrib.random.random_fill", &arg, &code, 1, &r, &rc),
                   kTvmErrorFunctionCallWrongArgType);
  TVMNDArray array = {t, 1};
  (void)memset(mine, 0, sizeof mine);
  assert_int_equal(TVMNDArray_RandomFill(&array), 0);
  array.dl_tensor.dtype.code = kDLComplex;
  assert_int_equal(TVMNDArray_RandomFill(&array), kTvmErrorFunctionCallInvalidArg);
  boardsmith_window_remove(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensor_bytes),
      cmocka_unit_test(test_high_rank),
      cmocka_unit_test(test_empty),
      cmocka_unit_test(test_create_and_view),
      cmocka_unit_test(test_array_handles),
      cmocka_unit_test(test_array_failures),
      cmocka_unit_test(test_copy),
      cmocka_unit_test(test_random_floats),
      cmocka_unit_test(test_random_integers),
      cmocka_unit_test(test_random_bool),
      cmocka_unit_test(test_random_refused),
  };
  return cmocka_run_group_tests_name("ndarray", tests, NULL, NULL);
}
