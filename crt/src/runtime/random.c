// SPDX-License-Identifier: Apache-2.0
//
// Random contents for tensors, for measurements by a tuner.
#include <string.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/platform.h>

#include "builtins.h"
#include "memory.h"

// The highest bit of the exponent in the upper 16 bits of a float. It is cleared and the exponent's other bits are set,
// so that 1 <= |x| < 2. Sign and mantissa stay random.
#define EXPONENT_TOP 0x4000U

// Returns the other bits of the exponent for a float, 0 for an integer or bool, -1 for other types.
static int exponent_of(DLDataType dtype) {
  unsigned bits = dtype.bits;
  if ((dtype.code <= (uint8_t)kDLUInt) || (dtype.code == (uint8_t)kDLBool)) {
    return (((bits & 7U) == 0U) || (bits == 1U)) ? 0 : -1;
  }
  if (dtype.code == (uint8_t)kDLBfloat) {
    if (bits == 16U) {
      bits = 32;  // the upper half of a single
    } else {
      bits = 0;
    }
  }
  if ((dtype.code != (uint8_t)kDLFloat) && (dtype.code != (uint8_t)kDLBfloat)) {
    bits = 0;
  }
  if ((bits != 16U) && (bits != 32U) && (bits != 64U)) {
    return -1;
  }
  // The exponent of 16, 32 and 64 bits ends at bit 10, 7 and 4 of the upper 16.
  const unsigned set = EXPONENT_TOP - (0x400U >> (3U * (bits / 32U)));
  return (int)set;
}

// Fills bytes of memory with elements of the type.
static int fill(DLDataType dtype, uint8_t* data, size_t bytes) {
  const int set = exponent_of(dtype);
  if (set < 0) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  const int error = (int)TVMPlatformGenerateRandom(data, bytes);
  if (error != 0) {
    return error;
  }
  const size_t step = (set != 0) ? (dtype.bits / 8U) : 1U;
  for (size_t end = step; end <= bytes; end += step) {
    if (set != 0) {
      uint16_t top;
      (void)memcpy(&top, &data[end - 2U], sizeof top);
      top = (uint16_t)((top | (unsigned)set) & ~EXPONENT_TOP);
      (void)memcpy(&data[end - 2U], &top, sizeof top);
    }
    if ((dtype.bits == 1U) || (dtype.code == (uint8_t)kDLBool)) {
      data[end - 1U] &= 1U;
    }
  }
  return 0;
}

int TVMNDArray_RandomFill(TVMNDArray* arr) {
  const DLTensor* t = &arr->dl_tensor;
  return fill(t->dtype, tensor_data(t), (size_t)TVMNDArray_DataSizeBytes(arr));
}

int boardsmith_random_fill(PACKED_PARAMETERS) {
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  const int error = boardsmith_arguments(type_codes, num_args, "H");
  if (error != 0) {
    return error;
  }
  const DLTensor* t = args[0].v_handle;
  size_t bytes;
  // The server has checked that the tensor is known; this one must also be writable.
  if ((boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes) != 0) ||
      (boardsmith_tensor_holds(t, bytes, 1) == 0)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  return fill(t->dtype, tensor_data(t), bytes);
}
