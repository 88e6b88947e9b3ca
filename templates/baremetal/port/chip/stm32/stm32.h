// SPDX-License-Identifier: Apache-2.0
//
// Common declarations of the STM32 families, and the interfaces between their files: each chip's file has one family's
// clocks and power, uart/stm32_usart_v1.c and uart/stm32_usart_v2.c the two kinds of USART, and shared.c the common
// blocks.
//
// Registers have the names and bits of the reference manuals: RM0090 (STM32F405), RM0368 (STM32F401), RM0385
// (STM32F746), RM0351 (STM32L475), RM0432 (STM32L4R5), RM0433 (STM32H743).
//
// A chip file's `defines`: CHIP_IRQS, and those listed at the top of the chip's C file. A board's `defines`:
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

#ifndef STM32_UART
#error "STM32_UART: not defined: defines of the board file has the number of the link's USART"
#endif

// Of RCC_CR, in all families.
#define RCC_CR_HSEON (1U << 16)
#define RCC_CR_HSERDY (1U << 17)
#define RCC_CR_HSEBYP (1U << 18)
#define FLASH_ACR_LATENCY \
  0xFU                     // of FLASH_ACR, in all families; 3 bits on the F405 and the L475, where the fourth reads 0
#define STM32_HSE_MS 100U  // a crystal: 2 ms typically

// The number of a pin; -1 without such a pin.
#define STM32_PIN(port, number) (((number) < 16) ? ((((port) - 'A') * 16) + (number)) : -1)
#define STM32_PIN_PORT(pin) ((uint32_t)(pin) / 16U)
#define STM32_PIN_NUMBER(pin) ((uint32_t)(pin) % 16U)

// ---- Defined by a chip file, for the UART file and shared.c ------------------------------------------------------

typedef struct stm32_uart {
  uint32_t base;             // of its registers
  uint32_t irq;              // its interrupt's number
  uint32_t enable_register;  // the RCC register with its clock enable
  uint32_t enable_bit;
  uint32_t bus;              // the APB of its clock
  uint32_t select_register;  // the RCC register with its clock selector, if stm32_chip.uart_select is not 0
  uint32_t select_pos;
} stm32_uart_t;

// Each family has a table of its USARTs: for each valid number n of STM32_UART, the macro USART_n initializes a
// stm32_uart_t. STM32_OF_UART(USART_) is the row of STM32_UART; numbers without a row are errors.
// A family's, or a chip file's `defines`, STM32_UARTS has bit n of each of them.
#define STM32_JOIN(name, number) name##number
#define STM32_JOIN_EXPANDED(name, number) STM32_JOIN(name, number)
#define STM32_OF_UART(name) STM32_JOIN_EXPANDED(name, STM32_UART)

// The USART of STM32_UART.
extern const stm32_uart_t stm32_uart;

// The interrupt and the bus in the row of a table, for the compiler.
#define STM32_ROW_IRQ(base, irq, ...) (irq)
#define STM32_ROW_BUS(base, irq, enable_register, enable_bit, bus, ...) (bus)
#define STM32_EXPANDED(macro, row) macro(row)
#define STM32_UART_IRQ STM32_EXPANDED(STM32_ROW_IRQ, STM32_OF_UART(USART_))
#define STM32_UART_BUS STM32_EXPANDED(STM32_ROW_BUS, STM32_OF_UART(USART_))

// The register with the reset flags, and its bits. Every cause pulls the pin, and so sets the pin's bit.
typedef struct stm32_resets {
  uint32_t address;
  uint32_t clear;  // RMVF
  uint32_t power;
  uint32_t pin;
  uint32_t software;
  uint32_t watchdog;
  uint32_t other;
} stm32_resets_t;

// A chip: the addresses of its registers, and the operations on its clocks that differ between the families. chip_init
// calls to_reset_clock, to_pll and connect_pins, in this order; if to_pll fails, to_reset_clock again and set_flash. No
// other function may call them through the struct, because template.json lists the callers for the stack computation.
typedef struct stm32_chip {
  uint32_t rcc_cr;          // addresses: RCC_CR,
  uint32_t flash_acr;       // FLASH_ACR; 0: the flash has no wait states,
  uint32_t uid;             // the unique id's first word,
  uint32_t iwdg;            // the independent watchdog's registers,
  uint32_t rng;             // the random number generator's; 0: none
  uint32_t flash_prefetch;  // bits of FLASH_ACR, 0 if the flash has no such function: the prefetch,
  uint32_t flash_icache;    // the instruction cache,
  uint32_t flash_dcache;    // the data cache. set_flash sets at least one of them, if any exists
  uint32_t uart_select;     // the mask of a USART's clock selector, unshifted; 0: no selectors
  uint32_t lsi_max_hz;      // maximum frequency of the watchdog's oscillator, from the data sheet
  const stm32_resets_t* resets;

  // Switches the core to the oscillator of a reset (HSI; MSI on the L4), with PLL and HSE off, from any state.
  void (*to_reset_clock)(void);
  // Sets the supply's voltage and the flash, starts HSE and PLL, and makes the PLL the system clock. Returns 0, or -1
  // if one of these steps fails.
  int32_t (*to_pll)(void);
  // Sets the flash's wait states for BOARDSMITH_CORE_HZ, and its caches. Returns 0, or -1 if the settings have no
  // effect.
  int32_t (*set_flash)(void);
  // Connects the USART to its pins.
  void (*connect_pins)(void);
} stm32_chip_t;

