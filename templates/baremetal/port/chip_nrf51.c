// SPDX-License-Identifier: Apache-2.0
//
// Nordic's nRF51 (nRF51 Series Reference Manual 3.0). Its core runs at 16 MHz, always. Defines: NRF_UART_IRQ,
// NRF_UART_TX_PIN, NRF_UART_RX_PIN.
#include "bare.h"

#define CLOCK_HFCLKSTART REG32(0x40000000U)  // §13: tasks, events
#define CLOCK_HFCLKSTARTED REG32(0x40000100U)
#define POWER_RESETREAS REG32(0x40000400U)  // §12
#define FICR_DEVICEID(n) REG32(0x10000060U + (4U * (n)))  // §8.1
#define GPIO_OUTSET REG32(0x50000508U)                    // §14
#define GPIO_PIN_CNF(n) REG32(0x50000700U + (4U * (n)))
#define RNG_START REG32(0x4000D000U)  // §22
#define RNG_STOP REG32(0x4000D004U)
#define RNG_VALRDY REG32(0x4000D100U)
#define RNG_VALUE REG32(0x4000D508U)

#define RESETREAS_RESETPIN (1U << 0)
#define RESETREAS_DOG (1U << 1)
#define RESETREAS_SREQ (1U << 2)
#define RESETREAS_LOCKUP (1U << 3)
#define PIN_INPUT 0U
#define PIN_OUTPUT 3U
#define CORE_HZ 16000000U
#define CRYSTAL_LOOPS 100000U  // it takes less than 1.5 ms

_Static_assert((BOARDSMITH_CORE_HZ) == CORE_HZ, "this chip has one clock");

static uint32_t reset_reason;

void chip_early(void) {}

void chip_init(void) {
  reset_reason = POWER_RESETREAS;
  POWER_RESETREAS = reset_reason;  // writing 1 clears
  CLOCK_HFCLKSTARTED = 0;
  CLOCK_HFCLKSTART = 1;  // the crystal: the UART's rate is too far off without it
  for (uint32_t i = 0; (CLOCK_HFCLKSTARTED == 0U) && (i < CRYSTAL_LOOPS); i++) {
  }
  GPIO_OUTSET = 1U << (NRF_UART_TX_PIN);
  GPIO_PIN_CNF(NRF_UART_TX_PIN) = PIN_OUTPUT;
  GPIO_PIN_CNF(NRF_UART_RX_PIN) = PIN_INPUT;
}

uint32_t chip_core_hz(void) { return CORE_HZ; }
uint32_t chip_uart_hz(void) { return CORE_HZ; }

int32_t chip_irq(uint32_t number) {
  if (number != (uint32_t)(NRF_UART_IRQ)) {
    return -1;
  }
  uart_irq();
  return 0;
}

void chip_platform(struct bare_platform* p) {
  p->wait_states = 0;
  p->reset_cause = 0;
  p->reset_cause |= ((reset_reason & RESETREAS_RESETPIN) != 0U) ? BARE_RESET_PIN : 0;
  p->reset_cause |= ((reset_reason & RESETREAS_DOG) != 0U) ? BARE_RESET_WATCHDOG : 0;
  p->reset_cause |= ((reset_reason & RESETREAS_SREQ) != 0U) ? BARE_RESET_SOFTWARE : 0;
  p->reset_cause |= ((reset_reason & RESETREAS_LOCKUP) != 0U) ? BARE_RESET_FAULT : 0;
  if (reset_reason == 0U) {  // §12.2.5: a power-on or brown-out reset sets no bit; an emulator has no such register
    p->reset_cause = ((BOARDSMITH_EMULATED) != 0) ? -1 : BARE_RESET_POWER;
  }
}

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  const uint32_t bytes = (max_bytes < 8U) ? max_bytes : 8U;
  for (uint32_t i = 0; i < bytes; i++) {
    id[i] = (uint8_t)(FICR_DEVICEID(i / 4U) >> (8U * (i % 4U)));
  }
  return bytes;
}

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  int32_t result = 0;
  RNG_VALRDY = 0;
  RNG_START = 1;
  for (uint32_t i = 0; i < size_bytes; i++) {
    for (uint32_t wait = 0; (RNG_VALRDY == 0U) && (wait < CRYSTAL_LOOPS); wait++) {
    }
    result = (RNG_VALRDY != 0U) ? result : -1;
    RNG_VALRDY = 0;
    data[i] = (uint8_t)RNG_VALUE;
  }
  RNG_STOP = 1;
  return result;
}
