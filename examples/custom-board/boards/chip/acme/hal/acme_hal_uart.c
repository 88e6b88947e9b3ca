// SPDX-License-Identifier: 0BSD
//
// The UART's part of the vendor's hardware abstraction layer. It knows nothing of boardsmith.
#include "acme_hal_uart.h"

__attribute__((weak)) void HAL_UART_RxByteCallback(UART_HandleTypeDef* huart, uint8_t byte) {
  (void)huart;
  (void)byte;
}

__attribute__((weak)) void HAL_UART_ErrorCallback(UART_HandleTypeDef* huart) { (void)huart; }

HAL_StatusTypeDef HAL_UART_Init(UART_HandleTypeDef* huart) {
  if (huart->Init.BaudRate == 0U) {
    return HAL_ERROR;
  }
  huart->Overruns = 0;
  huart->Instance->BAUDDIV = (SystemCoreClock + (huart->Init.BaudRate / 2U)) / huart->Init.BaudRate;
  huart->Instance->CTRL = UART_CTRL_TXEN | UART_CTRL_RXEN | UART_CTRL_RXIE;
  return HAL_OK;
}

HAL_StatusTypeDef HAL_UART_WriteByte(UART_HandleTypeDef* huart, uint8_t byte) {
  if ((huart->Instance->STATE & UART_STATE_TXFULL) != 0U) {
    return HAL_BUSY;
  }
  huart->Instance->DATA = byte;
  return HAL_OK;
}

void HAL_UART_IRQHandler(UART_HandleTypeDef* huart) {
  huart->Instance->INTCLEAR = UART_INT_RX;
  if ((huart->Instance->STATE & UART_STATE_RXOVER) != 0U) {
    huart->Instance->STATE = UART_STATE_RXOVER;  // writing 1 clears it
    huart->Overruns++;
    HAL_UART_ErrorCallback(huart);
  }
  if ((huart->Instance->STATE & UART_STATE_RXFULL) != 0U) {
    HAL_UART_RxByteCallback(huart, (uint8_t)huart->Instance->DATA);
  }
}
