// SPDX-License-Identifier: Apache-2.0
//
// The chip part of a port (bare.h) for SiFive's FE310-G000: "SiFive FE310-G000 Manual" v3p2 (chapters below). The core
// runs at 256 MHz, from a crystal of 16 MHz through the PLL; code runs from SPI flash at 32 MHz and from the
// instruction cache. QEMU's sifive_e has these clock registers, but they have no effect.
//
// A board file's `defines`: UART_IRQ. BOARDSMITH_CORE_HZ is 256000000, or 16000000: the crystal alone.
#include <stdint.h>

#include "bare.h"
#include "cpu/riscv/riscv.h"

#define PRCI 0x10008000U  // chapter 6: clock generation
#define HFROSCCFG REG32(PRCI + 0x00U)
#define HFXOSCCFG REG32(PRCI + 0x04U)
#define PLLCFG REG32(PRCI + 0x08U)
#define PLLOUTDIV REG32(PRCI + 0x0cU)
#define HFROSCCFG_DIV 0x3fU
#define HFXOSCCFG_ENABLE (1U << 30)
#define READY (1U << 31)  // of both oscillators
#define PLLCFG_SEL (1U << 16)
#define PLLCFG_REFSEL (1U << 17)  // the crystal
#define PLLCFG_BYPASS (1U << 18)
#define PLLCFG_LOCK (1U << 31)
#define PLLCFG_256MHZ (1U | (31U << 4) | (1U << 10))  // 16 MHz / 2, times 64, / 2
#define PLLOUTDIV_BY_1 (1U << 8)

#define CRYSTAL_HZ 16000000U
#define RING_HZ 72000000U  // of the internal oscillator, before its divider

#define GPIO 0x10012000U  // chapter 17
#define GPIO_OUTPUT_EN REG32(GPIO + 0x08U)
#define GPIO_OUTPUT_VAL REG32(GPIO + 0x0cU)
#define GPIO_IOF_EN REG32(GPIO + 0x38U)
#define GPIO_IOF_SEL REG32(GPIO + 0x3cU)
#define UART0_PINS ((1U << 16) | (1U << 17))

#define QSPI_SCKDIV REG32(0x10014000U)  // chapter 19: the flash's clock is the core's / 2 / (n + 1)
#define QSPI_SCKDIV_BY_8 3U

#define AON 0x10000000U  // chapters 13 to 15
#define WDOGCFG REG32(AON + 0x000U)
#define WDOGCOUNT REG32(AON + 0x008U)
#define WDOGFEED REG32(AON + 0x018U)
#define WDOGKEY REG32(AON + 0x01cU)
#define WDOGCMP REG32(AON + 0x020U)
#define PMUCAUSE REG32(AON + 0x144U)
#define WDOGCFG_RESET_ALWAYS ((1U << 8) | (1U << 12))  // rsten, enalways
#define WDOGCFG_SCALE 5U                               // 32768 Hz / 32
#define WDOG_HZ 1024U
#define WDOGKEY_UNLOCK 0x51f15eU
#define WDOGFEED_FOOD 0xd09f00dU
#define WDOGCMP_MAX 0xffffU
#define PMUCAUSE_RESET(x) (((x) >> 8) & 3U)

#define WAIT_STEPS 100000U
#define PLL_STEPS 2000U  // more than 100 microseconds, before which the lock bit is invalid (§6.4)

void chip_early(void) {}

static int32_t wait_for(uint32_t address, uint32_t bit) {
  for (uint32_t i = 0; i < WAIT_STEPS; i++) {
    if ((REG32(address) & bit) != 0U) {
      return 0;
    }
  }
  return -1;
}

