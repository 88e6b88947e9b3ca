#include "chip_acme100.h"

void clear(void) {
  REG32(0x40000000U + 0x3000U) = 1U;  // where CTRL is
  REG32(0x40000010U + 0x3000U) = 1U;  // where nothing is
}
