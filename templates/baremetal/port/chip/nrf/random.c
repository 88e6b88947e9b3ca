// SPDX-License-Identifier: Apache-2.0
//
// chip_random (bare.h) with the RNG of nRF51 and nRF52 (sources: nrf.h); the nRF53 has another one. Defines:
// NRF_RNG_BASE.
#include <stdint.h>

#include "chip/await.h"
#include "bare.h"

#define TASKS_START REG32((NRF_RNG_BASE) + 0x000U)
#define TASKS_STOP REG32((NRF_RNG_BASE) + 0x004U)
#define EVENTS_VALRDY ((NRF_RNG_BASE) + 0x100U)
#define CONFIG REG32((NRF_RNG_BASE) + 0x504U)
#define VALUE REG32((NRF_RNG_BASE) + 0x508U)

#define READS 200000U  // at least 12 ms; a byte needs up to 0.7 ms with bias correction

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  int32_t error = 0;
  CONFIG = 1;  // bias correction
  TASKS_START = 1;
  for (uint32_t i = 0; (i < size_bytes) && (error == 0); i++) {
    REG32(EVENTS_VALRDY) = 0;
    error = await_bits(EVENTS_VALRDY, 1U, 1U, READS);
    data[i] = (uint8_t)VALUE;
  }
  TASKS_STOP = 1;
  return error;
}
