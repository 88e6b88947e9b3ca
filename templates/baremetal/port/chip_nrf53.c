// SPDX-License-Identifier: Apache-2.0
//
// Nordic's nRF5340, application core, in secure state as after a reset: 128 MHz from the crystal, cache, pins of the
// UARTE, watchdog, random numbers. The network core stays off, as it is after a reset.
//
// Sources: nRF5340 Product Specification v1.3 (PS), nRF5340 Revision 1 Errata. Defines: NRF_UART_TX_PIN,
// NRF_UART_RX_PIN (port * 32 + pin), UARTE_IRQ.
#include <stddef.h>
#include <stdint.h>

#include "await.h"
#include "bare.h"

#define CORE_HZ_MAX 128000000U
#define UARTE_HZ 16000000U  // PS "CLOCK", HFCLK controller: PCLK16M
#define LFCLK_HZ 32768U

#define TASKS_HFCLKSTART REG32(0x50005000U)  // PS "CLOCK", Registers; this and all below at the secure addresses
#define EVENTS_HFCLKSTARTED REG32(0x50005100U)
#define HFCLKSTAT 0x5000540CU
#define HFCLKSRC REG32(0x50005514U)
#define HFCLKCTRL REG32(0x50005558U)
#define RESETREAS REG32(0x50005400U)                  // PS "RESET", Registers
#define APPROTECT_DISABLE REG32(0x50006544U)          // PS "CTRL-AP", Registers
#define SECUREAPPROTECT_DISABLE REG32(0x5000654CU)
#define UICR_APPROTECT REG32(0x00FF8000U)             // PS "UICR", Registers
#define UICR_SECUREAPPROTECT REG32(0x00FF801CU)
#define CACHE_ENABLE REG32(0x50001500U)               // PS "CACHE", Registers
#define FICR_PART_CODE REG32(0x00FF0130U)             // what the errata's checks read: 7 is nRF5340,
#define FICR_REVISION REG32(0x00FF0134U)              // 5 is Revision 1
#define FICR_DEVICEID 0x00FF0204U                     // PS "FICR", Registers: two words
#define FICR_TRIMCNF 0x00FF0300U                      // pairs of address and value
#define GPIO_BASE 0x50842500U                         // PS "GPIO", Registers; port 1 is at + 0x300
#define CRYPTOCELL_ENABLE REG32(0x50844500U)          // PS "CRYPTOCELL", Registers
#define RNG_ISR 0x50845104U                           // PS "CRYPTOCELL", CC_RNG, Registers
#define RNG_ICR REG32(0x50845108U)
#define TRNG_CONFIG REG32(0x5084510CU)
#define EHR_DATA 0x50845114U
#define NOISE_SOURCE REG32(0x5084512CU)
#define SAMPLE_CNT 0x50845130U
#define RNG_SW_RESET REG32(0x50845140U)
#define RNG_CLK REG32(0x508451C4U)
#define WDT_TASKS_START REG32(0x50018000U)  // PS "WDT", Registers
#define WDT_RUNSTATUS REG32(0x50018400U)
#define WDT_CRV REG32(0x50018504U)
#define WDT_RREN REG32(0x50018508U)
#define WDT_CONFIG REG32(0x5001850CU)
#define WDT_RR0 REG32(0x50018600U)

#define HFCLKSTAT_XTAL_RUNNING 0x00010001U
#define HFCLK_READS 400000U  // at least 12 ms at 128 MHz
#define TRIMS_MAX 32U
#define PIN_OUTPUT 0x3U    // DIR, input buffer off
#define PIN_INPUT_UP 0xCU  // input buffer on, pulled up: no breaks while nobody drives it
#define WDT_RELOAD 0x6E524635U
#define RNG_SAMPLE_CYCLES 1000U
#define RNG_READS 1000000U  // at least 31 ms; 192 bits of 1000 cycles take 1.5 ms
#define RNG_VALID 0x01U
#define RNG_ERRORS 0x1EU    // autocorrelation, repetition, von Neumann, watchdog
#define RNG_WORDS 6U        // 192 bits at a time

#define RESET_PIN (1U << 0)
#define RESET_SREQ (1U << 3)
#define RESET_LOCKUP (1U << 4)
#define RESET_DOGS ((1U << 1) | (1U << 25))
#define RESET_OTHERS ((1U << 2) | (7U << 5) | (1U << 24) | (1U << 26))  // debugger; wake-up from off

static uint32_t reset_cause;

static uint32_t port_of(uint32_t pin) { return GPIO_BASE + ((pin / 32U) * 0x300U); }

