// SPDX-License-Identifier: Apache-2.0
//
// What the STM32 families have in common, and what their chip and UART files owe each other. Each chip's file knows
// one family's clocks and power; uart/stm32_usart_v1.c and uart/stm32_usart_v2.c know the two kinds of USART; shared.c
// has the blocks that are the same everywhere. Nothing here is for chips of other makers.
//
// Registers have the names and bits of the reference manuals: RM0090 (STM32F405), RM0368 (STM32F401), RM0385
// (STM32F746), RM0351 (STM32L475), RM0432 (STM32L4R5), RM0433 (STM32H743).
//
// A chip file's `defines`: CHIP_IRQS, and what the chip's C file names on top. A board's `defines`:
//   STM32_UART      the USART of the link: 1, 2, 3 or 6; 0 is LPUART1
//   STM32_UART_TX   STM32_PIN('D', 8), and its alternate function in STM32_UART_TX_AF
//   STM32_UART_RX   likewise, STM32_UART_RX_AF
//   STM32_HSE_HZ    the frequency at OSC_IN; 0 where nothing is connected
//   STM32_HSE_BYPASS  1: a clock is fed in; 0: a crystal
#ifndef BOARDSMITH_STM32_H_
#define BOARDSMITH_STM32_H_

#include <stdbool.h>
#include <stdint.h>

#include "bare.h"

// Of RCC_CR, in all families.
#define RCC_CR_HSEON (1U << 16)
#define RCC_CR_HSERDY (1U << 17)
#define RCC_CR_HSEBYP (1U << 18)
#define FLASH_ACR_LATENCY 0xFU  // of FLASH_ACR, likewise; 3 bits on the F405 and the L475, where the fourth reads 0
#define STM32_HSE_MS 100U       // a crystal: 2 ms typically

#define STM32_PIN(port, number) ((((port) - 'A') * 16) + (number))
#define STM32_PIN_PORT(pin) ((uint32_t)(pin) / 16U)
#define STM32_PIN_NUMBER(pin) ((uint32_t)(pin) % 16U)

// ---- What a chip file gives to the UART file and to shared.c -------------------------------------------------------

typedef struct stm32_uart {
  uint32_t base;             // of its registers
  uint32_t irq;              // its interrupt's number
  uint32_t enable_register;  // the RCC register that switches its clock on
  uint32_t enable_bit;
  uint32_t bus;              // its clock is that of this APB
  uint32_t select_register;  // the RCC register with its clock selector, where stm32_chip.uart_select is not 0
  uint32_t select_pos;
} stm32_uart_t;

// Each family has a table of its USARTs: for each number n that STM32_UART may be a row, the macro USART_n, which
// initializes a stm32_uart_t. STM32_OF_UART(USART_) is the row that STM32_UART names; a number without one does not
// compile.
#define STM32_JOIN(name, number) name##number
#define STM32_JOIN_EXPANDED(name, number) STM32_JOIN(name, number)
#define STM32_OF_UART(name) STM32_JOIN_EXPANDED(name, STM32_UART)

// The one that STM32_UART names.
extern const stm32_uart_t stm32_uart;

// The register with the reset flags, and which bits say what. That of the pin is set by every cause: it pulls the pin.
typedef struct stm32_resets {
  uint32_t address;
  uint32_t clear;  // RMVF
  uint32_t power;
  uint32_t pin;
  uint32_t software;
  uint32_t watchdog;
  uint32_t other;
} stm32_resets_t;

// A chip: where its registers are, and the operations on its clocks that differ between the families. chip_init calls
// to_reset_clock, to_pll and connect_pins, in this order; after a to_pll that failed, to_reset_clock again and
// set_flash. No other function calls them through the struct: the check of the stacks relies on that.
typedef struct stm32_chip {
  uint32_t rcc_cr;          // addresses: RCC_CR,
  uint32_t flash_acr;       // FLASH_ACR; 0: the flash has no wait states,
  uint32_t uid;             // the unique id's first word,
  uint32_t iwdg;            // the independent watchdog's registers,
  uint32_t rng;             // the random number generator's; 0: there is none
  uint32_t flash_prefetch;  // bits of FLASH_ACR, 0 where the flash has no such thing: the prefetch,
  uint32_t flash_icache;    // the instruction cache,
  uint32_t flash_dcache;    // the data cache. set_flash sets at least one of them, if there is any
  uint32_t uart_select;     // the mask of a USART's clock selector, unshifted; 0: the USARTs have none
  uint32_t lsi_max_hz;      // the watchdog's oscillator at its fastest, from the data sheet
  const stm32_resets_t* resets;

  // Runs the core on the oscillator of a reset (HSI, on the L4 MSI), with PLL and HSE off, whatever ran before.
  void (*to_reset_clock)(void);
  // Sets the supply's voltage and the flash, starts HSE and PLL, and makes the PLL the system clock: 0, or -1 if one of
  // them did not come.
  int32_t (*to_pll)(void);
  // Sets the flash's wait states for BOARDSMITH_CORE_HZ, and its caches: 0, or -1 if it did not take them.
  int32_t (*set_flash)(void);
  // Connects the USART to its pins.
  void (*connect_pins)(void);
} stm32_chip_t;

extern const stm32_chip_t stm32_chip;

// The clocks, computed from the registers as they are: the core's; that of APB 1, 2 (H7: or 4).
uint32_t stm32_core_hz(void);
uint32_t stm32_bus_hz(uint32_t bus);

// Makes the clock of the random number generator run: 0; -1 if it does not, or there is no generator.
int32_t stm32_rng_on(void);

// ---- shared.c, which also gives chip_* of bare.h but for chip_early ----------------------------------------------

// Whether there are clock registers. QEMU's machines of these chips have none: all of RCC reads 0 there, and no chip that
// runs has all its oscillators off. Nothing is then to be waited for, the clock is the machine's (BOARDSMITH_CORE_HZ),
// and what is not there is reported as unknown. The same image is right on the chip.
bool stm32_has_clocks(void);

// Whether there is a flash interface, once chip_init has switched caches on in it. QEMU's STM32L475 has clocks and no
// flash interface: FLASH_ACR reads 0 whatever is written, there is no wait state to be waited for, and of the flash's
// information block, which holds the unique id, nothing: to read it is a bus fault.
bool stm32_has_flash(void);

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

// Starts HSE, if the board has one: 0, or -1 if it does not start. HSE is off before.
int32_t stm32_hse_on(void);

// ---- Arithmetic --------------------------------------------------------------------------------------------------

// The divisor for USART_BRR at 16 samples a bit (RM0090 §30.3.4, whose 4 bits of fraction make one number with the
// rest; RM0385, USART baud rate generation): 16 to 65535.
static inline uint32_t stm32_usart_divisor(uint32_t clock_hz, uint32_t baud) { return (clock_hz + (baud / 2U)) / baud; }

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
