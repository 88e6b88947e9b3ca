// SPDX-License-Identifier: 0BSD
//
// The UART, in the style of a vendor's hardware abstraction layer: a handle with the settings, and weak callbacks.
#ifndef ACME_HAL_UART_H_
#define ACME_HAL_UART_H_

#include <stdint.h>

#include "acme_m4.h"

typedef enum {
  HAL_OK = 0,
  HAL_ERROR = 1,
  HAL_BUSY = 2,
} HAL_StatusTypeDef;

typedef struct {
  uint32_t BaudRate;  // bits per second
} UART_InitTypeDef;

typedef struct {
  UART_TypeDef* Instance;
  UART_InitTypeDef Init;
  uint32_t Overruns;
} UART_HandleTypeDef;

HAL_StatusTypeDef HAL_UART_Init(UART_HandleTypeDef* huart);
HAL_StatusTypeDef HAL_UART_WriteByte(UART_HandleTypeDef* huart, uint8_t byte);  // HAL_BUSY: no room; never waits
void HAL_UART_IRQHandler(UART_HandleTypeDef* huart);

void HAL_UART_RxByteCallback(UART_HandleTypeDef* huart, uint8_t byte);
void HAL_UART_ErrorCallback(UART_HandleTypeDef* huart);

#endif  // ACME_HAL_UART_H_
