// SPDX-License-Identifier: Apache-2.0
//
// The UART of Arm's Cortex-M System Design Kit, as on the MPS2 and MPS3 boards (DDI 0479 §4.3). Defines:
// CMSDK_UART_BASE, UART_IRQ.
#include "bare.h"

#define DATA REG32((CMSDK_UART_BASE) + 0x00U)
#define STATE REG32((CMSDK_UART_BASE) + 0x04U)
#define CTRL REG32((CMSDK_UART_BASE) + 0x08U)
#define INTCLEAR REG32((CMSDK_UART_BASE) + 0x0CU)
#define BAUDDIV REG32((CMSDK_UART_BASE) + 0x10U)

#define STATE_TX_FULL (1U << 0)
#define STATE_RX_FULL (1U << 1)
#define STATE_RX_OVERRUN (1U << 3)
#define CTRL_ON 0xBU  // transmitter, receiver, its interrupt
#define INT_RX (1U << 1)

#define DIVISOR(hz) (((hz) + ((BOARDSMITH_BAUD) / 2U)) / (BOARDSMITH_BAUD))
#define BARE_BASE CMSDK_UART_BASE
BARE_CHECK_BASE(CMSDK_UART_BASE);
BARE_CHECK_RATE(UART_HZ, DIVISOR(UART_HZ), 16U, 0xFFFFFU);

void uart_init(void) {
  BAUDDIV = DIVISOR(chip_uart_hz());
  CTRL = CTRL_ON;
  cpu_irq_enable(UART_IRQ);
}

void uart_irq(void) {
  INTCLEAR = INT_RX;
  if ((STATE & STATE_RX_OVERRUN) != 0U) {
    STATE = STATE_RX_OVERRUN;  // writing 1 clears it
    bare_lost(1);
  }
  if ((STATE & STATE_RX_FULL) != 0U) {
    bare_received((uint8_t)DATA);
  }
}

int32_t uart_put(uint8_t byte) {
  if ((STATE & STATE_TX_FULL) != 0U) {
    return -1;
  }
  DATA = byte;
  return 0;
}