extern const stm32_chip_t stm32_chip;

// Return clocks computed from the registers: the core's; that of APB 1 or 2 (H7: also 4).
uint32_t stm32_core_hz(void);
uint32_t stm32_bus_hz(uint32_t bus);

// Starts the clock of the random number generator. Returns 0; -1 if it does not run, or without a generator.
int32_t stm32_rng_on(void);

// ---- Defined by shared.c, besides chip_* of bare.h except chip_early ---------------------------------------------

// Returns whether clock registers exist. QEMU's machines of these chips have none: RCC reads 0, which is impossible on
// a running chip. The port then waits for nothing, uses the machine's clock (BOARDSMITH_CORE_HZ), and reports missing
// values as unknown. The same image works on the chip.
bool stm32_has_clocks(void);

// Returns whether a flash interface exists; valid after chip_init has enabled its caches. QEMU's STM32L475 has clocks
// and no flash interface: FLASH_ACR always reads 0, there are no wait states, and reading the unique id in the flash's
// information block is a bus fault.
bool stm32_has_flash(void);

// Reads the register until the masked bits equal value. Returns 0, or -1 after at least timeout_ms (and at most about
// five times that).
int32_t stm32_wait(uint32_t address, uint32_t mask, uint32_t value, uint32_t timeout_ms);

// Writes the masked bits of a register and keeps the others.
void stm32_modify(uint32_t address, uint32_t mask, uint32_t value);

// Sets bits in a clock enable register, and returns when the clock runs (RM0090 §7.2: after two cycles, one read).
void stm32_enable(uint32_t address, uint32_t bits);

// Makes a pin an output or input of a peripheral: push-pull, pulled up, of medium speed. gpio_base is GPIOA's; the
// ports' clocks are bits 0 and up of enable_register.
void stm32_pin(uint32_t gpio_base, uint32_t enable_register, uint32_t pin, uint32_t function);

#ifdef BOARDSMITH_MEASURE_PIN
// Makes the board's measure_pin an output that is low: push-pull, of medium speed. Arguments as in stm32_pin.
void stm32_measure_pin(uint32_t gpio_base, uint32_t enable_register);

// The address of BSRR of measure_pin's port, for chip_measure. stm32_measure_pin sets it, or a chip file with other
// ports.
extern uint32_t stm32_measure_bsrr;

#define STM32_MEASURE_PIN_IS_FREE(tx, rx)                                                  \
  _Static_assert(((BOARDSMITH_MEASURE_PIN) != (tx)) && ((BOARDSMITH_MEASURE_PIN) != (rx)), \
                 "measure_pin: a pin of the UART");                                        \
  _Static_assert(!STM32_IS_OSCILLATOR(BOARDSMITH_MEASURE_PIN), "measure_pin: a pin of the oscillator")
#endif

// Checks the pins of the UART and their functions.
#define STM32_CHECK_PINS                              \
  BARE_CHECK_UART_PINS(STM32_UART_TX, STM32_UART_RX); \
  STM32_CHECK_OSCILLATOR(STM32_UART_TX);              \
  STM32_CHECK_OSCILLATOR(STM32_UART_RX);              \
  STM32_CHECK_FUNCTION(STM32_UART_TX_AF);             \
  STM32_CHECK_FUNCTION(STM32_UART_RX_AF)
