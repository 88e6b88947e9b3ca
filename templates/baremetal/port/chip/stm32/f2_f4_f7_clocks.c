// SPDX-License-Identifier: Apache-2.0
//
// The clock tree of the families F2, F4 and F7 (f2_f4_f7_clocks.h): switching between HSI and the PLL, and computing
// clocks from the registers. Wait states and voltages are in the chip files.
#include "chip/stm32/f2_f4_f7_clocks.h"

#include <stdint.h>

_Static_assert((PLL_IN_HZ * PLL_M) == PLL_SOURCE_HZ, "STM32_HSE_HZ: not a whole number of MHz");
_Static_assert((PLL_IN_HZ >= 1000000U) && (PLL_IN_HZ <= 2000000U) && (PLL_M >= 2U) && (PLL_M <= 63U),
               "STM32_HSE_HZ: the PLL cannot divide it to 1 or 2 MHz");
_Static_assert((PLL_N * PLL_IN_HZ) == PLL_VCO_HZ, "core_hz: cannot be made from STM32_HSE_HZ");
_Static_assert((PLL_N >= 50U) && (PLL_N <= 432U), "core_hz: PLLN is out of its range");
_Static_assert((PLL_VCO_HZ >= PLL_VCO_MIN_HZ) && (PLL_VCO_HZ <= PLL_VCO_MAX_HZ),
               "core_hz: out of the range of the PLL");
_Static_assert((PLL_Q >= 2U) && (PLL_Q <= 15U), "core_hz: PLLQ is out of its range");
_Static_assert(PLL_CORE_HZ <= (STM32_CORE_MAX_HZ), "core_hz: more than the maximum of the chip");

#define APB1_SHIFT STM32_APB_SHIFT(PLL_CORE_HZ, (uint32_t)(STM32_APB1_MAX_HZ))
#define APB2_SHIFT STM32_APB_SHIFT(PLL_CORE_HZ, (uint32_t)(STM32_APB2_MAX_HZ))
STM32_CHECK_HSE(4000000, 26000000, 1000000, 50000000);  // DS8626, DS10086, DS10916: HSE characteristics
STM32_CHECK_PINS;
STM32_CHECK_UART(PLL_CORE_HZ >> ((STM32_UART_BUS == 1U) ? APB1_SHIFT : APB2_SHIFT));

#define HSI_MS 5U     // data sheets: microseconds
#define PLL_MS 5U     // 300 us at most
#define SWITCH_MS 5U  // a few cycles of the slower clock

void stm32f_to_hsi(void) {
  stm32_modify(RCC_CR, RCC_CR_HSION, RCC_CR_HSION);
  (void)stm32_wait(RCC_CR, RCC_CR_HSIRDY, RCC_CR_HSIRDY, HSI_MS);  // cannot fail on a working chip
  stm32_modify(RCC_CFGR, RCC_CFGR_SW | RCC_CFGR_HPRE, 0U);
  (void)stm32_wait(RCC_CFGR, RCC_CFGR_SWS, 0U, SWITCH_MS);
  stm32_modify(RCC_CR, RCC_CR_PLLON, 0U);
  (void)stm32_wait(RCC_CR, RCC_CR_PLLRDY, 0U, PLL_MS);
  stm32_modify(RCC_CR, RCC_CR_HSEON, 0U);
  (void)stm32_wait(RCC_CR, RCC_CR_HSERDY, 0U, STM32_HSE_MS);
}

int32_t stm32f_pll_on(void) {
  if (stm32_hse_on() != 0) {
    return -1;
  }
  const uint32_t source = ((STM32_HSE_HZ) > 0) ? RCC_PLLCFGR_PLLSRC : 0U;
  stm32_modify(RCC_PLLCFGR,
               RCC_PLLCFGR_PLLM | RCC_PLLCFGR_PLLN | RCC_PLLCFGR_PLLP | RCC_PLLCFGR_PLLSRC | RCC_PLLCFGR_PLLQ,
               (PLL_M << RCC_PLLCFGR_PLLM_Pos) | (PLL_N << RCC_PLLCFGR_PLLN_Pos) |
                   (((PLL_P / 2U) - 1U) << RCC_PLLCFGR_PLLP_Pos) | source | (PLL_Q << RCC_PLLCFGR_PLLQ_Pos));
  stm32_modify(RCC_CR, RCC_CR_PLLON, RCC_CR_PLLON);
  return 0;
}

