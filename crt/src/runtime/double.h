// SPDX-License-Identifier: Apache-2.0
//
// Division of doubles, and conversion of integers to doubles, without the compiler's library (double.c).
#ifndef BOARDSMITH_RUNTIME_DOUBLE_H_
#define BOARDSMITH_RUNTIME_DOUBLE_H_

#include <stdint.h>

// Returns the bits of number as a double, and of the quotient of two doubles given by their bits.
uint64_t boardsmith_double_of(uint64_t number);
uint64_t boardsmith_double_quotient(uint64_t dividend, uint64_t divisor);

// Returns dividend / divisor.
double boardsmith_quotient(double dividend, double divisor);

#endif  // BOARDSMITH_RUNTIME_DOUBLE_H_
