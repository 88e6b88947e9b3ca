// SPDX-License-Identifier: Apache-2.0
//
// Common code of all STM32 families (stm32.h): start sequence, pins, HSE, reset flags, unique id, random numbers,
// independent watchdog. Clocks and power are in the chips' files.
#include "chip/stm32/stm32.h"

#include <stdbool.h>
#include <stdint.h>

_Static_assert(((STM32_HSE_BYPASS) == 0) || (((STM32_HSE_BYPASS) == 1) && ((STM32_HSE_HZ) > 0)),
               "STM32_HSE_BYPASS: 1 if a clock of STM32_HSE_HZ is fed in, else 0");

int32_t stm32_wait(uint32_t address, uint32_t mask, uint32_t value, uint32_t timeout_ms) {
  // A turn takes the core at least 4 cycles, and far more where the bus is slow.
  const uint32_t turns = timeout_ms * ((chip_core_hz() / 4000U) + 1U);
  for (uint32_t i = 0; i < turns; i++) {
    if ((REG32(address) & mask) == value) {
      return 0;
    }
  }
  return -1;
}

void stm32_modify(uint32_t address, uint32_t mask, uint32_t value) {
  const uint32_t others = REG32(address) & ~mask;
  REG32(address) = others | value;
}

void stm32_enable(uint32_t address, uint32_t bits) {
  stm32_modify(address, bits, bits);
  (void)REG32(address);
}

// ---- Pins (RM0385 §6.4) ------------------------------------------------------------------------------------------

#define GPIO_MODER 0x00U    // two bits a pin
#define GPIO_OTYPER 0x04U   // one bit
#define GPIO_OSPEEDR 0x08U  // two
#define GPIO_PUPDR 0x0CU    // two
#define GPIO_BSRR 0x18U     // two: set, in the upper half clear
#define GPIO_AFR 0x20U      // four, in two registers
#define GPIO_PORT_BYTES 0x400U

#define MODER_OUTPUT 1U
#define MODER_ALTERNATE 2U
#define OSPEEDR_MEDIUM 1U
#define PUPDR_UP 1U  // an undriven line is idle

void stm32_pin(uint32_t gpio_base, uint32_t enable_register, uint32_t pin, uint32_t function) {
  const uint32_t port = gpio_base + (STM32_PIN_PORT(pin) * GPIO_PORT_BYTES);
  const uint32_t number = STM32_PIN_NUMBER(pin);
  const uint32_t two = 2U * number;
  const uint32_t four = 4U * (number % 8U);
  stm32_enable(enable_register, 1U << STM32_PIN_PORT(pin));
  stm32_modify(port + GPIO_AFR + (4U * (number / 8U)), 0xFU << four, function << four);
  stm32_modify(port + GPIO_OTYPER, 1U << number, 0U);
  stm32_modify(port + GPIO_OSPEEDR, 3U << two, OSPEEDR_MEDIUM << two);
  stm32_modify(port + GPIO_PUPDR, 3U << two, PUPDR_UP << two);
  stm32_modify(port + GPIO_MODER, 3U << two, MODER_ALTERNATE << two);  // last, to avoid a wrong function in between
}

#ifdef BOARDSMITH_MEASURE_PIN
uint32_t stm32_measure_bsrr;

void chip_measure(int32_t level) {
  REG32(stm32_measure_bsrr) = 1U << (STM32_PIN_NUMBER(BOARDSMITH_MEASURE_PIN) + ((level != 0) ? 0U : 16U));
}

void stm32_measure_pin(uint32_t gpio_base, uint32_t enable_register) {
  const uint32_t port = gpio_base + (STM32_PIN_PORT(BOARDSMITH_MEASURE_PIN) * GPIO_PORT_BYTES);
  const uint32_t number = STM32_PIN_NUMBER(BOARDSMITH_MEASURE_PIN);
  stm32_enable(enable_register, 1U << STM32_PIN_PORT(BOARDSMITH_MEASURE_PIN));
  stm32_measure_bsrr = port + GPIO_BSRR;
  chip_measure(0);
  stm32_modify(port + GPIO_OTYPER, 1U << number, 0U);
  stm32_modify(port + GPIO_OSPEEDR, 3U << (2U * number), OSPEEDR_MEDIUM << (2U * number));
  stm32_modify(port + GPIO_PUPDR, 3U << (2U * number), 0U);
  stm32_modify(port + GPIO_MODER, 3U << (2U * number), MODER_OUTPUT << (2U * number));
}
#endif

// ---- Clocks and reset flags --------------------------------------------------------------------------------------

