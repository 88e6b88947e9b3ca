// SPDX-License-Identifier: Apache-2.0
//
// Random contents for tensors: what a tuner measures with.
#include <string.h>

#include "runtime.h"

// Returns where the exponent begins in a float's upper 16 bits: 0 if the type is an integer or
// bool, -1 if it is none that can be filled.
static int exponent_shift(DLDataType dtype) {
  switch (((unsigned)dtype.code << 8) | dtype.bits) {
    case ((unsigned)kDLFloat << 8) | 16U:
      return 10;
    case ((unsigned)kDLFloat << 8) | 32U:
    case ((unsigned)kDLBfloat << 8) | 16U:
      return 7;
    case ((unsigned)kDLFloat << 8) | 64U:
      return 4;
    case ((unsigned)kDLUInt << 8) | 1U:
      return 0;
    default:
      return ((dtype.code <= (uint8_t)kDLUInt) && ((dtype.bits & 7U) == 0U)) ? 0 : -1;
  }
}

// Fills the tensor's memory, bytes from data on.
static int fill(DLDataType dtype, uint8_t* data, size_t bytes) {
  const int shift = exponent_shift(dtype);
  const size_t step = (dtype.bits + 7U) / 8U;
  if (shift < 0) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  const int error = (int)TVMPlatformGenerateRandom(data, bytes);
  for (size_t end = step; (error == 0) && (end <= bytes); end += step) {
    if (shift != 0) {
      // All exponent bits but the highest: 1 <= |x| < 2. Sign and mantissa stay random.
      uint16_t top;
      (void)memcpy(&top, &data[end - sizeof top], sizeof top);
      top &= (uint16_t)~((0x7fffU >> shift) << shift);
      top |= (uint16_t)((0x3fffU >> shift) << shift);
      (void)memcpy(&data[end - sizeof top], &top, sizeof top);
    } else if (dtype.bits == 1U) {
      data[end - 1U] &= 1U;
    } else {
      break;
    }
  }
  return error;
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