int32_t stm32f_pll_ready(void) { return stm32_wait(RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY, PLL_MS); }

int32_t stm32f_to_pll(void) {
  stm32_modify(
      RCC_CFGR, RCC_CFGR_HPRE | RCC_CFGR_PPRE1 | RCC_CFGR_PPRE2,
      (STM32_APB_FIELD(APB1_SHIFT) << RCC_CFGR_PPRE1_Pos) | (STM32_APB_FIELD(APB2_SHIFT) << RCC_CFGR_PPRE2_Pos));
  stm32_modify(RCC_CFGR, RCC_CFGR_SW, RCC_CFGR_SW_PLL);
  return stm32_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SW_PLL << RCC_CFGR_SWS_Pos, SWITCH_MS);
}

void stm32f_connect_pins(void) {
  stm32_pin(GPIOA_BASE, RCC_AHB1ENR, STM32_UART_TX, STM32_UART_TX_AF);
  stm32_pin(GPIOA_BASE, RCC_AHB1ENR, STM32_UART_RX, STM32_UART_RX_AF);
#ifdef BOARDSMITH_MEASURE_PIN
  STM32_MEASURE_PIN_IS_FREE(STM32_UART_TX, STM32_UART_RX);
  stm32_measure_pin(GPIOA_BASE, RCC_AHB1ENR);
#endif
}

// ---- Clocks from the registers -----------------------------------------------------------------------------------

static uint32_t pll_hz(void) {
  const uint32_t cfg = REG32(RCC_PLLCFGR);
  const uint32_t source = ((cfg & RCC_PLLCFGR_PLLSRC) != 0U) ? (uint32_t)(STM32_HSE_HZ) : HSI_HZ;
  const uint32_t m = (cfg & RCC_PLLCFGR_PLLM) >> RCC_PLLCFGR_PLLM_Pos;
  const uint32_t n = (cfg & RCC_PLLCFGR_PLLN) >> RCC_PLLCFGR_PLLN_Pos;
  const uint32_t p = 2U * (((cfg & RCC_PLLCFGR_PLLP) >> RCC_PLLCFGR_PLLP_Pos) + 1U);
  return stm32_scale(source, n, m * p);
}

static uint32_t sysclk_hz(void) {
  switch ((REG32(RCC_CFGR) & RCC_CFGR_SWS) >> RCC_CFGR_SWS_Pos) {
    case 0:
      return HSI_HZ;
    case 1:
      return (uint32_t)(STM32_HSE_HZ);
    default:
      return pll_hz();
  }
}

uint32_t stm32_core_hz(void) {
  return sysclk_hz() >> stm32_ahb_shift((REG32(RCC_CFGR) & RCC_CFGR_HPRE) >> RCC_CFGR_HPRE_Pos);
}

uint32_t stm32_bus_hz(uint32_t bus) {
  const uint32_t cfgr = REG32(RCC_CFGR);
  const uint32_t field =
      (bus == 1U) ? ((cfgr & RCC_CFGR_PPRE1) >> RCC_CFGR_PPRE1_Pos) : ((cfgr & RCC_CFGR_PPRE2) >> RCC_CFGR_PPRE2_Pos);
  return stm32_core_hz() >> stm32_apb_shift(field);
}

const stm32_resets_t stm32f_resets = {
    .address = RCC_CSR,
    .clear = RCC_CSR_RMVF,
    .power = RCC_CSR_PORRSTF | RCC_CSR_BORRSTF,
    .pin = RCC_CSR_PINRSTF,
    .software = RCC_CSR_SFTRSTF,
    .watchdog = RCC_CSR_IWDGRSTF | RCC_CSR_WWDGRSTF,
    .other = RCC_CSR_LPWRRSTF,
};
