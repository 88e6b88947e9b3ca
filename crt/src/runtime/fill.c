// SPDX-License-Identifier: Apache-2.0
//
// Fills tensors with numbers that follow from a seed (boardsmith/upload.h): inputs that need not go over the link.
// boardsmith.md, "Tensors from a seed", defines them; package ndarray of the host has the same generator.
#include <boardsmith/upload.h>
#include <stdbool.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>

#include "arrays.h"
#include "functions.h"
#include "memory.h"

// A type of elements: floats have these, integers and bools only bytes.
typedef struct element {
  unsigned bytes;
  unsigned mantissa;  // bits without the leading one; 0: not a float
  unsigned half;      // exponent of numbers from 0.5 to 1
  uint8_t mask;       // of each byte of an integer
} element_t;

// Returns false for types that cannot be filled.
static bool element_of(DLDataType dtype, element_t* e) {
  e->bytes = (dtype.bits + 7U) / 8U;
  e->mantissa = 0;
  e->half = 0;
  e->mask = (dtype.bits == 1U) ? 1U : 0xFFU;
  if (dtype.code <= (uint8_t)kDLUInt) {
    return (dtype.bits == 1U) || ((dtype.bits != 0U) && (dtype.bits <= 64U) && ((dtype.bits % 8U) == 0U));
  }
  if ((dtype.code == (uint8_t)kDLBfloat) && (dtype.bits == 16U)) {
    e->mantissa = 7;
    e->half = 126;
  }
  if (dtype.code == (uint8_t)kDLFloat) {
    if (dtype.bits == 16U) {
      e->mantissa = 10;
      e->half = 14;
    }
    if (dtype.bits == 32U) {
      e->mantissa = 23;
      e->half = 126;
    }
    if (dtype.bits == 64U) {
      e->mantissa = 52;
      e->half = 1022;
    }
  }
  return e->mantissa != 0U;
}

// splitmix64 (in the public domain).
static uint64_t next(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15U;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// Returns the bits of the float whose value is the upper bits of random / 2^64, cut off after the mantissa's length.
static uint64_t float_of(const element_t* e, uint64_t random) {
  uint64_t bits = random >> (63U - e->mantissa);
  if (bits == 0U) {
    return 0;
  }
  uint64_t exponent = e->half;
  while ((bits >> e->mantissa) == 0U) {
    bits <<= 1;
    exponent--;
  }
  return (exponent << e->mantissa) | (bits & (((uint64_t)1U << e->mantissa) - 1U));
}

static void fill_from(const element_t* e, uint64_t state, uint8_t* data, size_t bytes) {
  const size_t step = (e->mantissa != 0U) ? e->bytes : 8U;
  for (size_t at = 0; at < bytes; at += step) {
    uint64_t random = next(&state);
    if (e->mantissa != 0U) {
      random = float_of(e, random);
    }
    for (size_t i = at; (i < bytes) && (i < (at + step)); i++) {
      data[i] = (uint8_t)(random & e->mask);
      random >>= 8;
    }
  }
}

int boardsmith_fill_packed(PACKED_PARAMETERS) {
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  const int error = boardsmith_arguments(type_codes, num_args, "HA");
  if (error != 0) {
    return error;
  }
  const DLTensor* const t = args[0].v_handle;
  size_t bytes;
  element_t e;
  // The server has checked that the tensor is known; it must also be writable.
  if (!element_of(t->dtype, &e) || (boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes) != 0) ||
      (boardsmith_tensor_holds(t, bytes, 1) == 0)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  fill_from(&e, (uint64_t)args[1].v_int64, tensor_data(t), bytes);
  return 0;
}
