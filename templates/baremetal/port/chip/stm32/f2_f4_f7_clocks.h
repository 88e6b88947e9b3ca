// SPDX-License-Identifier: Apache-2.0
//
// The common clock tree of the families F2, F4 and F7: HSI of 16 MHz, HSE, the main PLL, the bus prescalers (RM0090
// §7.3, RM0368 §6.3, RM0385 §5.3: RCC registers). The chip files set up power and flash for it.
//
// A chip file's `defines`: STM32_CORE_MAX_HZ, STM32_APB1_MAX_HZ, STM32_APB2_MAX_HZ, the data sheet's limits;
// STM32_UARTS where the chip has fewer USARTs.
#ifndef BOARDSMITH_F2_F4_F7_CLOCKS_H_
#define BOARDSMITH_F2_F4_F7_CLOCKS_H_

#include <stdint.h>

#include "chip/stm32/stm32.h"

#define RCC_BASE 0x40023800U
#define RCC_CR (RCC_BASE + 0x00U)
#define RCC_PLLCFGR (RCC_BASE + 0x04U)
#define RCC_CFGR (RCC_BASE + 0x08U)
#define RCC_AHB1ENR (RCC_BASE + 0x30U)
#define RCC_AHB2ENR (RCC_BASE + 0x34U)
#define RCC_APB1ENR (RCC_BASE + 0x40U)
#define RCC_APB2ENR (RCC_BASE + 0x44U)
#define RCC_CSR (RCC_BASE + 0x74U)
#define RCC_DCKCFGR2 (RCC_BASE + 0x90U)  // RM0385 §5.3.26: PCLK, SYSCLK, HSI, LSE for each USART

#define RCC_CR_HSION (1U << 0)
#define RCC_CR_HSIRDY (1U << 1)
#define RCC_CR_PLLON (1U << 24)
#define RCC_CR_PLLRDY (1U << 25)

#define RCC_PLLCFGR_PLLM_Pos 0U
#define RCC_PLLCFGR_PLLM 0x3FU
#define RCC_PLLCFGR_PLLN_Pos 6U
#define RCC_PLLCFGR_PLLN (0x1FFU << 6)
#define RCC_PLLCFGR_PLLP_Pos 16U  // 2, 4, 6, 8
#define RCC_PLLCFGR_PLLP (3U << 16)
#define RCC_PLLCFGR_PLLSRC (1U << 22)  // 1: HSE
#define RCC_PLLCFGR_PLLQ_Pos 24U
#define RCC_PLLCFGR_PLLQ (0xFU << 24)

#define RCC_CFGR_SW 3U  // HSI, HSE, PLL
#define RCC_CFGR_SW_PLL 2U
#define RCC_CFGR_SWS (3U << 2)
#define RCC_CFGR_SWS_Pos 2U
#define RCC_CFGR_HPRE_Pos 4U
#define RCC_CFGR_HPRE (0xFU << 4)
#define RCC_CFGR_PPRE1_Pos 10U
#define RCC_CFGR_PPRE1 (7U << 10)
#define RCC_CFGR_PPRE2_Pos 13U
#define RCC_CFGR_PPRE2 (7U << 13)

#define RCC_AHB2ENR_RNGEN (1U << 6)
#define RCC_APB1ENR_PWREN (1U << 28)

#define RCC_CSR_RMVF (1U << 24)
#define RCC_CSR_BORRSTF (1U << 25)
#define RCC_CSR_PINRSTF (1U << 26)
#define RCC_CSR_PORRSTF (1U << 27)
#define RCC_CSR_SFTRSTF (1U << 28)
#define RCC_CSR_IWDGRSTF (1U << 29)
#define RCC_CSR_WWDGRSTF (1U << 30)
#define RCC_CSR_LPWRRSTF (1U << 31)

#define GPIOA_BASE 0x40020000U  // RM0090 §2.3, RM0368 §2.3, RM0385 §2.2.2: memory maps
#define IWDG_BASE 0x40003000U
#define RNG_BASE 0x50060800U

// Base, interrupt, RCC register and bit of its enable, bus, clock selector (only F7; the register is reserved on F2 and
// F4). A chip file's STM32_UARTS leaves out those that its chip lacks.
// clang-format off
#define USART_1 {0x40011000U, 37U, RCC_APB2ENR, 4U, 2U, RCC_DCKCFGR2, 0U}
#define USART_2 {0x40004400U, 38U, RCC_APB1ENR, 17U, 1U, RCC_DCKCFGR2, 2U}
#define USART_3 {0x40004800U, 39U, RCC_APB1ENR, 18U, 1U, RCC_DCKCFGR2, 4U}
#define USART_6 {0x40011400U, 71U, RCC_APB2ENR, 5U, 2U, RCC_DCKCFGR2, 10U}
// clang-format on
#ifndef STM32_UARTS
#define STM32_UARTS 0x4EU
#endif
#if (((STM32_UARTS) >> (STM32_UART)) & 1) == 0
#error "STM32_UART: this chip, or its port, has no USART of this number"
#endif
#define STM32_OSC_IN STM32_PIN('H', 0)

#define HSI_HZ 16000000U
#define LSI_MAX_HZ 47000U  // data sheets, LSI oscillator characteristics

// The main PLL's factors for BOARDSMITH_CORE_HZ: 2 MHz at its input (less jitter), else 1 MHz; the slowest VCO for the
// core's clock; and at most 48 MHz from PLLQ, the clock of the random number generator.
#if STM32_HSE_HZ > 0
#define PLL_SOURCE_HZ ((uint32_t)(STM32_HSE_HZ))
#else
#define PLL_SOURCE_HZ HSI_HZ
#endif
#define PLL_CORE_HZ ((uint32_t)(BOARDSMITH_CORE_HZ))
#define PLL_VCO_MIN_HZ 192000000U
#define PLL_VCO_MAX_HZ 432000000U
#define PLL_M (((PLL_SOURCE_HZ % 2000000U) == 0U) ? (PLL_SOURCE_HZ / 2000000U) : (PLL_SOURCE_HZ / 1000000U))
#define PLL_IN_HZ (PLL_SOURCE_HZ / PLL_M)
#define PLL_P                                    \
  (((PLL_CORE_HZ * 2U) >= PLL_VCO_MIN_HZ)   ? 2U \
   : ((PLL_CORE_HZ * 4U) >= PLL_VCO_MIN_HZ) ? 4U \
   : ((PLL_CORE_HZ * 6U) >= PLL_VCO_MIN_HZ) ? 6U \
                                            : 8U)
#define PLL_VCO_HZ (PLL_CORE_HZ * PLL_P)
#define PLL_N (PLL_VCO_HZ / PLL_IN_HZ)
#define PLL_Q ((PLL_VCO_HZ + 47999999U) / 48000000U)

// stm32_chip.to_reset_clock.
void stm32f_to_hsi(void);

// Starts HSE, if the board has one, and the PLL with the factors above: 0, or -1 if HSE does not start. Does not wait
// for the PLL.
int32_t stm32f_pll_on(void);

// Waits for the PLL: 0, or -1.
int32_t stm32f_pll_ready(void);

// Sets the bus prescalers and makes the PLL the system clock: 0, or -1. The flash's wait states are set already.
int32_t stm32f_to_pll(void);

// stm32_chip.connect_pins.
void stm32f_connect_pins(void);

// stm32_chip.resets.
extern const stm32_resets_t stm32f_resets;

#endif  // BOARDSMITH_F2_F4_F7_CLOCKS_H_
