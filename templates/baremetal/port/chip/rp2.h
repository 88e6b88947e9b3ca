// SPDX-License-Identifier: Apache-2.0
//
// What the ports of Raspberry Pi's RP2040 and RP2350 share: clocks, early stop, measure pin, watchdog. A chip's file
// includes this one after its definitions of registers and bits, whose names are the same for both, and of XOSC_HZ,
// ROSC_HZ, PLL_*, CLOCK_READS (reads of a register that take 10 ms or more) and WATCHDOG_HZ (counts per second).
#ifndef BOARDSMITH_RP2_H_
#define BOARDSMITH_RP2_H_

#include <stdbool.h>
#include <stdint.h>

#include "bare.h"
#include "chip/await.h"

static uint32_t reset_cause;

// ---- Clocks ------------------------------------------------------------------------------------------------------

static int32_t out_of_reset(uint32_t blocks) {
  REG32(RESETS_RESET + CLEAR) = blocks;
  return await_bits(RESETS_DONE, blocks, blocks, CLOCK_READS);
}

// Switches the system's clock to the ring oscillator, so that all others can be changed.
static void clocks_safe(void) {
  REG32(CLK_SYS_CTRL + CLEAR) = CLK_SYS_SRC;  // this switch is glitch-free, AUXSRC's is not
  (void)await_bits(CLK_SYS_SELECTED, 1U << CLK_SYS_REF, 1U << CLK_SYS_REF, CLOCK_READS);
  REG32(CLK_REF_CTRL + CLEAR) = CLK_REF_SRC;
  (void)await_bits(CLK_REF_SELECTED, 1U << CLK_REF_ROSC, 1U << CLK_REF_ROSC, CLOCK_READS);
  REG32(CLK_SYS_CTRL) = 0;  // AUXSRC: PLL_SYS
  CLK_REF_DIV = CLK_DIV_1;
  CLK_SYS_DIV = CLK_DIV_1;
}

static int32_t crystal_on(void) {
  XOSC_STARTUP = XOSC_DELAY;
  XOSC_CTRL = XOSC_ON;
  if (await_bits(XOSC_STATUS, XOSC_STABLE, XOSC_STABLE, CLOCK_READS) != 0) {
    return -1;
  }
  REG32(CLK_REF_CTRL) = CLK_REF_XOSC;
  return await_bits(CLK_REF_SELECTED, 1U << CLK_REF_XOSC, 1U << CLK_REF_XOSC, CLOCK_READS);
}

static int32_t pll_on(void) {
  REG32(RESETS_RESET + SET) = BLOCK_PLL_SYS;
  if (out_of_reset(BLOCK_PLL_SYS) != 0) {
    return -1;
  }
  REG32(PLL_SYS_CS) = 1;  // REFDIV
  PLL_SYS_FBDIV_INT = PLL_FBDIV;
  REG32(PLL_SYS_PWR + CLEAR) = PLL_PWR_PD | PLL_PWR_VCOPD;
  if (await_bits(PLL_SYS_CS, PLL_LOCK, PLL_LOCK, CLOCK_READS) != 0) {
    return -1;
  }
  PLL_SYS_PRIM = (PLL_POSTDIV1 << 16) | (PLL_POSTDIV2 << 12);
  REG32(PLL_SYS_PWR + CLEAR) = PLL_PWR_POSTDIVPD;
  REG32(CLK_SYS_CTRL) = CLK_SYS_AUX;
  return await_bits(CLK_SYS_SELECTED, 1U << CLK_SYS_AUX, 1U << CLK_SYS_AUX, CLOCK_READS);
}

static void clocks_on(void) {
  clocks_safe();
  if (crystal_on() == 0) {
    (void)pll_on();  // on failure, the crystal's 12 MHz
  }
}

