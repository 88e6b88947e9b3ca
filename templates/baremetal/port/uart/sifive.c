// SPDX-License-Identifier: Apache-2.0
//
// The UART part of a port (bare.h) for SiFive's UART: "SiFive FE310-G000 Manual" v3p2, chapter 18. Receives by
// interrupt into the 8-byte FIFO; the hardware does not report lost bytes.
//
// A board file's `defines`: UART_BASE, UART_IRQ.
#include <stdint.h>

#include "bare.h"

#define TXDATA REG32((UART_BASE) + 0x00U)
#define RXDATA REG32((UART_BASE) + 0x04U)
#define TXCTRL REG32((UART_BASE) + 0x08U)
#define RXCTRL REG32((UART_BASE) + 0x0cU)
#define IE REG32((UART_BASE) + 0x10U)
#define DIV REG32((UART_BASE) + 0x18U)

#define TXDATA_FULL 0x80000000U
#define RXDATA_EMPTY 0x80000000U
#define CTRL_ENABLE 1U  // in TXCTRL and RXCTRL: on, one stop bit, interrupt at the first byte
#define IE_RXWM 2U

#define FIFO_BYTES 8U

#define DIVISOR(hz) (((hz) + ((BOARDSMITH_BAUD) / 2U)) / (BOARDSMITH_BAUD))
#define BARE_BASE UART_BASE
BARE_CHECK_BASE(UART_BASE);
BARE_CHECK_RATE(UART_HZ, DIVISOR(UART_HZ), 16U, 0x10000U);  // 16 samples a bit

void uart_init(void) {
  DIV = DIVISOR(chip_uart_hz()) - 1U;
  TXCTRL = CTRL_ENABLE;
  RXCTRL = CTRL_ENABLE;
  IE = IE_RXWM;
  cpu_irq_enable(UART_IRQ);
}

void uart_irq(void) {
  for (uint32_t i = 0; i < (2U * FIFO_BYTES); i++) {
    const uint32_t data = RXDATA;
    if ((data & RXDATA_EMPTY) != 0U) {
      return;
    }
    bare_received((uint8_t)data);
  }
}

int32_t uart_put(uint8_t byte) {
  if ((TXDATA & TXDATA_FULL) != 0U) {
    return -1;
  }
  TXDATA = byte;
  return 0;
}
