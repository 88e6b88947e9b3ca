// SPDX-License-Identifier: Apache-2.0
//
// The UART part of a port (bare.h) for the USART with ISR, RDR and TDR, and for LPUART: STM32F0, F3, F7, G0, G4, H7,
// L0, L4 (USART registers and LPUART registers in RM0385, RM0432, RM0433). Receives by interrupt, through the FIFO if
// there is one. The chip file selects the USART and its pins (chip/stm32/stm32.h).
//
// A chip file's `defines`: STM32_UART_FIFO, 1 if CR1 has the bit FIFOEN (L4R5, H7), else 0.
#include <stdint.h>

#include "chip/stm32/stm32.h"

#define USART_CR1 REG32(stm32_uart.base + 0x00U)
#define USART_CR2 REG32(stm32_uart.base + 0x04U)
#define USART_CR3 REG32(stm32_uart.base + 0x08U)
#define USART_BRR REG32(stm32_uart.base + 0x0CU)
#define USART_ISR REG32(stm32_uart.base + 0x1CU)
#define USART_ICR REG32(stm32_uart.base + 0x20U)
#define USART_RDR REG32(stm32_uart.base + 0x24U)
#define USART_TDR REG32(stm32_uart.base + 0x28U)

#define USART_CR1_UE (1U << 0)
#define USART_CR1_RE (1U << 2)
#define USART_CR1_TE (1U << 3)
#define USART_CR1_RXNEIE (1U << 5)  // also for ORE; with the FIFO: it is not empty
#define USART_CR1_FIFOEN (1U << 29)
#define USART_ISR_ORE (1U << 3)
#define USART_ISR_RXNE (1U << 5)  // with the FIFO: it is not empty
#define USART_ISR_TXE (1U << 7)   // with the FIFO: it is not full
#define USART_ICR_ERRORS 0xFU     // PECF, FECF, NECF, ORECF

#if STM32_UART_FIFO
#define CR1_FIFO USART_CR1_FIFOEN
#define AT_MOST 32U  // the FIFO holds 16 bytes, LPUART's 8
#else
#define CR1_FIFO 0U
#define AT_MOST 4U
#endif

void uart_init(void) {
  stm32_enable(stm32_uart.enable_register, 1U << stm32_uart.enable_bit);
  USART_CR1 = 0U;  // off, as required for the writes below; 8 bits, no parity, 16 samples a bit
  USART_CR2 = 0U;  // one stop bit
  USART_CR3 = 0U;
  USART_BRR = (uint32_t)STM32_DIVISOR(chip_uart_hz());
  USART_CR1 = CR1_FIFO | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE;
  USART_CR1 = CR1_FIFO | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE | USART_CR1_UE;
  cpu_irq_enable(stm32_uart.irq);
}

void uart_irq(void) {
  for (uint32_t i = 0; i < AT_MOST; i++) {
    const uint32_t status = USART_ISR;
    if ((status & USART_ICR_ERRORS) != 0U) {
      USART_ICR = status & USART_ICR_ERRORS;
    }
    if ((status & USART_ISR_ORE) != 0U) {
      bare_lost(1);
    }
    if ((status & USART_ISR_RXNE) == 0U) {
      return;
    }
    bare_received((uint8_t)USART_RDR);
  }
}

int32_t uart_put(uint8_t byte) {
  if ((USART_ISR & USART_ISR_TXE) == 0U) {
    return -1;
  }
  USART_TDR = byte;
  return 0;
}
