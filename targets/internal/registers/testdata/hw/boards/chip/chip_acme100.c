#include "chip_acme100.h"

#define UART_DATA REG32(UART_BASE + 0x00U)
#define CHANNEL(n) REG32(0x40002010U + (0x10U * (n)))
#define HALF (*(volatile const uint16_t*)0x40002026U)
#define COUNT 1000000U
#define SYSTICK REG32(0xE000E010U)
#define IN_RAM REG32(0x20000100U)
#define SIGNATURE REG32(0x1FFF0000U)

struct uart {
  uint32_t base;
  uint32_t irq;
  uint32_t bit;
};

static const struct uart uart = SELECTED(0);

void chip_early(void) {}

void chip_init(void) {
  CLOCK_CTRL = CLOCK_CTRL_ON | (CLOCK_CTRL_SOURCE << 12) | (1U << CLOCK_CTRL_DIV_Pos);
  CLOCK_CTRL &= ~CLOCK_CTRL_DIV;
  acme_wait(CLOCK_STATUS, STATUS_READY);
  UART_DATA = COUNT;
  CHANNEL(0) = HALF;
  CHANNEL(2) = uart.bit;
  REG32(UART_BASE + 0x04U) = SIGNATURE;
  REG32(uart.base + 0x104U) = SYSTICK + IN_RAM;
}