static uint32_t ref_hz(void) {
  const uint32_t source = ((REG32(CLK_REF_SELECTED) & (1U << CLK_REF_XOSC)) != 0U) ? XOSC_HZ : ROSC_HZ;
  const uint32_t div = (CLK_REF_DIV & CLK_REF_DIV_INT) >> CLK_REF_DIV_Pos;
  return source / ((div == 0U) ? ((CLK_REF_DIV_INT >> CLK_REF_DIV_Pos) + 1U) : div);
}

static uint32_t pll_sys_hz(void) {
  const uint32_t refdiv = REG32(PLL_SYS_CS) & 0x3FU;
  const uint32_t prim = PLL_SYS_PRIM;
  const uint32_t post = ((prim >> 16) & 7U) * ((prim >> 12) & 7U);
  if ((refdiv == 0U) || (post == 0U)) {
    return 0;
  }
  return ((XOSC_HZ / refdiv) * (PLL_SYS_FBDIV_INT & 0xFFFU)) / post;
}

uint32_t chip_core_hz(void) {
  const bool on_pll =
      ((REG32(CLK_SYS_SELECTED) & (1U << CLK_SYS_AUX)) != 0U) && (((REG32(CLK_SYS_CTRL) >> 5) & 7U) == 0U);
  const uint32_t source = on_pll ? pll_sys_hz() : ref_hz();
  const uint32_t div = CLK_SYS_DIV >> (CLK_REF_DIV_Pos - 8U);  // in 1/256
  return (div < 0x100U) ? source : (((source / div) * 256U) + (((source % div) * 256U) / div));
}

uint32_t chip_uart_hz(void) { return chip_core_hz(); }  // clk_peri is clk_sys

// ---- Start -------------------------------------------------------------------------------------------------------

// Stops what a reset of only the processors leaves running (another firmware's DMA), before RAM is set up.
void chip_early(void) {
  REG32(RESETS_RESET + SET) = BLOCKS_ALL & ~BLOCKS_KEPT;
  REG32(PSM_FRCE_OFF + SET) = PSM_PROC1;
  (void)await_bits(PSM_FRCE_OFF, PSM_PROC1, PSM_PROC1, CLOCK_READS);
  REG32(PSM_FRCE_OFF + CLEAR) = PSM_PROC1;
}

#ifdef BOARDSMITH_MEASURE_PIN
#define MEASURE_BIT (1U << (BOARDSMITH_MEASURE_PIN))
_Static_assert((BOARDSMITH_MEASURE_PIN) > 1, "measure_pin: a pin of the UART");

void chip_measure(int32_t level) {
  if (level != 0) {
    SIO_OUT_SET = MEASURE_BIT;
  } else {
    SIO_OUT_CLR = MEASURE_BIT;
  }
}

static void measure_init(void) {
  chip_measure(0);
  SIO_OE_SET = MEASURE_BIT;
  MEASURE_CTRL = FUNCTION_SIO;
}
#else
static void measure_init(void) {}
#endif

void chip_platform(struct bare_platform* p) {
  p->flags |=
      ((XIP_CTRL & XIP_CACHE_EN) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;  // a cache of the flash, not of the core
  p->reset_cause = (int32_t)reset_cause;
}

// ---- Watchdog ----------------------------------------------------------------------------------------------------

static uint32_t watchdog_load;

bare_watchdog_t chip_watchdog(void) { return (bare_watchdog_t){.hz = WATCHDOG_HZ, .most = WATCHDOG_LOAD_MAX}; }

void chip_watchdog_start(uint32_t counts) {
  watchdog_load = counts;
  REG32(PSM_WDSEL) = PSM_ALL_BUT_OSCILLATORS;
  WATCHDOG_LOAD = watchdog_load;
  REG32(WATCHDOG_CTRL + SET) = WATCHDOG_ENABLE;
}

void chip_watchdog_feed(void) { WATCHDOG_LOAD = watchdog_load; }

#endif  // BOARDSMITH_RP2_H_
