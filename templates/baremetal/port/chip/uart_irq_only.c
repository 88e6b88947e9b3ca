// SPDX-License-Identifier: Apache-2.0
//
// chip_irq (bare.h) for chips that only use the UART's interrupt. A chip with another source, or with a number that is
// only known at run time, defines its own. Defines: UART_IRQ, the UART's external interrupt.
#include <stdint.h>

#include "bare.h"

BARE_CHECK_IRQ(UART_IRQ);

int32_t chip_irq(uint32_t number) {
  if (number != (uint32_t)(UART_IRQ)) {
    return -1;
  }
  uart_irq();
  return 0;
}
