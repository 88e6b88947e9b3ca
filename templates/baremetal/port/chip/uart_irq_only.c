// SPDX-License-Identifier: Apache-2.0
//
// chip_irq (bare.h) of a chip whose UART is all that interrupts. A chip with another source, or one that is told only at
// run time, has its own in place of this file. Defines: UART_IRQ, the UART's external interrupt.
#include <stdint.h>

#include "bare.h"

int32_t chip_irq(uint32_t number) {
  if (number != (uint32_t)(UART_IRQ)) {
    return -1;
  }
  uart_irq();
  return 0;
}
