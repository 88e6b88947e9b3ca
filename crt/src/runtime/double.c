// SPDX-License-Identifier: Apache-2.0
//
// The double arithmetic for times: conversion of integers, and division. The runtime and the ports always use it; in a
// bare-metal Arm image without an FPU for doubles, the firmware's own code uses it, too. It takes 0.4 kB in an image
// without other double arithmetic; libgcc's takes 1.9 kB, because its objects contain all four operations. Results
// equal libgcc's to the bit, except the payload of a NaN: round to nearest, ties to even.
#include "double.h"

#include <boardsmith/boardsmith.h>
#include <stdbool.h>

#define FRACTION_BITS 52U
#define SIGN (UINT64_C(1) << 63)
#define HIDDEN (UINT64_C(1) << FRACTION_BITS)  // the leading bit of a normal number, which is not stored
#define INFINITE UINT64_C(0x7ff0000000000000)
#define UPPER_INFINITE ((uint32_t)(INFINITE >> 32))
#define NOT_A_NUMBER UINT64_C(0x7ff8000000000000)
#define BIAS 1023
#define EXPONENT_INFINITE 2047

#define QUOTIENT_BITS 55U  // FRACTION_BITS, the hidden bit, the next one, and one for all others

// Returns the double bits * 2^(exponent + 1 - BIAS - 54), rounded. bits has QUOTIENT_BITS; the last is 1 if any bits
// after it were not 0. Not inlined, because it is called twice.
__attribute__((noinline)) static uint64_t rounded(uint64_t bits, int exponent) {
  if (exponent >= (EXPONENT_INFINITE - 1)) {
    return INFINITE;
  }
  if (exponent < 0) {  // subnormal: no hidden bit; at most 2,200 steps
    do {
      bits = (bits >> 1) | (bits & 1U);
      exponent++;
    } while (exponent != 0);
  }
  bits = (bits + 1U + ((bits >> 2) & 1U)) >> 2;
  // The hidden bit adds 1 to the exponent, and a carry another 1, which may make the number infinite.
  return bits + ((uint64_t)exponent << FRACTION_BITS);
}

uint64_t boardsmith_double_of(uint64_t number) {
  int exponent = BIAS + 62;
  if (number == 0U) {
    return 0;
  }
  while ((number & SIGN) == 0U) {
    number <<= 1;
    exponent--;
  }
  return rounded((number >> 9) | (((number & 0x1FFU) != 0U) ? 1U : 0U), exponent);
}

// Returns the upper half of a number that is not negative, plus 1 if the lower half is not 0 and the last bit of the
// upper one is: less code compares it with 0 and UPPER_INFINITE, with the same result.
static uint32_t upper_half(uint64_t number) { return (uint32_t)(number >> 32) | (((uint32_t)number != 0U) ? 1U : 0U); }

// Returns the exponent of a finite number, minus 1 unless it is subnormal: the bits without it are the fraction with
// the hidden bit.
static int exponent_below(uint64_t number) {
  uint32_t exponent = (uint32_t)(number >> FRACTION_BITS);
  if (exponent != 0U) {
    exponent--;
  }
  return (int)exponent;
}

// Divides finite numbers above 0.
static uint64_t divided(uint64_t a, uint64_t b) {
  const int exponent_a = exponent_below(a);
  const int exponent_b = exponent_below(b);
  int exponent = (exponent_a - exponent_b) + BIAS + (int)QUOTIENT_BITS - 1;
  a -= (uint64_t)exponent_a << FRACTION_BITS;
  b -= (uint64_t)exponent_b << FRACTION_BITS;
  for (; b < HIDDEN; b <<= 1) {
    exponent++;
  }
  uint64_t quotient = 0;
  do {  // until its first 1 is where it belongs
    quotient <<= 1;
    if (a >= b) {
      a -= b;
      quotient |= 1U;
    }
    a <<= 1;
    exponent--;
  } while ((quotient >> (QUOTIENT_BITS - 1U)) == 0U);
  return rounded(quotient | ((a != 0U) ? 1U : 0U), exponent);
}

uint64_t boardsmith_double_quotient(uint64_t dividend, uint64_t divisor) {
  const uint64_t a = dividend & ~SIGN;
  const uint64_t b = divisor & ~SIGN;
  const uint32_t upper_a = upper_half(a);
  const uint32_t upper_b = upper_half(b);
  uint64_t quotient = 0;  // of 0 / number and number / infinity
  if ((upper_a > UPPER_INFINITE) || (upper_b > UPPER_INFINITE)) {
    return NOT_A_NUMBER;
  }
  if ((upper_a == 0U) || (upper_b == UPPER_INFINITE)) {
    if (upper_a == upper_b) {
      return NOT_A_NUMBER;
    }
  } else if ((upper_a == UPPER_INFINITE) || (upper_b == 0U)) {
    quotient = INFINITE;
  } else {
    quotient = divided(a, b);
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

BOARDSMITH_HELPER uint64_t __aeabi_ddiv(uint64_t dividend, uint64_t divisor)
    __attribute__((alias("boardsmith_double_quotient")));

BOARDSMITH_HELPER uint64_t __aeabi_ul2d(uint64_t number) __attribute__((alias("boardsmith_double_of")));

BOARDSMITH_HELPER uint64_t __aeabi_ui2d(uint32_t number) { return boardsmith_double_of(number); }

#endif
