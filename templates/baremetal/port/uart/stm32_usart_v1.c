// SPDX-License-Identifier: Apache-2.0
//
// The UART part of a port (bare.h) for the USART with SR and DR: STM32F1, F2, F4, L1 (RM0090 §30.6, RM0368 §19.6).
// Receives by interrupt. The chip file selects the USART and its pins (chip/stm32/stm32.h).
#include <stdint.h>

#include "chip/stm32/stm32.h"

#define USART_SR REG32(stm32_uart.base + 0x00U)
#define USART_DR REG32(stm32_uart.base + 0x04U)
#define USART_BRR REG32(stm32_uart.base + 0x08U)
#define USART_CR1 REG32(stm32_uart.base + 0x0CU)
#define USART_CR2 REG32(stm32_uart.base + 0x10U)
#define USART_CR3 REG32(stm32_uart.base + 0x14U)

#define USART_SR_ORE (1U << 3)
#define USART_SR_RXNE (1U << 5)
#define USART_SR_TXE (1U << 7)
#define USART_CR1_RE (1U << 2)
#define USART_CR1_TE (1U << 3)
#define USART_CR1_RXNEIE (1U << 5)  // also for ORE
#define USART_CR1_UE (1U << 13)

void uart_init(void) {
  stm32_enable(stm32_uart.enable_register, 1U << stm32_uart.enable_bit);
  USART_CR1 = 0U;  // off; 8 bits, no parity, 16 samples a bit
  USART_CR2 = 0U;  // one stop bit
  USART_CR3 = 0U;
  USART_BRR = (uint32_t)STM32_DIVISOR(chip_uart_hz());
  USART_CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE;
  cpu_irq_enable(stm32_uart.irq);
}

void uart_irq(void) {
  enum { AT_MOST = 4 };  // it holds one byte; more only arrive during this loop
  for (uint32_t i = 0; i < (uint32_t)AT_MOST; i++) {
    const uint32_t status = USART_SR;
    if ((status & (USART_SR_RXNE | USART_SR_ORE)) == 0U) {
      return;
    }
    const uint8_t byte = (uint8_t)USART_DR;  // after SR, this read clears RXNE, ORE and the error flags
    if ((status & USART_SR_ORE) != 0U) {
      bare_lost(1);
    }
    if ((status & USART_SR_RXNE) != 0U) {
      bare_received(byte);
    }
  }
}

int32_t uart_put(uint8_t byte) {
  if ((USART_SR & USART_SR_TXE) == 0U) {
    return -1;
  }
  USART_DR = byte;
  return 0;
}