static void pins_on(void) {
  REG32(port_of(NRF_UART_TX_PIN) + 0x008U) = 1U << ((NRF_UART_TX_PIN) % 32U);  // OUTSET: idle while the UARTE is off
  REG32(port_of(NRF_UART_TX_PIN) + 0x200U + (4U * ((NRF_UART_TX_PIN) % 32U))) = PIN_OUTPUT;  // PIN_CNF
  REG32(port_of(NRF_UART_RX_PIN) + 0x200U + (4U * ((NRF_UART_RX_PIN) % 32U))) = PIN_INPUT_UP;
}

// Values that were measured in the factory and have to be put in place at each start (PS "FICR", TRIMCNF).
static void trim(void) {
  for (uint32_t i = 0; i < TRIMS_MAX; i++) {
    const uint32_t address = REG32(FICR_TRIMCNF + (8U * i));
    if (address == UINT32_MAX) {
      return;
    }
    REG32(address) = REG32(FICR_TRIMCNF + (8U * i) + 4U);
  }
}

// Erratum 160: the main regulator can oscillate and reset the chip; the values are the errata's.
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

static void read_reset_cause(void) {
  const uint32_t why = RESETREAS;
  RESETREAS = why;  // writing 1 clears
  if ((why & RESET_PIN) != 0U) {
    reset_cause = BARE_RESET_PIN;  // erratum 55: then other bits mean nothing
    return;
  }
  // PS "RESET", Reset cause: power-on and brown-out set no bit.
  reset_cause = (why == 0U) ? (uint32_t)BARE_RESET_POWER : 0U;
  reset_cause |= ((why & RESET_DOGS) != 0U) ? (uint32_t)BARE_RESET_WATCHDOG : 0U;
  reset_cause |= ((why & RESET_SREQ) != 0U) ? (uint32_t)BARE_RESET_SOFTWARE : 0U;
  reset_cause |= ((why & RESET_LOCKUP) != 0U) ? (uint32_t)BARE_RESET_FAULT : 0U;
  reset_cause |= ((why & RESET_OTHERS) != 0U) ? (uint32_t)BARE_RESET_OTHER : 0U;
}

void chip_early(void) {}

void chip_init(void) {
  read_reset_cause();
  trim();
  steady_regulators();
  // A debugger gets in only if both UICR and these say so (PS "CTRL-AP", Access port protection): without it a board
  // could be programmed once.
  APPROTECT_DISABLE = UICR_APPROTECT;
  SECUREAPPROTECT_DISABLE = UICR_SECUREAPPROTECT;
  CACHE_ENABLE = 1;
  EVENTS_HFCLKSTARTED = 0;
  HFCLKSRC = 1;  // crystal
  TASKS_HFCLKSTART = 1;
  // If it never comes the RC oscillator goes on.
  (void)await_bits(HFCLKSTAT, HFCLKSTAT_XTAL_RUNNING, HFCLKSTAT_XTAL_RUNNING, HFCLK_READS);
  HFCLKCTRL = 0;  // undivided; the flash interface adjusts by itself
  pins_on();
}

uint32_t chip_core_hz(void) { return CORE_HZ_MAX >> (HFCLKCTRL & 3U); }

uint32_t chip_uart_hz(void) { return UARTE_HZ; }

int32_t chip_irq(uint32_t number) {
  if (number != (uint32_t)(UARTE_IRQ)) {
    return -1;
  }
  uart_irq();
  return 0;
}

void chip_platform(struct bare_platform* p) {
  p->flags |= ((CACHE_ENABLE & 1U) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;
  p->reset_cause = (int32_t)reset_cause;
}

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  uint32_t n = 0;
  for (; (n < 8U) && (n < max_bytes); n++) {
    id[n] = (uint8_t)(REG32(FICR_DEVICEID + (n & 4U)) >> (8U * (n & 3U)));
  }
  return n;
}

// Makes 192 random bits ready in EHR_DATA.
static int32_t random_words(void) {
  RNG_CLK = 1;
  RNG_SW_RESET = 1;
  for (uint32_t i = 0; i < RNG_READS; i++) {  // until its reset is over it takes no values
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
    if ((status & RNG_ERRORS) != 0U) {  // a test failed: again
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

// It may run on over a software reset and then keeps its settings: only feeding is left to do.
void chip_watchdog_start(uint32_t ms) {
  if ((WDT_RUNSTATUS & 1U) == 0U) {
    WDT_CONFIG = 1;  // runs while the core sleeps, stops while a debugger has halted it
    WDT_CRV = (uint32_t)((((uint64_t)ms * LFCLK_HZ) / 1000U) - 1U);
    WDT_RREN = 1;
    WDT_TASKS_START = 1;
  }
  chip_watchdog_feed();
}

void chip_watchdog_feed(void) { WDT_RR0 = WDT_RELOAD; }