bool stm32_has_clocks(void) { return REG32(stm32_chip.rcc_cr) != 0U; }

bool stm32_has_flash(void) {
  const uint32_t sets = stm32_chip.flash_prefetch | stm32_chip.flash_icache | stm32_chip.flash_dcache;
  return (sets == 0U) || (REG32(stm32_chip.flash_acr) != 0U);
}

int32_t stm32_hse_on(void) {
#if STM32_HSE_HZ > 0
  stm32_modify(stm32_chip.rcc_cr, RCC_CR_HSEBYP,
               ((STM32_HSE_BYPASS) != 0) ? RCC_CR_HSEBYP : 0U);  // only while it is off
  stm32_modify(stm32_chip.rcc_cr, RCC_CR_HSEON, RCC_CR_HSEON);
  return stm32_wait(stm32_chip.rcc_cr, RCC_CR_HSERDY, RCC_CR_HSERDY, STM32_HSE_MS);
#else
  return 0;
#endif
}

// Returns BARE_RESET_* for the reset flags, and clears them for the next reset.
static int32_t read_reset_cause(const stm32_resets_t* bits) {
  const uint32_t flags = REG32(bits->address);
  stm32_modify(bits->address, bits->clear, bits->clear);
  stm32_modify(bits->address, bits->clear, 0U);
  int32_t cause = 0;
  cause |= ((flags & bits->power) != 0U) ? BARE_RESET_POWER : 0;
  cause |= ((flags & bits->software) != 0U) ? BARE_RESET_SOFTWARE : 0;
  cause |= ((flags & bits->watchdog) != 0U) ? BARE_RESET_WATCHDOG : 0;
  cause |= ((flags & bits->other) != 0U) ? BARE_RESET_OTHER : 0;
  if ((cause == 0) && ((flags & bits->pin) != 0U)) {
    cause = BARE_RESET_PIN;
  }
  return cause;
}

// ---- Start and platform ------------------------------------------------------------------------------------------

static int32_t reset_cause = -1;

void chip_init(void) {
  if (!stm32_has_clocks()) {
    return;
  }
  reset_cause = read_reset_cause(stm32_chip.resets);
  stm32_chip.to_reset_clock();
  if (stm32_chip.to_pll() != 0) {
    stm32_chip.to_reset_clock();
    (void)stm32_chip.set_flash();  // too many wait states are harmless
  }
  if (stm32_chip.uart_select != 0U) {
    stm32_modify(stm32_uart.select_register, stm32_chip.uart_select << stm32_uart.select_pos,
                 0U);  // selects the bus's clock
  }
  stm32_chip.connect_pins();
}

uint32_t chip_core_hz(void) { return stm32_has_clocks() ? stm32_core_hz() : (uint32_t)(BOARDSMITH_CORE_HZ); }

uint32_t chip_uart_hz(void) {
  return stm32_has_clocks() ? stm32_bus_hz(stm32_uart.bus) : (uint32_t)(BOARDSMITH_CORE_HZ);
}

void chip_platform(struct bare_platform* p) {
  if (!stm32_has_clocks()) {
    return;
  }
  p->reset_cause = reset_cause;
  if (!stm32_has_flash()) {
    return;
  }
  const uint32_t acr = (stm32_chip.flash_acr != 0U) ? REG32(stm32_chip.flash_acr) : 0U;
  p->wait_states = (int32_t)(acr & FLASH_ACR_LATENCY);
  p->flags |= ((acr & stm32_chip.flash_prefetch) != 0U) ? (uint32_t)BARE_FLAG_PREFETCH : 0U;
  p->flags |= ((acr & stm32_chip.flash_icache) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;
  p->flags |= ((acr & stm32_chip.flash_dcache) != 0U) ? (uint32_t)BARE_FLAG_DCACHE : 0U;
}

// ---- Interrupt ---------------------------------------------------------------------------------------------------

int32_t chip_irq(uint32_t number) {
  if (number != stm32_uart.irq) {
    return -1;
  }
  uart_irq();
  return 0;
}

// ---- Unique id (the manuals' last chapter but one: Device electronic signature) -----------------------------------

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  enum { ID_BYTES = 12 };
  if (!stm32_has_clocks() || !stm32_has_flash()) {
    return 0;
  }
  const uint32_t size = (max_bytes < (uint32_t)ID_BYTES) ? max_bytes : (uint32_t)ID_BYTES;
  for (uint32_t i = 0; i < size; i++) {
    id[i] = (uint8_t)(REG32(stm32_chip.uid + (i & ~3U)) >> (8U * (i & 3U)));
  }
  return size;
}

