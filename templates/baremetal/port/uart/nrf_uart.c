// SPDX-License-Identifier: Apache-2.0
//
// The UART of Nordic's nRF51 (nRF51 Series Reference Manual 3.0 §29), without EasyDMA; the nRF52 also has it, besides
// its UARTE. Defines: NRF_UART_BASE, UART_IRQ, NRF_UART_TX_PIN, NRF_UART_RX_PIN.
#include "bare.h"

#define STARTRX REG32((NRF_UART_BASE) + 0x000U)  // tasks
#define STARTTX REG32((NRF_UART_BASE) + 0x008U)
#define RXDRDY REG32((NRF_UART_BASE) + 0x108U)  // events
#define TXDRDY REG32((NRF_UART_BASE) + 0x11CU)
#define ERROR_EVENT REG32((NRF_UART_BASE) + 0x124U)
#define INTENSET REG32((NRF_UART_BASE) + 0x304U)
#define ERRORSRC REG32((NRF_UART_BASE) + 0x480U)
#define ENABLE REG32((NRF_UART_BASE) + 0x500U)
#define PSELTXD REG32((NRF_UART_BASE) + 0x50CU)
#define PSELRXD REG32((NRF_UART_BASE) + 0x514U)
#define RXD REG32((NRF_UART_BASE) + 0x518U)
#define TXD REG32((NRF_UART_BASE) + 0x51CU)
#define BAUDRATE REG32((NRF_UART_BASE) + 0x524U)

#define INT_RXDRDY (1U << 2)
#define INT_ERROR (1U << 9)
#define ERRORSRC_OVERRUN 1U
#define ENABLE_UART 4U
#define FIFO_BYTES 6U

#define BARE_BASE NRF_UART_BASE
BARE_CHECK_BASE(NRF_UART_BASE);

// The hardware's rates are these values, not a divider (§29.10.11).
#if (BOARDSMITH_BAUD) == 115200
#define BAUDRATE_VALUE 0x01D7E000U
#elif (BOARDSMITH_BAUD) == 1000000
#define BAUDRATE_VALUE 0x10000000U
#elif (BOARDSMITH_BAUD) == 460800
#define BAUDRATE_VALUE 0x075F7000U
#elif (BOARDSMITH_BAUD) == 230400
#define BAUDRATE_VALUE 0x03AFB000U
#else
#error "link.baud: this UART supports 115200, 230400, 460800 and 1000000"
#endif

static uint32_t sending;  // 1: a byte is being sent

void uart_init(void) {
  PSELTXD = NRF_UART_TX_PIN;
  PSELRXD = NRF_UART_RX_PIN;
  BAUDRATE = BAUDRATE_VALUE;
  ENABLE = ENABLE_UART;
  RXDRDY = 0;
  TXDRDY = 0;
  INTENSET = INT_RXDRDY | INT_ERROR;
  STARTTX = 1;
  STARTRX = 1;
  cpu_irq_enable(UART_IRQ);
}

// The event is cleared before the byte is read, so that the next byte in the FIFO sets it again.
void uart_irq(void) {
  if (ERROR_EVENT != 0U) {
    ERROR_EVENT = 0;
    const uint32_t source = ERRORSRC;
    ERRORSRC = source;  // writing 1 clears
    bare_lost(((source & ERRORSRC_OVERRUN) != 0U) ? 1U : 0U);
  }
  for (uint32_t i = 0; (RXDRDY != 0U) && (i < FIFO_BYTES); i++) {
    RXDRDY = 0;
    bare_received((uint8_t)RXD);
  }
}

int32_t uart_put(uint8_t byte) {
  if ((sending != 0U) && (TXDRDY == 0U)) {
    return -1;
  }
  TXDRDY = 0;
  sending = 1;
  TXD = byte;
  return 0;
}
