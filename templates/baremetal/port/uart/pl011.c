// SPDX-License-Identifier: Apache-2.0
//
// Arm's PrimeCell UART PL011 (DDI 0183 §3), as in the Stellaris and the RP2040. The chip file sets up clock and pins.
// Defines: PL011_BASE, UART_IRQ.
#include "bare.h"

#define DR REG32((PL011_BASE) + 0x00U)
#define FR REG32((PL011_BASE) + 0x18U)
#define IBRD REG32((PL011_BASE) + 0x24U)
#define FBRD REG32((PL011_BASE) + 0x28U)
#define LCRH REG32((PL011_BASE) + 0x2CU)
#define CR REG32((PL011_BASE) + 0x30U)
#define IFLS REG32((PL011_BASE) + 0x34U)
#define IMSC REG32((PL011_BASE) + 0x38U)
#define ICR REG32((PL011_BASE) + 0x44U)

#define DR_OVERRUN (1U << 11)
#define FR_RX_EMPTY (1U << 4)
#define FR_TX_FULL (1U << 5)
#define LCRH_8_BITS_FIFO 0x70U
#define CR_ON 0x301U       // UARTEN, TXE, RXE
#define IFLS_RX_EIGHTH 0U  // interrupt at the lowest level; fewer bytes interrupt by the time-out
#define INT_RX 0x50U       // RXIM, RTIM
#define INT_ALL 0x7FFU
#define FIFO_BYTES 32U

// In halves of 1/64 of the divisor of 16 samples a bit, to round: IBRD is 1 to 65535.
#define DIVISOR(hz) (((8U * (hz)) / (BOARDSMITH_BAUD)) + 1U)
#define BARE_BASE PL011_BASE
BARE_CHECK_BASE(PL011_BASE);
BARE_CHECK_RATE(8U * (uint64_t)(UART_HZ), DIVISOR((uint64_t)(UART_HZ)) & ~1ULL, 1U << 7, 0xFFFFU << 7);

void uart_init(void) {
  const uint32_t divider = DIVISOR(chip_uart_hz());
  CR = 0;
  IBRD = divider >> 7;
  FBRD = (divider >> 1) & 0x3FU;
  LCRH = LCRH_8_BITS_FIFO;  // also applies IBRD and FBRD
  IFLS = IFLS_RX_EIGHTH;
  ICR = INT_ALL;
  IMSC = INT_RX;
  CR = CR_ON;
  uart_irq();  // bytes received before
  cpu_irq_enable(UART_IRQ);
}

// Reading clears both interrupts (§3.4.2): RX below its level, the time-out when the FIFO is empty. Writing ICR could
// clear the interrupt of a new byte.
void uart_irq(void) {
  for (uint32_t i = 0; ((FR & FR_RX_EMPTY) == 0U) && (i < FIFO_BYTES); i++) {
    const uint32_t data = DR;
    bare_lost(((data & DR_OVERRUN) != 0U) ? 1U : 0U);
    bare_received((uint8_t)data);
  }
}

int32_t uart_put(uint8_t byte) {
  if ((FR & FR_TX_FULL) != 0U) {
    return -1;
  }
  DR = byte;
  return 0;
}
