// SPDX-License-Identifier: Apache-2.0
//
// chip_* of the STM32F7 (RM0385: STM32F746): power scale and over-drive, flash accelerator, USART pins, random numbers.
// f2_f4_f7_clocks.c has the clock tree. Without HSE the core stays on HSI at 16 MHz; chip_core_hz returns that.
//
// Code runs from 0x08000000, the AXIM interface, with the core's caches. The flash accelerator (ART) and its prefetch
// only work for the ITCM interface at 0x00200000; they are enabled for code placed there.
#include <stdint.h>

#include "chip/stm32/f2_f4_f7_clocks.h"

#define PWR_CR1 0x40007000U  // RM0385 §4.4: PWR registers
#define PWR_CSR1 0x40007004U
#define PWR_CR1_VOS (3U << 14)  // 3: scale 1
#define PWR_CR1_ODEN (1U << 16)
#define PWR_CR1_ODSWEN (1U << 17)
#define PWR_CSR1_VOSRDY (1U << 14)
#define PWR_CSR1_ODRDY (1U << 16)
#define PWR_CSR1_ODSWRDY (1U << 17)

#define FLASH_ACR 0x40023C00U  // RM0385 §3.7.1
#define FLASH_ACR_PRFTEN (1U << 8)
#define FLASH_ACR_ARTEN (1U << 9)
#define FLASH_ACR_ARTRST (1U << 11)

#define UID_BASE 0x1FF0F420U  // RM0385, Unique device ID register

// One wait state more for every 30 MHz, at 2.7 to 3.6 V (RM0385 table 5).
#define WAIT_STATES ((PLL_CORE_HZ - 1U) / 30000000U)
#define OVER_DRIVE_HZ 180000000U  // above it the regulator needs over-drive (RM0385 §4.1.4)

#define VOS_MS 5U
#define OVER_DRIVE_MS 5U
#define FLASH_MS 1U

const stm32_uart_t stm32_uart = STM32_OF_UART(USART_);

static int32_t set_flash(void) {
  stm32_modify(FLASH_ACR, FLASH_ACR_ARTEN, 0U);
  stm32_modify(FLASH_ACR, FLASH_ACR_ARTRST, FLASH_ACR_ARTRST);  // clears it; only possible while it is off
  stm32_modify(FLASH_ACR, FLASH_ACR_ARTRST, 0U);
  stm32_modify(FLASH_ACR, FLASH_ACR_LATENCY | FLASH_ACR_PRFTEN | FLASH_ACR_ARTEN,
               WAIT_STATES | FLASH_ACR_PRFTEN | FLASH_ACR_ARTEN);
  return stm32_wait(FLASH_ACR, FLASH_ACR_LATENCY, WAIT_STATES, FLASH_MS);
}

static int32_t over_drive_on(void) {
  if (PLL_CORE_HZ <= OVER_DRIVE_HZ) {
    return 0;
  }
  stm32_modify(PWR_CR1, PWR_CR1_ODEN, PWR_CR1_ODEN);
  if (stm32_wait(PWR_CSR1, PWR_CSR1_ODRDY, PWR_CSR1_ODRDY, OVER_DRIVE_MS) != 0) {
    return -1;
  }
  stm32_modify(PWR_CR1, PWR_CR1_ODSWEN, PWR_CR1_ODSWEN);
  return stm32_wait(PWR_CSR1, PWR_CSR1_ODSWRDY, PWR_CSR1_ODSWRDY, OVER_DRIVE_MS);
}

// RM0385 §4.1.4, entering over-drive mode: while on HSI or HSE, set the scale, start the PLL, enable over-drive, switch
// to its voltage, set wait states, and then make the PLL the system clock.
static int32_t to_pll(void) {
  stm32_enable(RCC_APB1ENR, RCC_APB1ENR_PWREN);
  stm32_modify(PWR_CR1, PWR_CR1_VOS, PWR_CR1_VOS);
  if ((stm32f_pll_on() != 0) || (over_drive_on() != 0) || (set_flash() != 0) || (stm32f_pll_ready() != 0) ||
      (stm32_wait(PWR_CSR1, PWR_CSR1_VOSRDY, PWR_CSR1_VOSRDY, VOS_MS) != 0)) {
    return -1;
  }
  return stm32f_to_pll();
}

const stm32_chip_t stm32_chip = {
    .rcc_cr = RCC_CR,
    .flash_acr = FLASH_ACR,
    .uid = UID_BASE,
    .iwdg = IWDG_BASE,
    .rng = RNG_BASE,
    .flash_prefetch = FLASH_ACR_PRFTEN,
    .uart_select = 3U,
    .lsi_max_hz = LSI_MAX_HZ,
    .resets = &stm32f_resets,
    .to_reset_clock = stm32f_to_hsi,
    .to_pll = to_pll,
    .set_flash = set_flash,
    .connect_pins = stm32f_connect_pins,
};

void chip_early(void) {}

int32_t stm32_rng_on(void) {
  stm32_enable(RCC_AHB2ENR, RCC_AHB2ENR_RNGEN);  // clocked by PLLQ
  return 0;
}
