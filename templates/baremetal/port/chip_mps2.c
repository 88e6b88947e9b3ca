// SPDX-License-Identifier: Apache-2.0
//
// The FPGA images of Arm's MPS2, MPS2+ and MPS3 boards: clocks are fixed, memory needs nothing. Application notes
// AN385, AN386, AN500 (DAI 0385, 0386, 0500), AN521 (DAI 0521), AN547 (DAI 0547). Defines: CMSDK_UART_RX_IRQ.
#include "bare.h"

void chip_early(void) {}

void chip_init(void) {}

uint32_t chip_core_hz(void) { return BOARDSMITH_CORE_HZ; }  // of the board's oscillator; no register tells it

uint32_t chip_uart_hz(void) {
#ifdef CMSDK_UART_HZ
  return CMSDK_UART_HZ;
#else
  return BOARDSMITH_CORE_HZ;
#endif
}

int32_t chip_irq(uint32_t number) {
  if (number != (uint32_t)(CMSDK_UART_RX_IRQ)) {
    return -1;
  }
  uart_irq();
  return 0;
}

void chip_platform(struct bare_platform* p) { (void)p; }

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  (void)id;
  (void)max_bytes;
  return 0;
}
