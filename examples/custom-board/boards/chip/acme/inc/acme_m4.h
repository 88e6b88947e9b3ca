// SPDX-License-Identifier: 0BSD
//
// ACME M4: registers, interrupt numbers and clock, in the style of a vendor's device header. The peripherals are those
// of Arm's MPS2 board with image AN386 (DAI 0386, DDI 0479).
#ifndef ACME_M4_H_
#define ACME_M4_H_

#include <stdint.h>

#define __IO volatile

typedef enum {
  UART0_RX_IRQn = 0,
  UART0_TX_IRQn = 1,
} IRQn_Type;

typedef struct {
  __IO uint32_t DATA;
  __IO uint32_t STATE;
  __IO uint32_t CTRL;
  __IO uint32_t INTCLEAR;
  __IO uint32_t BAUDDIV;
} UART_TypeDef;

#define UART_STATE_TXFULL (1UL << 0)
#define UART_STATE_RXFULL (1UL << 1)
#define UART_STATE_RXOVER (1UL << 3)
#define UART_CTRL_TXEN (1UL << 0)
#define UART_CTRL_RXEN (1UL << 1)
#define UART_CTRL_RXIE (1UL << 3)
#define UART_INT_RX (1UL << 1)

#define UART0_BASE 0x40004000UL
#define UART0 ((UART_TypeDef*)UART0_BASE)

#define SCB_VTOR (*(__IO uint32_t*)0xE000ED08UL)
#define SCB_CPACR (*(__IO uint32_t*)0xE000ED88UL)

extern uint32_t SystemCoreClock;  // Hz

void SystemInit(void);             // called by the start-up code, before variables are set up
void SystemCoreClockUpdate(void);  // sets SystemCoreClock

#endif  // ACME_M4_H_