#define STM32_CHECK_FUNCTION(number) \
  _Static_assert(((number) >= 0) && ((number) <= 15), #number ": no function of a pin, 0 to 15")

// Checks that a clock is not connected to a pin of the UART: HSE at STM32_OSC_IN, of a chip's file, and a crystal also
// at the next pin; LSE at PC14 and PC15.
#define STM32_CHECK_OSCILLATOR(pin) _Static_assert(!STM32_IS_OSCILLATOR(pin), #pin ": a pin of the oscillator")
#define STM32_IS_OSCILLATOR(pin)                                                                      \
  ((((STM32_HSE_HZ) > 0) &&                                                                           \
    (((pin) == (STM32_OSC_IN)) || (((STM32_HSE_BYPASS) == 0) && ((pin) == ((STM32_OSC_IN) + 1))))) || \
   ((STM32_HAS_LSE) && (((pin) == STM32_PIN('C', 14)) || ((pin) == STM32_PIN('C', 15)))))
#ifdef STM32_LSE
#define STM32_HAS_LSE ((STM32_LSE) != 0)
#else
#define STM32_HAS_LSE 0
#endif

// Checks HSE against the data sheet's ranges: of a crystal, and of a clock that is fed in.
#define STM32_CHECK_HSE(crystal_least, crystal_most, clock_least, clock_most)                     \
  _Static_assert(((STM32_HSE_HZ) == 0) || ((STM32_HSE_BYPASS) != 0) ||                            \
                     (((STM32_HSE_HZ) >= (crystal_least)) && ((STM32_HSE_HZ) <= (crystal_most))), \
                 "STM32_HSE_HZ: the chip has no oscillator for a crystal of this frequency");     \
  _Static_assert(((STM32_HSE_HZ) == 0) || ((STM32_HSE_BYPASS) == 0) ||                            \
                     (((STM32_HSE_HZ) >= (clock_least)) && ((STM32_HSE_HZ) <= (clock_most))),     \
                 "STM32_HSE_HZ: the chip cannot be fed with a clock of this frequency")

// Starts HSE, if the board has one. Returns 0, or -1 if it does not start. HSE must be off.
int32_t stm32_hse_on(void);

// ---- Arithmetic --------------------------------------------------------------------------------------------------

// The divisor of BRR. USARTs: at 16 samples a bit (RM0090 §30.3.4, whose 4 bits of fraction make one number with the
// rest; RM0385, USART baud rate generation), 16 to 65535. LPUART: 256 times the clock over the rate (RM0432, LPUART
// baud rate generation), 0x300 to 0xFFFFF.
#if STM32_UART == 0
#define STM32_CLOCK_FACTOR 256U
#define STM32_DIVISOR_MIN 0x300U
#define STM32_DIVISOR_MAX 0xFFFFFU
#else
#define STM32_CLOCK_FACTOR 1U
#define STM32_DIVISOR_MIN 16U
#define STM32_DIVISOR_MAX 0xFFFFU
#endif
#define STM32_DIVISOR(clock_hz) \
  ((((uint64_t)(clock_hz)*STM32_CLOCK_FACTOR) + ((BOARDSMITH_BAUD) / 2U)) / (BOARDSMITH_BAUD))

// Checks the USART that a board file chooses, whose bus has this clock.
#define STM32_CHECK_UART(clock_hz)                                                                     \
  BARE_CHECK_IRQ(STM32_UART_IRQ);                                                                      \
  BARE_CHECK_RATE((uint64_t)(clock_hz)*STM32_CLOCK_FACTOR, STM32_DIVISOR(clock_hz), STM32_DIVISOR_MIN, \
                  STM32_DIVISOR_MAX)

// Returns the divisor of a 4-bit AHB prescaler field: 1, 2, 4, 8, 16, 64, 128, 256, 512 (no 32). HPRE; D1CPRE of the
// H7.
static inline uint32_t stm32_ahb_shift(uint32_t field) {
  const uint32_t shift = field & 7U;
  return ((field & 8U) == 0U) ? 0U : (shift + ((shift < 4U) ? 1U : 2U));
}

// Returns the divisor of a 3-bit APB prescaler field: 1, 2, 4, 8, 16. PPRE1, PPRE2; D*PPRE* of the H7.
static inline uint32_t stm32_apb_shift(uint32_t field) { return ((field & 4U) == 0U) ? 0U : ((field & 3U) + 1U); }

// The smallest APB prescaler, as a shift, that keeps a bus at max_hz or below, and its field.
#define STM32_APB_SHIFT(hclk_hz, max_hz) \
  (((hclk_hz) <= (max_hz))          ? 0U \
   : (((hclk_hz) >> 1) <= (max_hz)) ? 1U \
   : (((hclk_hz) >> 2) <= (max_hz)) ? 2U \
   : (((hclk_hz) >> 3) <= (max_hz)) ? 3U \
                                    : 4U)
#define STM32_APB_FIELD(shift) (((shift) == 0U) ? 0U : (3U + (shift)))

// Returns hz * n / d without loss of precision; n and d must be small enough.
static inline uint32_t stm32_scale(uint32_t hz, uint32_t n, uint32_t d) {
  return (d == 0U) ? 0U : (uint32_t)(((uint64_t)hz * n) / d);
}

#endif  // BOARDSMITH_STM32_H_
