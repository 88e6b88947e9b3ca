// SPDX-License-Identifier: Apache-2.0
//
// Nordic's nRF5340, application core, in secure state as after a reset: 128 MHz from the crystal, cache, factory trims,
// debug access, random numbers; the rest is in shared.c. The network core stays off, as it is after a reset.
//
// Sources: nRF5340 Product Specification v1.3 (PS), nRF5340 Revision 1 Errata.
#include <stdint.h>

#include "bare.h"
#include "chip/nrf/nrf.h"

#define CORE_HZ_MAX 128000000U

#define HFCLKSRC REG32(0x50005514U)  // PS "CLOCK", Registers; this and all below at the secure addresses
#define HFCLKCTRL REG32(0x50005558U)
#define APPROTECT_DISABLE REG32(0x50006544U)  // PS "CTRL-AP", Registers
#define SECUREAPPROTECT_DISABLE REG32(0x5000654CU)
#define UICR_APPROTECT REG32(0x00FF8000U)  // PS "UICR", Registers
#define UICR_SECUREAPPROTECT REG32(0x00FF801CU)
#define CACHE_ENABLE REG32(0x50001500U)       // PS "CACHE", Registers
#define FICR_PART_CODE REG32(0x00FF0130U)     // for the errata: 7 is nRF5340,
#define FICR_REVISION REG32(0x00FF0134U)      // 5 is Revision 1
#define FICR_TRIMCNF 0x00FF0300U              // pairs of address and value
#define CRYPTOCELL_ENABLE REG32(0x50844500U)  // PS "CRYPTOCELL", Registers
#define RNG_ISR 0x50845104U                   // PS "CRYPTOCELL", CC_RNG, Registers
#define RNG_ICR REG32(0x50845108U)
#define TRNG_CONFIG REG32(0x5084510CU)
#define EHR_DATA 0x50845114U
#define NOISE_SOURCE REG32(0x5084512CU)
#define SAMPLE_CNT 0x50845130U
#define RNG_SW_RESET REG32(0x50845140U)
#define RNG_CLK REG32(0x508451C4U)

#define TRIMS_MAX 32U
#define RNG_SAMPLE_CYCLES 1000U
#define RNG_READS 1000000U  // at least 31 ms; 192 bits of 1000 cycles take 1.5 ms
#define RNG_VALID 0x01U
#define RNG_ERRORS 0x1EU  // autocorrelation, repetition, von Neumann, watchdog
#define RNG_WORDS 6U      // 192 bits at a time

// PS "RESET", Registers. Others: debugger; wake-up from off.
static const nrf_resets_t resets = {
    .watchdog = (1U << 1) | (1U << 25),
    .software = 1U << 3,
    .lockup = 1U << 4,
    .others = (1U << 2) | (7U << 5) | (1U << 24) | (1U << 26),
};
static int32_t reset_cause;

// Applies factory calibration values, as required at each start (PS "FICR", TRIMCNF).
static void trim(void) {
  for (uint32_t i = 0; i < TRIMS_MAX; i++) {
    const uint32_t address = REG32(FICR_TRIMCNF + (8U * i));
    if (address == UINT32_MAX) {
      return;
    }
    REG32(address) = REG32(FICR_TRIMCNF + (8U * i) + 4U);
  }
}

// Erratum 160: the main regulator can oscillate and reset the chip. Values from the errata.
static void steady_regulators(void) {
  if ((FICR_PART_CODE != 7U) || (FICR_REVISION < 5U)) {
    return;
  }
  REG32(0x5000470CU) = 0x7E;
  REG32(0x5000493CU) = 0x7E;
  REG32(0x50002118U) = 0x7F;
  REG32(0x50039E04U) = 0;
  REG32(0x50039E08U) = 0;
  REG32(0x50101110U) = 0;
  REG32(0x50002124U) = 0;
  REG32(0x5000212CU) = 0;
  REG32(0x502012A0U) = 0;
}

void chip_early(void) {}

void chip_init(void) {
  reset_cause = nrf_reset_cause(&resets);
  trim();
  steady_regulators();
  // Debuggers have access only if both UICR and these registers allow it (PS "CTRL-AP", Access port protection):
  // without it a board could be programmed only once.
  APPROTECT_DISABLE = UICR_APPROTECT;
  SECUREAPPROTECT_DISABLE = UICR_SECUREAPPROTECT;
  CACHE_ENABLE = 1;
  HFCLKSRC = 1;  // crystal
  nrf_crystal_on();
  HFCLKCTRL = 0;  // undivided; the flash interface adapts automatically
  nrf_pins_on();
}

uint32_t chip_core_hz(void) { return CORE_HZ_MAX >> (HFCLKCTRL & 3U); }

void chip_platform(struct bare_platform* p) {
  p->flags |= ((CACHE_ENABLE & 1U) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;
  p->reset_cause = reset_cause;
}

// Generates 192 random bits in EHR_DATA.
static int32_t random_words(void) {
  RNG_CLK = 1;
  RNG_SW_RESET = 1;
  for (uint32_t i = 0; i < RNG_READS; i++) {  // it accepts no values during its reset
    RNG_CLK = 1;
    REG32(SAMPLE_CNT) = RNG_SAMPLE_CYCLES;
    if (REG32(SAMPLE_CNT) == RNG_SAMPLE_CYCLES) {
      break;
    }
  }
  TRNG_CONFIG = 0;  // the shortest ring
  RNG_ICR = 0x3F;
  NOISE_SOURCE = 1;
  for (uint32_t i = 0; i < RNG_READS; i++) {
    const uint32_t status = REG32(RNG_ISR);
    if ((status & RNG_VALID) != 0U) {
      return 0;
    }
    if ((status & RNG_ERRORS) != 0U) {  // a test failed: try again
      NOISE_SOURCE = 0;
      RNG_ICR = 0x3F;
      NOISE_SOURCE = 1;
    }
  }
  return -1;
}

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  int32_t error = 0;
  CRYPTOCELL_ENABLE = 1;
  for (uint32_t i = 0; (i < size_bytes) && (error == 0); i++) {
    const uint32_t at = i % (4U * RNG_WORDS);
    if (at == 0U) {
      error = random_words();
    }
    data[i] = (uint8_t)(REG32(EHR_DATA + (at & ~3U)) >> (8U * (at & 3U)));
  }
  NOISE_SOURCE = 0;
  CRYPTOCELL_ENABLE = 0;
  return error;
}
