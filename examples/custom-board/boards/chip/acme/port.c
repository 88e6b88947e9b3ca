// SPDX-License-Identifier: 0BSD
//
// The port: boardsmith's functions of a chip and of a UART (port/bare.h), by the vendor's hardware abstraction layer.
#include "acme_hal_uart.h"
#include "bare.h"

static UART_HandleTypeDef console = {.Instance = UART0, .Init = {.BaudRate = BOARDSMITH_BAUD}};

// ---- Chip -----------------------------------------------------------------------------------------------------------

void chip_init(void) { SystemCoreClockUpdate(); }

uint32_t chip_core_hz(void) { return SystemCoreClock; }

uint32_t chip_uart_hz(void) { return SystemCoreClock; }

void chip_platform(struct bare_platform* p) { (void)p; }

int32_t chip_irq(uint32_t number) {
  if (number != (uint32_t)UART0_RX_IRQn) {
    return -1;
  }
  uart_irq();
  return 0;
}

// ---- UART -----------------------------------------------------------------------------------------------------------

void uart_init(void) {
  (void)HAL_UART_Init(&console);  // the settings are right
  cpu_irq_enable((uint32_t)UART0_RX_IRQn);
}

void uart_irq(void) { HAL_UART_IRQHandler(&console); }

int32_t uart_put(uint8_t byte) { return (HAL_UART_WriteByte(&console, byte) == HAL_OK) ? 0 : -1; }

void HAL_UART_RxByteCallback(UART_HandleTypeDef* huart, uint8_t byte) {
  (void)huart;
  bare_received(byte);
}

void HAL_UART_ErrorCallback(UART_HandleTypeDef* huart) {
  (void)huart;
  bare_lost(1);
}
