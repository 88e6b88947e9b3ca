// SPDX-License-Identifier: Apache-2.0
//
// The double arithmetic for times: conversion of integers, and division. The runtime and the ports always use it; in a
// bare-metal Arm image without an FPU for doubles, the firmware's own code uses it, too. It takes 0.4 kB in an image
// without other double arithmetic; libgcc's takes 1.9 kB, because its objects contain all four operations. Results
// equal libgcc's to the bit, except the payload of a NaN: round to nearest, ties to even.
#include "double.h"

#include <boardsmith/boardsmith.h>

#define FRACTION_BITS 52U
#define SIGN (UINT64_C(1) << 63)
#define HIDDEN (UINT64_C(1) << FRACTION_BITS)  // the leading bit of a normal number, which is not stored
#define INFINITE UINT64_C(0x7ff0000000000000)
#define NOT_A_NUMBER UINT64_C(0x7ff8000000000000)
#define BIAS 1023

// Returns the double bits * 2^(exponent - BIAS - 54), rounded. bits has 55 bits; the last is 1 if any bits after it
// were not 0.
static uint64_t rounded(uint64_t bits, int exponent) {
  while (exponent < 1) {  // subnormal: no hidden bit; at most 2,200 steps
    bits = (bits >> 1) | (bits & 1U);
    exponent++;
  }
  bits = (bits + 1U + ((bits >> 2) & 1U)) >> 2;
  bits += ((uint64_t)exponent - 1U) << FRACTION_BITS;  // the hidden bit adds 1 to the exponent
  return (bits < INFINITE) ? bits : INFINITE;
}

// Splits a finite number above 0: returns its 53 bits and stores its exponent.
static uint64_t bits_of(uint64_t number, int* exponent) {
  uint64_t bits = number & (HIDDEN - 1U);
  const uint32_t stored = (uint32_t)(number >> FRACTION_BITS);
  if (stored != 0U) {
    *exponent = (int)stored;
    return bits | HIDDEN;
  }
  *exponent = 1;
  while (bits < HIDDEN) {
    bits <<= 1;
    (*exponent)--;
  }
  return bits;
}

uint64_t boardsmith_double_of(uint64_t number) {
  int exponent = BIAS + 63;
  if (number == 0U) {
    return 0;
  }
  while ((number & SIGN) == 0U) {
    number <<= 1;
    exponent--;
  }
  return rounded((number >> 9) | (((number & 0x1FFU) != 0U) ? 1U : 0U), exponent);
}

uint64_t boardsmith_double_quotient(uint64_t dividend, uint64_t divisor) {
  uint64_t a = dividend & ~SIGN;
  uint64_t b = divisor & ~SIGN;
  uint64_t quotient = 0;  // of 0 / number and number / infinity
  if ((a > INFINITE) || (b > INFINITE) || ((a == b) && ((a == 0U) || (a == INFINITE)))) {
    return NOT_A_NUMBER;
  }
  if ((a == INFINITE) || (b == 0U)) {
    quotient = INFINITE;
  } else if ((a != 0U) && (b != INFINITE)) {
    int exponent;
    int exponent_b;
    a = bits_of(a, &exponent);
    b = bits_of(b, &exponent_b);
    exponent += BIAS - exponent_b;
    if (a < b) {
      a <<= 1;
      exponent--;
    }
    for (unsigned i = FRACTION_BITS + 2U; i != 0U; i--) {
      if (a >= b) {
        a -= b;
        quotient |= 1U;
      }
      a <<= 1;
      quotient <<= 1;
    }
    quotient = rounded(quotient | ((a != 0U) ? 1U : 0U), exponent);
  }
  return quotient | ((dividend ^ divisor) & SIGN);
}

// A double and its bits.
typedef union double_bits {
  double number;
  uint64_t bits;
} double_bits_t;

double boardsmith_seconds(uint64_t count, uint32_t per_second) {
  const double_bits_t seconds = {
      .bits = boardsmith_double_quotient(boardsmith_double_of(count), boardsmith_double_of(per_second))};
  return seconds.number;
}

double boardsmith_quotient(double dividend, double divisor) {
  const double_bits_t a = {.number = dividend};
  const double_bits_t b = {.number = divisor};
  const double_bits_t quotient = {.bits = boardsmith_double_quotient(a.bits, b.bits)};
  return quotient.number;
}

#if defined(__arm__) && !(defined(__ARM_FP) && ((__ARM_FP & 8) != 0)) && !defined(__unix__) && !defined(__ZEPHYR__)

// The names that the compiler calls, by the base standard, which passes doubles like 64-bit integers. Weak: if an
// operator links libgcc's object, its definitions replace these for the whole image. The runtime therefore does not
// call them.
uint64_t __aeabi_ddiv(uint64_t dividend, uint64_t divisor);
uint64_t __aeabi_ul2d(uint64_t number);
uint64_t __aeabi_ui2d(uint32_t number);

TVM_WEAK uint64_t __aeabi_ddiv(uint64_t dividend, uint64_t divisor)
    __attribute__((alias("boardsmith_double_quotient")));

TVM_WEAK uint64_t __aeabi_ul2d(uint64_t number) __attribute__((alias("boardsmith_double_of")));

TVM_WEAK uint64_t __aeabi_ui2d(uint32_t number) { return boardsmith_double_of(number); }

#endif
