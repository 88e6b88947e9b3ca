// SPDX-License-Identifier: Apache-2.0
//
// Random contents for tensors: what a tuner measures with.
#include "runtime.h"

// How an element's two upper bytes become a float with 0.5 <= |x| < 1: the exponent's bits are
// cleared, then set to that of 0.5. Sign and mantissa stay random.
typedef struct float_format {
  uint8_t code;
  uint8_t bits;
  uint8_t keep[2];  // little-endian
  uint8_t set[2];
} float_format_t;

static const float_format_t float_formats[] = {
    {kDLFloat, 16, {0xff, 0x83}, {0x00, 0x38}},
    {kDLFloat, 32, {0x7f, 0x80}, {0x00, 0x3f}},
    {kDLFloat, 64, {0x0f, 0x80}, {0xe0, 0x3f}},
    {kDLBfloat, 16, {0x7f, 0x80}, {0x00, 0x3f}},
};

// Returns the type's format, or NULL.
static const float_format_t* float_format(DLDataType dtype) {
  for (size_t i = 0; i < (sizeof float_formats / sizeof float_formats[0]); i++) {
    if ((float_formats[i].code == dtype.code) && (float_formats[i].bits == dtype.bits)) {
      return &float_formats[i];
    }
  }
  return NULL;
}

static int fill(const DLTensor* t, uint8_t* data, size_t bytes) {
  const int is_bool = (t->dtype.code == (uint8_t)kDLUInt) && (t->dtype.bits == 1U);
  const float_format_t* format = float_format(t->dtype);
  const int is_int = (t->dtype.code <= (uint8_t)kDLUInt) && ((t->dtype.bits & 7U) == 0U);
  const size_t step = t->dtype.bits / 8U;
  if ((is_bool == 0) && (is_int == 0) && (format == NULL)) {
    return boardsmith_fail((int)kTvmErrorFunctionCallInvalidArg, "random_fill: unsupported type");
  }
  const int error = (int)TVMPlatformGenerateRandom(data, bytes);
  if (error != 0) {
    return error;
  }
  if (is_bool != 0) {
    for (size_t i = 0; i < bytes; i++) {
      data[i] &= 1U;
    }
  }
  if (format != NULL) {
    for (size_t end = step; end <= bytes; end += step) {
      data[end - 2U] = (uint8_t)((data[end - 2U] & format->keep[0]) | format->set[0]);
      data[end - 1U] = (uint8_t)((data[end - 1U] & format->keep[1]) | format->set[1]);
    }
  }
  return 0;
}

int TVMNDArray_RandomFill(TVMNDArray* arr) {
  const DLTensor* t = &arr->dl_tensor;
  return fill(t, &((uint8_t*)t->data)[t->byte_offset], (size_t)TVMNDArray_DataSizeBytes(arr));
}

int boardsmith_random_fill(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value,
                           int* out_type, void* resource_handle) {
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  if (num_args != 1) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  if ((type_codes[0] != (int)kTVMDLTensorHandle) && (type_codes[0] != (int)kTVMNDArrayHandle)) {
    return (int)kTvmErrorFunctionCallWrongArgType;
  }
  const DLTensor* t = args[0].v_handle;
  uint8_t* data = &((uint8_t*)t->data)[t->byte_offset];
  size_t bytes;
  const int error = boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes);
  if (error != 0) {
    return error;
  }
  // The address came from the host.
  if (boardsmith_memory_known(data, bytes, 1) == 0) {
    return boardsmith_fail((int)kTvmErrorFunctionCallInvalidArg, "random_fill: unknown memory");
  }
  return fill(t, data, bytes);
}
