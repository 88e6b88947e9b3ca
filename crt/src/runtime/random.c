// SPDX-License-Identifier: Apache-2.0
//
// Random contents for tensors: what a tuner measures with.
#include <string.h>

#include "runtime.h"

// What becomes of the upper 16 bits of a float's elements: all of the exponent but its highest bit is set, so that
// 1 <= |x| < 2; sign and mantissa stay random.
typedef struct float_type {
  uint8_t code;
  uint8_t bits;
  uint16_t keep;
  uint16_t set;
} float_type_t;

static const float_type_t float_types[] = {
    {kDLFloat, 16, 0x83ff, 0x3c00},
    {kDLFloat, 32, 0x807f, 0x3f80},
    {kDLFloat, 64, 0x800f, 0x3ff0},
    {kDLBfloat, 16, 0x807f, 0x3f80},
};

ONCE static const float_type_t* float_type(DLDataType dtype) {
  for (size_t i = 0; i < (sizeof float_types / sizeof float_types[0]); i++) {
    if ((float_types[i].code == dtype.code) && (float_types[i].bits == dtype.bits)) {
      return &float_types[i];
    }
  }
  return NULL;
}

// Fills the tensor's memory, bytes from data on: integers of whole bytes, bool, floats.
static int fill(DLDataType dtype, uint8_t* data, size_t bytes) {
  const float_type_t* const type = float_type(dtype);
  const size_t step = dtype.bits / 8U;
  uint8_t* const end = &data[bytes];
  int error = (int)kTvmErrorFunctionCallInvalidArg;
  if ((type != NULL) ||
      ((dtype.code <= (uint8_t)kDLUInt) && (((dtype.bits & 7U) == 0U) || (dtype.bits == 1U)))) {
    error = (int)TVMPlatformGenerateRandom(data, bytes);
  }
  if (error != 0) {
    return error;
  }
  if (type != NULL) {
    for (data += step; data <= end; data += step) {
      uint16_t top;
      (void)memcpy(&top, &data[-2], sizeof top);
      top = (uint16_t)((top & type->keep) | type->set);
      (void)memcpy(&data[-2], &top, sizeof top);
    }
  } else if (dtype.bits == 1U) {
    for (; data < end; data++) {
      *data &= 1U;
    }
  } else {
    // Any bits are an integer.
  }
  return 0;
}

int TVMNDArray_RandomFill(TVMNDArray* arr) {
  const DLTensor* t = &arr->dl_tensor;
  return fill(t->dtype, &((uint8_t*)t->data)[t->byte_offset],
              (size_t)TVMNDArray_DataSizeBytes(arr));
}

int boardsmith_random_fill(PACKED_PARAMETERS) {
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  const int error = boardsmith_arguments(type_codes, num_args, "H");
  if (error != 0) {
    return error;
  }
  size_t bytes;
  const DLTensor* t = args[0].v_handle;
  uint8_t* const data = (uint8_t*)((uintptr_t)t->data + (uintptr_t)t->byte_offset);
  // The address came from the host.
  if ((boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes) != 0) ||
      (boardsmith_memory_known(data, bytes, 1) == 0)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  return fill(t->dtype, data, bytes);
}
