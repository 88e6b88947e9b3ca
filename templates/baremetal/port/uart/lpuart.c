// SPDX-License-Identifier: Apache-2.0
//
// NXP's LPUART with FIFOs, as in the i.MX RT1060 (IMXRT1060RM, chapter "LPUART"). The chip file sets up clock and pins.
// Defines: LPUART_BASE, UART_IRQ.
#include <stddef.h>
#include <stdint.h>

#include "bare.h"

#define GLOBAL REG32((LPUART_BASE) + 0x08U)
#define BAUD REG32((LPUART_BASE) + 0x10U)
#define STAT REG32((LPUART_BASE) + 0x14U)
#define CTRL REG32((LPUART_BASE) + 0x18U)
#define DATA REG32((LPUART_BASE) + 0x1CU)
#define MODIR REG32((LPUART_BASE) + 0x24U)
#define FIFO REG32((LPUART_BASE) + 0x28U)
#define WATER REG32((LPUART_BASE) + 0x2CU)

#define GLOBAL_RST (1U << 1)
#define BAUD_BOTHEDGE (1U << 17)
#define STAT_PF (1U << 16)
#define STAT_FE (1U << 17)
#define STAT_NF (1U << 18)
#define STAT_OR (1U << 19)
#define CTRL_ON ((1U << 18) | (1U << 19) | (1U << 21) | (1U << 27))  // RE, TE, RIE, ORIE
#define FIFO_RXFE (1U << 3)
#define FIFO_TXFE (1U << 7)
#define FIFO_RXFLUSH (1U << 14)
#define FIFO_TXFLUSH (1U << 15)

#define OSR_MIN 4U
#define OSR_MAX 32U
#define SBR_MAX 8191U
#define RX_AT_ONCE 32U  // more than the FIFO holds; limits the time in the interrupt

// Whether one of the numbers of samples a bit makes the rate.
#define SBR(osr) (((UART_HZ) + (((osr) * (BOARDSMITH_BAUD)) / 2U)) / ((osr) * (BOARDSMITH_BAUD)))
#define MAKES(osr) \
  ((SBR(osr) >= 1U) && (SBR(osr) <= SBR_MAX) && BARE_IS_NEAR(UART_HZ, (uint64_t)(osr)*SBR(osr) * (BOARDSMITH_BAUD)))
#define MAKES_4(osr) (MAKES(osr) || MAKES((osr) + 1U) || MAKES((osr) + 2U) || MAKES((osr) + 3U))
#define BARE_BASE LPUART_BASE
BARE_CHECK_BASE(LPUART_BASE);
_Static_assert(MAKES_4(4U) || MAKES_4(8U) || MAKES_4(12U) || MAKES_4(16U) || MAKES_4(20U) || MAKES_4(24U) ||
                   MAKES_4(28U) || MAKES(OSR_MAX),
               BARE_NOT_NEAR);

static uint32_t tx_words;  // the transmitter's FIFO

// Returns the value of BAUD for the nearest rate, which is hz / (OSR * SBR), with the most samples a bit.
static uint32_t baud_value(uint32_t hz, uint32_t baud) {
  uint32_t best = 0;
  uint32_t best_error = UINT32_MAX;
  for (uint32_t osr = OSR_MAX; osr >= OSR_MIN; osr--) {
    uint32_t sbr = (hz + ((osr * baud) / 2U)) / (osr * baud);
    sbr = (sbr == 0U) ? 1U : ((sbr > SBR_MAX) ? SBR_MAX : sbr);
    const uint32_t rate = hz / (osr * sbr);
    const uint32_t error = (rate > baud) ? (rate - baud) : (baud - rate);
    if (error < best_error) {
      best_error = error;
      best = ((osr - 1U) << 24) | ((osr < 8U) ? BAUD_BOTHEDGE : 0U) | sbr;
    }
  }
  return best;
}

void uart_init(void) {
  GLOBAL = GLOBAL_RST;
  GLOBAL = 0;
  BAUD = baud_value(chip_uart_hz(), BOARDSMITH_BAUD);  // one stop bit
  MODIR = 0;
  const uint32_t size = (FIFO >> 4) & 7U;  // TXFIFOSIZE: 1, 4, 8, 16 ... words
  tx_words = (size == 0U) ? 1U : (2U << size);
  FIFO = FIFO_RXFE | FIFO_TXFE | FIFO_RXFLUSH | FIFO_TXFLUSH;
  WATER = 0;       // an interrupt for each byte received
  CTRL = CTRL_ON;  // eight bits, no parity
  cpu_irq_enable(UART_IRQ);
}

void uart_irq(void) {
  const uint32_t status = STAT;
  if ((status & STAT_OR) != 0U) {
    bare_lost(1);
  }
  STAT = status & (STAT_OR | STAT_NF | STAT_FE | STAT_PF);  // writing 1 clears; the bits that configure stay 0
  for (uint32_t i = 0; (i < RX_AT_ONCE) && (((WATER >> 24) & 7U) != 0U); i++) {  // RXCOUNT
    bare_received((uint8_t)DATA);
  }
}

int32_t uart_put(uint8_t byte) {
  if (((WATER >> 8) & 7U) >= tx_words) {  // TXCOUNT
    return -1;
  }
  DATA = byte;
  return 0;
}
