// SPDX-License-Identifier: Apache-2.0
//
// What the STM32 families have in common, and what their chip and UART files owe each other. Each chip_stm32*.c knows
// one family's clocks and power; uart_stm32v1.c and uart_stm32v2.c know the two kinds of USART; stm32.c has the blocks
// that are the same everywhere. Nothing here is for chips of other makers.
//
// Registers have the names and bits of the reference manuals: RM0090 (STM32F405), RM0368 (STM32F401), RM0385
// (STM32F746), RM0432 (STM32L4R5), RM0433 (STM32H743).
//
// A chip file's `defines`: CHIP_IRQS, and what its chip_stm32*.c names on top. A board's `defines`:
//   STM32_UART      the USART of the link: 1, 2, 3 or 6; 0 is LPUART1
//   STM32_UART_TX   STM32_PIN('D', 8), and its alternate function in STM32_UART_TX_AF
//   STM32_UART_RX   likewise, STM32_UART_RX_AF
//   STM32_HSE_HZ    the frequency at OSC_IN; 0 where nothing is connected
//   STM32_HSE_BYPASS  1: a clock is fed in; 0: a crystal
#ifndef BOARDSMITH_STM32_H_
#define BOARDSMITH_STM32_H_

#include <stdint.h>

#include "bare.h"

#define STM32_PIN(port, number) ((((port) - 'A') * 16) + (number))
#define STM32_PIN_PORT(pin) ((uint32_t)(pin) / 16U)
#define STM32_PIN_NUMBER(pin) ((uint32_t)(pin) % 16U)

// ---- What a chip file gives to a UART file -----------------------------------------------------------------------

typedef struct stm32_uart {
  uint32_t base;             // of its registers
  uint32_t irq;              // its interrupt's number
  uint32_t enable_register;  // the RCC register that switches its clock on
  uint32_t enable_bit;
} stm32_uart_t;

// The one that STM32_UART names.
extern const stm32_uart_t stm32_uart;

// ---- stm32.c -----------------------------------------------------------------------------------------------------

// Reads the register until the masked bits are value: 0, or -1 if they are not after timeout_ms at least (about five
// times that at most).
int32_t stm32_wait(uint32_t address, uint32_t mask, uint32_t value, uint32_t timeout_ms);

// Writes the masked bits of a register, and leaves the others.
void stm32_modify(uint32_t address, uint32_t mask, uint32_t value);

// Sets bits in a clock enable register, and does not come back before the clock runs (RM0090 §7.2, the delay after an
// RCC peripheral clock enabling, is two cycles: one read).
void stm32_enable(uint32_t address, uint32_t bits);

// Makes a pin an output or input of a peripheral: push-pull, pulled up, of medium speed. gpio_base is GPIOA's; the
// ports' clocks are bits 0 and up of enable_register.
void stm32_pin(uint32_t gpio_base, uint32_t enable_register, uint32_t pin, uint32_t function);

// Copies the 96-bit unique id, at most max_bytes; returns how much.
uint32_t stm32_unique_id(uint32_t base, uint8_t* id, uint32_t max_bytes);

// Fills data from the random number generator, whose clocks are on. Returns 0; -1 if it does not work.
int32_t stm32_random(uint32_t rng_base, uint8_t* data, uint32_t size_bytes);

// Starts the independent watchdog: it bites not before ms after a feed even if its oscillator runs at lsi_max_hz, the
// data sheet's upper end. Longer than the counter reaches: as long as it can.
void stm32_watchdog_start(uint32_t iwdg_base, uint32_t ms, uint32_t lsi_max_hz);
void stm32_watchdog_feed(uint32_t iwdg_base);

// ---- Arithmetic --------------------------------------------------------------------------------------------------

// The divisor for USART_BRR at 16 samples a bit (RM0090 §30.3.4, whose 4 bits of fraction make one number with the
// rest; RM0385, USART baud rate generation): 16 to 65535.
static inline uint32_t stm32_usart_divisor(uint32_t clock_hz, uint32_t baud) {
  return (clock_hz + (baud / 2U)) / baud;
}

// The divisor for LPUART_BRR: 256 times the clock over the rate (RM0432, LPUART baud rate generation), 0x300 to
// 0xFFFFF.
static inline uint32_t stm32_lpuart_divisor(uint32_t clock_hz, uint32_t baud) {
  return (uint32_t)((((uint64_t)clock_hz * 256U) + (baud / 2U)) / baud);
}

// What a 4-bit AHB prescaler field divides by: 1, 2, 4, 8, 16, 64, 128, 256, 512 (no 32). HPRE; D1CPRE of the H7.
static inline uint32_t stm32_ahb_shift(uint32_t field) {
  const uint32_t shift = field & 7U;
  return ((field & 8U) == 0U) ? 0U : (shift + ((shift < 4U) ? 1U : 2U));
}

// What a 3-bit APB prescaler field divides by: 1, 2, 4, 8, 16. PPRE1, PPRE2; D*PPRE* of the H7.
static inline uint32_t stm32_apb_shift(uint32_t field) { return ((field & 4U) == 0U) ? 0U : ((field & 3U) + 1U); }

// The smallest APB prescaler field that keeps a bus at max_hz or below.
static inline uint32_t stm32_apb_field(uint32_t hclk_hz, uint32_t max_hz) {
  uint32_t shift = 0;
  while (((hclk_hz >> shift) > max_hz) && (shift < 4U)) {
    shift++;
  }
  return (shift == 0U) ? 0U : (4U + (shift - 1U));
}

// Numerator and denominator small enough, quotients may have a fraction: hz * n / d without losing any of it.
static inline uint32_t stm32_scale(uint32_t hz, uint32_t n, uint32_t d) {
  return (d == 0U) ? 0U : (uint32_t)(((uint64_t)hz * n) / d);
}

#endif  // BOARDSMITH_STM32_H_
