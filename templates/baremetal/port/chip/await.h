// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a register with a limit, before a clock is available. For chip files.
#ifndef BOARDSMITH_AWAIT_H_
#define BOARDSMITH_AWAIT_H_

#include <stdint.h>

#include "bare.h"

// Reads the register at address until the bits of mask equal value, at most reads times; each read takes at least four
// cycles of the core. Returns 0, or -1 if the limit was reached.
static inline int32_t await_bits(uint32_t address, uint32_t mask, uint32_t value, uint32_t reads) {
  for (uint32_t i = 0; i < reads; i++) {
    if ((REG32(address) & mask) == value) {
      return 0;
    }
  }
  return -1;
}

#endif  // BOARDSMITH_AWAIT_H_
