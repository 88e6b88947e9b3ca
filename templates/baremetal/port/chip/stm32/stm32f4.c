// SPDX-License-Identifier: Apache-2.0
//
// chip_* of the STM32F4 (RM0090: STM32F405; RM0368: STM32F401): power scale, flash accelerator, USART pins, random
// numbers. f2_f4_f7_clocks.c has the clock tree. Without HSE the core stays on HSI at 16 MHz, and chip_core_hz returns
// that.
//
// QEMU's STM32F405 has no RCC, PWR, FLASH, GPIO and RNG (stm32_has_clocks).
//
// A chip file's `defines`: STM32_PWR_VOS and STM32_PWR_VOS_MASK (the power scale for core_hz), STM32_HAS_RNG.
#include <stdbool.h>
#include <stdint.h>

#include "chip/stm32/f2_f4_f7_clocks.h"

#define PWR_CR 0x40007000U  // RM0090 §5.4.1, RM0368 §5.4.1
#define PWR_CSR 0x40007004U
#define PWR_CSR_VOSRDY (1U << 14)

#define FLASH_ACR 0x40023C00U  // RM0090 §3.9.1, RM0368 §3.8.1
#define FLASH_ACR_PRFTEN (1U << 8)
#define FLASH_ACR_ICEN (1U << 9)
#define FLASH_ACR_DCEN (1U << 10)

#define DBGMCU_IDCODE 0xE0042000U  // RM0090 §38.6.1
#define DBGMCU_DEV_ID 0xFFFU
#define DEV_F405 0x413U
#define DEV_F405_REV_A 0x411U  // ES0182, MCU device ID is incorrect: the id of an STM32F2, which has a Cortex-M3
#define REV_F405_Z 0x1001U

#define UID_BASE 0x1FFF7A10U  // RM0090 §39.1

// One wait state more for every 30 MHz, at 2.7 to 3.6 V (RM0090 table 10, RM0368 table 6).
#define WAIT_STATES ((PLL_CORE_HZ - 1U) / 30000000U)

#define VOS_MS 5U
#define FLASH_MS 1U

const stm32_uart_t stm32_uart = STM32_OF_UART(USART_);

// On revision A of the F405 prefetch is broken (ES0182, ART accelerator prefetch queue).
static uint32_t prefetch_bit(void) {
  const uint32_t id = REG32(DBGMCU_IDCODE);
  const uint32_t device = id & DBGMCU_DEV_ID;
  const bool revision_a = (device == DEV_F405_REV_A) || ((device == DEV_F405) && ((id >> 16) < REV_F405_Z));
  return revision_a ? 0U : FLASH_ACR_PRFTEN;
}

static int32_t set_flash(void) {
  stm32_modify(FLASH_ACR, FLASH_ACR_LATENCY | FLASH_ACR_PRFTEN | FLASH_ACR_ICEN | FLASH_ACR_DCEN,
               WAIT_STATES | prefetch_bit() | FLASH_ACR_ICEN | FLASH_ACR_DCEN);
  return stm32_wait(FLASH_ACR, FLASH_ACR_LATENCY, WAIT_STATES, FLASH_MS);
}

// RM0090 §5.1.3: the scale is set while the PLL is off, and applies when it is on.
static int32_t to_pll(void) {
  stm32_enable(RCC_APB1ENR, RCC_APB1ENR_PWREN);
  stm32_modify(PWR_CR, STM32_PWR_VOS_MASK, STM32_PWR_VOS);
  if ((stm32f_pll_on() != 0) || (stm32f_pll_ready() != 0) ||
      (stm32_wait(PWR_CSR, PWR_CSR_VOSRDY, PWR_CSR_VOSRDY, VOS_MS) != 0) || (set_flash() != 0)) {
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
    .flash_icache = FLASH_ACR_ICEN,
    .flash_dcache = FLASH_ACR_DCEN,
    .lsi_max_hz = LSI_MAX_HZ,
    .resets = &stm32f_resets,
    .to_reset_clock = stm32f_to_hsi,
    .to_pll = to_pll,
    .set_flash = set_flash,
    .connect_pins = stm32f_connect_pins,
};

void chip_early(void) {}

int32_t stm32_rng_on(void) {
#if STM32_HAS_RNG
  stm32_enable(RCC_AHB2ENR, RCC_AHB2ENR_RNGEN);  // clocked by PLLQ
  return 0;
#else
  return -1;
#endif
}