// Switches from the internal oscillator, selected by a reset, to the crystal, with or without the PLL.
static void start_clock(void) {
  QSPI_SCKDIV = QSPI_SCKDIV_BY_8;
  HFXOSCCFG = HFXOSCCFG_ENABLE;
  if (wait_for(PRCI + 0x04U, READY) != 0) {
    return;
  }
#if (BOARDSMITH_CORE_HZ) == CRYSTAL_HZ
  PLLCFG = PLLCFG_REFSEL | PLLCFG_BYPASS;
#elif (BOARDSMITH_CORE_HZ) == 256000000
  PLLCFG = PLLCFG_REFSEL | PLLCFG_256MHZ;
#else
#error "core_hz: neither 16000000 nor 256000000"
#endif
  PLLOUTDIV = PLLOUTDIV_BY_1;
  for (volatile uint32_t i = 0; i < PLL_STEPS; i++) {
  }
  if (wait_for(PRCI + 0x08U, PLLCFG_LOCK | PLLCFG_BYPASS) == 0) {
    PLLCFG |= PLLCFG_SEL;
  }
}

#ifdef BOARDSMITH_MEASURE_PIN
#define MEASURE_BIT (1U << (BOARDSMITH_MEASURE_PIN))
_Static_assert((UART0_PINS & MEASURE_BIT) == 0U, "measure_pin: a pin of the UART");

void chip_measure(int32_t level) {
  const uint32_t others = GPIO_OUTPUT_VAL & ~MEASURE_BIT;
  GPIO_OUTPUT_VAL = others | ((level != 0) ? MEASURE_BIT : 0U);
}

static void measure_init(void) {
  chip_measure(0);
  GPIO_IOF_EN &= ~MEASURE_BIT;
  GPIO_OUTPUT_EN |= MEASURE_BIT;
}
#else
static void measure_init(void) {}
#endif

void chip_init(void) {
  PLLCFG &= ~PLLCFG_SEL;  // also after a start without a reset
  start_clock();
  GPIO_IOF_SEL &= ~UART0_PINS;
  GPIO_IOF_EN |= UART0_PINS;
  measure_init();
}

uint32_t chip_core_hz(void) {
  const uint32_t pll = PLLCFG;
  const uint32_t ring = RING_HZ / ((HFROSCCFG & HFROSCCFG_DIV) + 1U);
  if ((pll & PLLCFG_SEL) == 0U) {
    return ring;
  }
  const uint32_t in = ((pll & PLLCFG_REFSEL) != 0U) ? CRYSTAL_HZ : ring;
  if ((pll & PLLCFG_BYPASS) != 0U) {
    return in;
  }
  const uint32_t r = (pll & 7U) + 1U;
  const uint32_t f = 2U * (((pll >> 4) & 0x3fU) + 1U);
  const uint32_t q = (pll >> 10) & 3U;
  return ((in / r) * f) >> q;
}

uint32_t chip_uart_hz(void) { return chip_core_hz(); }  // tlclk is the core's clock

void chip_platform(struct bare_platform* p) {
  p->flags |= (uint32_t)BARE_FLAG_ICACHE;  // always on (§3.2)
#if !BOARDSMITH_EMULATED                   // the emulator has no AON block and reads 0
  static const int32_t causes[4] = {BARE_RESET_POWER, BARE_RESET_PIN, BARE_RESET_WATCHDOG, BARE_RESET_OTHER};
  p->reset_cause = causes[PMUCAUSE_RESET(PMUCAUSE)];
#endif
}

bare_watchdog_t chip_watchdog(void) { return (bare_watchdog_t){.hz = WDOG_HZ, .most = WDOGCMP_MAX - 1U}; }

void chip_watchdog_start(uint32_t counts) {
  WDOGKEY = WDOGKEY_UNLOCK;
  WDOGCMP = counts + 1U;  // the first count is incomplete
  WDOGKEY = WDOGKEY_UNLOCK;
  WDOGCFG = WDOGCFG_RESET_ALWAYS | WDOGCFG_SCALE;
  chip_watchdog_feed();
}

void chip_watchdog_feed(void) {
  WDOGKEY = WDOGKEY_UNLOCK;
  WDOGFEED = WDOGFEED_FOOD;
}

// Only the watchdog can reset this chip.
void chip_reset(void) {
#if !BOARDSMITH_EMULATED
  chip_watchdog_start(1);
  for (;;) {
    // The reset follows within two milliseconds.
  }
#endif
}
