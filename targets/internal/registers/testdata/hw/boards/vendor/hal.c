#include "acme100.h"

void enable(IRQn_Type number);

void hal_init(void) {
  UART0->STATUS = 1U;
  UART1->STATUS = 1U;
  enable(UART0_IRQn);
  enable(UART1_IRQn);
}
