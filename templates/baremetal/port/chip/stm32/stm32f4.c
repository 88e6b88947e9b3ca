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
#define FLASH_ACR_LATENCY 0xFU  // 3 bits on the F405, where the fourth reads 0
#define FLASH_ACR_PRFTEN (1U << 8)
#define FLASH_ACR_ICEN (1U << 9)
#define FLASH_ACR_DCEN (1U << 10)

#define DBGMCU_IDCODE 0xE0042000U  // RM0090 §38.6.1
#define DBGMCU_DEV_ID 0xFFFU
#define DEV_F405 0x413U
#define DEV_F405_REV_A 0x411U  // ES0182, MCU device ID is incorrect: an STM32F2's, whose core is a Cortex-M3
#define REV_F405_Z 0x1001U

#define UID_BASE 0x1FFF7A10U  // RM0090 §39.1

// One wait state more for every 30 MHz, at 2.7 to 3.6 V (RM0090 table 10, RM0368 table 6).
#define WAIT_STATES ((PLL_CORE_HZ - 1U) / 30000000U)

#define VOS_MS 5U
#define FLASH_MS 1U

#if STM32_UART == 1
const stm32_uart_t stm32_uart = {0x40011000U, 37U, RCC_APB2ENR, 4U};
#define UART_BUS 2U
#elif STM32_UART == 2
const stm32_uart_t stm32_uart = {0x40004400U, 38U, RCC_APB1ENR, 17U};
#define UART_BUS 1U
#elif STM32_UART == 6
const stm32_uart_t stm32_uart = {0x40011400U, 71U, RCC_APB2ENR, 5U};
#define UART_BUS 2U
#elif STM32_UART == 3
const stm32_uart_t stm32_uart = {0x40004800U, 39U, RCC_APB1ENR, 18U};  // not on the F401
#define UART_BUS 1U
#else
#error "STM32_UART names no USART of the STM32F4"
#endif

const stm32_chip_t stm32_chip = {
    .rcc_cr = RCC_CR, .uid = UID_BASE, .iwdg = IWDG_BASE, .rng = RNG_BASE, .lsi_max_hz = LSI_MAX_HZ};

static int32_t reset_cause = -1;

// On revision A of the F405 prefetch is broken (ES0182, ART accelerator prefetch queue).
static uint32_t prefetch_bit(void) {
  const uint32_t id = REG32(DBGMCU_IDCODE);
  const uint32_t device = id & DBGMCU_DEV_ID;
  const bool revision_a = (device == DEV_F405_REV_A) || ((device == DEV_F405) && ((id >> 16) < REV_F405_Z));
  return revision_a ? 0U : FLASH_ACR_PRFTEN;
}

static int32_t flash_ready(void) {
  stm32_modify(FLASH_ACR, FLASH_ACR_LATENCY | FLASH_ACR_PRFTEN | FLASH_ACR_ICEN | FLASH_ACR_DCEN,
               WAIT_STATES | prefetch_bit() | FLASH_ACR_ICEN | FLASH_ACR_DCEN);
  return stm32_wait(FLASH_ACR, FLASH_ACR_LATENCY, WAIT_STATES, FLASH_MS);
}

// RM0090 §5.1.3: the scale is set while the PLL is off, and holds once it is on.
static int32_t clocks_on(void) {
  stm32_enable(RCC_APB1ENR, RCC_APB1ENR_PWREN);
  stm32_modify(PWR_CR, STM32_PWR_VOS_MASK, STM32_PWR_VOS);
  if ((stm32f_pll_on() != 0) || (stm32f_pll_ready() != 0) ||
      (stm32_wait(PWR_CSR, PWR_CSR_VOSRDY, PWR_CSR_VOSRDY, VOS_MS) != 0) || (flash_ready() != 0)) {
    return -1;
  }
  return stm32f_to_pll();
}

void chip_early(void) {}

void chip_init(void) {
  if (!stm32_has_clocks()) {
    return;
  }
  reset_cause = stm32_reset_cause(&stm32f_resets);
  stm32f_to_hsi();
  if (clocks_on() != 0) {
    stm32f_to_hsi();
    (void)flash_ready();  // too many wait states harm nobody
  }
  stm32_pin(GPIOA_BASE, RCC_AHB1ENR, STM32_UART_TX, STM32_UART_TX_AF);
  stm32_pin(GPIOA_BASE, RCC_AHB1ENR, STM32_UART_RX, STM32_UART_RX_AF);
}

uint32_t chip_core_hz(void) { return stm32_has_clocks() ? stm32f_hclk_hz() : (uint32_t)(BOARDSMITH_CORE_HZ); }

uint32_t chip_uart_hz(void) { return stm32_has_clocks() ? stm32f_pclk_hz(UART_BUS) : (uint32_t)(BOARDSMITH_CORE_HZ); }

void chip_platform(struct bare_platform* p) {
  if (!stm32_has_clocks()) {
    return;
  }
  const uint32_t acr = REG32(FLASH_ACR);
  p->wait_states = (int32_t)(acr & FLASH_ACR_LATENCY);
  p->flags |= ((acr & FLASH_ACR_PRFTEN) != 0U) ? (uint32_t)BARE_FLAG_PREFETCH : 0U;
  p->flags |= ((acr & FLASH_ACR_ICEN) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;
  p->flags |= ((acr & FLASH_ACR_DCEN) != 0U) ? (uint32_t)BARE_FLAG_DCACHE : 0U;
  p->reset_cause = reset_cause;
}

int32_t stm32_rng_on(void) {
#if STM32_HAS_RNG
  stm32_enable(RCC_AHB2ENR, RCC_AHB2ENR_RNGEN);  // it runs on PLLQ
  return 0;
#else
  return -1;
#endif
}
