// SPDX-License-Identifier: Apache-2.0
//
// The FPGA images of Arm's MPS2, MPS2+ and MPS3 boards: clocks are fixed, memory needs no setup. Application notes
// AN385, AN386, AN500 (DAI 0385, 0386, 0500), AN521 (DAI 0521), AN547 (DAI 0547). Defines: UART_IRQ,
// CMSDK_WATCHDOG_BASE, CMSDK_WATCHDOG_HZ.
#include "bare.h"

// The watchdog (DDI 0479 §4.5): an NMI when the counter reaches 0, a reset when it reaches 0 again.
#define WDOGLOAD REG32((CMSDK_WATCHDOG_BASE) + 0x000U)
#define WDOGCONTROL REG32((CMSDK_WATCHDOG_BASE) + 0x008U)
#define WDOGINTCLR REG32((CMSDK_WATCHDOG_BASE) + 0x00CU)
#define WDOGRIS REG32((CMSDK_WATCHDOG_BASE) + 0x010U)
#define WDOGCONTROL_ON 3U  // INTEN, RESEN
#define HALF_A_TICK ((CMSDK_WATCHDOG_HZ) / (2U * BARE_TICK_HZ))

void chip_early(void) {}

void chip_init(void) {}

uint32_t chip_core_hz(void) { return BOARDSMITH_CORE_HZ; }  // of the board's oscillator; there is no register

uint32_t chip_uart_hz(void) { return UART_HZ; }

void chip_platform(struct bare_platform* p) { (void)p; }

bare_watchdog_t chip_watchdog(void) {
  return (bare_watchdog_t){.hz = CMSDK_WATCHDOG_HZ, .most = UINT32_MAX - HALF_A_TICK};
}

// Half a tick more: the tick's handler feeds it, so its NMI would otherwise interrupt a later tick's handler and not
// the position where the program hangs.
void chip_watchdog_start(uint32_t counts) {
  WDOGLOAD = counts + HALF_A_TICK;
  WDOGCONTROL = WDOGCONTROL_ON;
}

void chip_watchdog_feed(void) { WDOGINTCLR = 1; }  // any value; also reloads the counter

int32_t chip_nmi_is_watchdog(void) { return (int32_t)(WDOGRIS & 1U); }
