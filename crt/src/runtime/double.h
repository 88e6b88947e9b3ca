// SPDX-License-Identifier: Apache-2.0
//
// Division of doubles, and whole numbers as doubles, without a compiler's library (double.c).
#ifndef BOARDSMITH_RUNTIME_DOUBLE_H_
#define BOARDSMITH_RUNTIME_DOUBLE_H_

#include <stdint.h>

// A number as a double's bits, and the quotient of two doubles' bits.
uint64_t boardsmith_double_of(uint64_t number);
uint64_t boardsmith_double_quotient(uint64_t dividend, uint64_t divisor);

// dividend / divisor.
double boardsmith_quotient(double dividend, double divisor);

#endif  // BOARDSMITH_RUNTIME_DOUBLE_H_
