// SPDX-License-Identifier: 0BSD
//
// The MPS2 board with image AN386 (Arm DAI 0386): 25 MHz from the reset on, and a UART of Arm's CMSDK (DDI 0479).
#include "board.h"

#include "app.h"

// ---- Clock --------------------------------------------------------------------------------------------------------

enum { TICK_COUNTS = (int)BOARD_HZ / (int)TICK_HZ };

#define SYST_CSR REG(0xE000E010U)
#define SYST_RVR REG(0xE000E014U)
#define SYST_CVR REG(0xE000E018U)
#define ICSR REG(0xE000ED04U)
#define ICSR_TICK_PENDING (1U << 26)

static volatile uint32_t ticks;

void clock_start(void) {
  SYST_RVR = (uint32_t)TICK_COUNTS - 1U;
  SYST_CVR = 0;
  SYST_CSR = 7;  // the core's clock, interrupt, on
}

void clock_tick(const void* frame) {
  ticks++;
  app_tick(frame);
}

uint32_t clock_ms(void) { return ticks; }

// Also right in an interrupt, where a tick that is pending cannot be counted.
uint64_t clock_counts(void) {
  uint32_t before;
  uint32_t left;
  uint32_t uncounted;
  do {
    before = ticks;
    left = SYST_CVR;
    uncounted = 0;
    if ((ICSR & ICSR_TICK_PENDING) != 0U) {
      left = SYST_CVR;
      uncounted = 1;
    }
  } while (before != ticks);
  return ((uint64_t)(before + uncounted) * (uint32_t)TICK_COUNTS) + ((uint32_t)TICK_COUNTS - 1U - left);
}

// ---- UART ---------------------------------------------------------------------------------------------------------

#define UART_DATA REG(0x40004000U)
#define UART_STATE REG(0x40004004U)
#define UART_CTRL REG(0x40004008U)
#define UART_CLEAR REG(0x4000400CU)
#define UART_DIVIDER REG(0x40004010U)
#define UART_TX_FULL 1U
#define UART_RX_FULL 2U
#define NVIC_ENABLE REG(0xE000E100U)
#define NVIC_DISABLE REG(0xE000E180U)

enum { RING_BYTES = 1024, BAUD = 115200, SEND_MS = 2000 };

static uint8_t ring[RING_BYTES];
static volatile uint32_t head;  // bytes received
static volatile uint32_t tail;  // bytes that were used
static uint32_t lent;

void uart_start(void) {
  UART_DIVIDER = (uint32_t)BOARD_HZ / (uint32_t)BAUD;
  UART_CTRL = 0xB;  // transmitter, receiver, its interrupt
  NVIC_ENABLE = 1;
}

// A full ring disables the interrupt, and uart_read enables it again.
void uart_handler(void) {
  UART_CLEAR = 2;
  if ((UART_STATE & UART_RX_FULL) != 0U) {
    ring[head % (uint32_t)RING_BYTES] = (uint8_t)UART_DATA;
    head++;
  }
  if ((head - tail) == (uint32_t)RING_BYTES) {
    NVIC_DISABLE = 1;
  }
}

uint32_t uart_read(uint8_t** data) {
  tail += lent;
  NVIC_ENABLE = 1;
  const uint32_t there = head - tail;
  const uint32_t at = tail % (uint32_t)RING_BYTES;
  const uint32_t to_end = (uint32_t)RING_BYTES - at;
  lent = (there < to_end) ? there : to_end;
  *data = &ring[at];
  return lent;
}

int uart_write(uint8_t byte) {
  const uint32_t since = clock_ms();
  while ((UART_STATE & UART_TX_FULL) != 0U) {
    if ((clock_ms() - since) > (uint32_t)SEND_MS) {
      return -1;
    }
  }
  UART_DATA = byte;
  return 0;
}

// ---- Lamp and reset -----------------------------------------------------------------------------------------------

void lamp(uint32_t on) { REG(0x40028000U) = on; }

_Noreturn void board_reset(void) {
  REG(0xE000ED0CU) = 0x05FA0004U;  // AIRCR: SYSRESETREQ
  for (;;) {
  }
}