// ---- Random numbers (RM0090 §24.4; the other manuals' RNG registers are the same) --------------------------------

#define RNG_CR 0x00U
#define RNG_SR 0x04U
#define RNG_DR 0x08U

#define RNG_CR_RNGEN (1U << 2)
#define RNG_SR_DRDY (1U << 0)
#define RNG_SR_CECS (1U << 1)  // no clock, or too slow
#define RNG_SR_SECS (1U << 2)  // a run of equal bits: the source is broken

#define RNG_MS 10U  // a word takes 40 cycles of 48 MHz, and several times that at the start and after an error

// Stores a word that differs from the last, as required by FIPS 140-2 (RM0090 §24.3.1).
static int32_t random_word(uint32_t last, uint32_t* word) {
  enum { TRIES = 4 };
  const uint32_t rng_base = stm32_chip.rng;
  for (uint32_t i = 0; i < (uint32_t)TRIES; i++) {
    if ((stm32_wait(rng_base + RNG_SR, RNG_SR_DRDY, RNG_SR_DRDY, RNG_MS) != 0) ||
        ((REG32(rng_base + RNG_SR) & (RNG_SR_CECS | RNG_SR_SECS)) != 0U)) {
      return -1;
    }
    *word = REG32(rng_base + RNG_DR);
    if ((*word != last) && (*word != 0U)) {
      return 0;
    }
  }
  return -1;
}

// Reads the generator, whose clock is on. Returns 0, or -1 if it fails.
static int32_t generate(uint8_t* data, uint32_t size_bytes) {
  const uint32_t control = stm32_chip.rng + RNG_CR;
  uint32_t word = 0;
  int32_t error = 0;
  if ((REG32(control) & RNG_CR_RNGEN) == 0U) {
    stm32_modify(control, RNG_CR_RNGEN, RNG_CR_RNGEN);
    error = random_word(0, &word);  // the first word must not be used
  }
  for (uint32_t i = 0; (i < size_bytes) && (error == 0); i++) {
    if ((i & 3U) == 0U) {
      error = random_word(word, &word);
    }
    data[i] = (uint8_t)(word >> (8U * (i & 3U)));
  }
  if (error != 0) {
    stm32_modify(control, RNG_CR_RNGEN, 0U);  // switching it off clears the error
  }
  return error;
}

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  return (stm32_has_clocks() && (stm32_rng_on() == 0)) ? generate(data, size_bytes) : -1;
}

// ---- Independent watchdog (RM0090 §21.4; the other manuals' IWDG registers begin the same) -----------------------

#define IWDG_KR 0x00U
#define IWDG_PR 0x04U
#define IWDG_RLR 0x08U
#define IWDG_SR 0x0CU

#define KR_START 0xCCCCU  // also starts its oscillator
#define KR_ACCESS 0x5555U
#define KR_FEED 0xAAAAU
#define SR_BUSY 3U  // PVU, RVU: PR and RLR are being transferred to the other clock domain
#define PR_MAX 6U   // divides by 4 << PR
#define RLR_MAX 0xFFFU

#define IWDG_MS 50U  // the oscillator's start, and five of its cycles at the largest prescaler

// Counts are those of the smallest prescaler.
bare_watchdog_t chip_watchdog(void) {
  return (bare_watchdog_t){.hz = (stm32_chip.lsi_max_hz + 3U) / 4U, .most = (RLR_MAX + 1U) << PR_MAX};
}

void chip_watchdog_start(uint32_t counts) {
  const uint32_t iwdg_base = stm32_chip.iwdg;
  if (!stm32_has_clocks()) {
    return;
  }
  uint32_t prescaler = 0;
  uint32_t scaled = counts;
  while (scaled > (RLR_MAX + 1U)) {
    prescaler++;
    scaled = (scaled + 1U) / 2U;
  }
  REG32(iwdg_base + IWDG_KR) = KR_START;
  REG32(iwdg_base + IWDG_KR) = KR_ACCESS;
  REG32(iwdg_base + IWDG_PR) = prescaler;
  REG32(iwdg_base + IWDG_RLR) = scaled - 1U;
  (void)stm32_wait(iwdg_base + IWDG_SR, SR_BUSY, 0U,
                   IWDG_MS);  // on failure the watchdog acts too early, but still works
  REG32(iwdg_base + IWDG_KR) = KR_FEED;
}

void chip_watchdog_feed(void) {
  if (stm32_has_clocks()) {
    REG32(stm32_chip.iwdg + IWDG_KR) = KR_FEED;
  }
}
