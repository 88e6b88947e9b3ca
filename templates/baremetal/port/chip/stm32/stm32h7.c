// SPDX-License-Identifier: Apache-2.0
//
// chip_* of the STM32H743 (RM0433; DS12110 and errata sheet ES0392 for what differs between revisions): supply and
// voltage scale, clocks, flash wait states, USART pins, random numbers. Not for the chips with a step-down converter
// (H745, H747) or the later ones (H723, H7A3), whose supply and PLLs differ.
//
// The core's clock: every revision supports 400 MHz at VOS1. Up to 480 MHz it needs VOS0, which only revisions X and V
// (REV_ID 0x2001, 0x2003) have; on an older revision, and without HSE, the core stays on HSI. HSI is 64 MHz, and
// chip_core_hz returns that.
//
// A chip file's `defines`: STM32_UART_FIFO 1.
#include <stdint.h>

#include "chip/stm32/stm32.h"

#define RCC_BASE 0x58024400U  // RM0433 §8.7
#define RCC_CR (RCC_BASE + 0x00U)
#define RCC_CFGR (RCC_BASE + 0x10U)
#define RCC_D1CFGR (RCC_BASE + 0x18U)
#define RCC_D2CFGR (RCC_BASE + 0x1CU)
#define RCC_D3CFGR (RCC_BASE + 0x20U)
#define RCC_PLLCKSELR (RCC_BASE + 0x28U)
#define RCC_PLLCFGR (RCC_BASE + 0x2CU)
#define RCC_PLL1DIVR (RCC_BASE + 0x30U)
#define RCC_PLL1FRACR (RCC_BASE + 0x34U)
#define RCC_D2CCIP2R (RCC_BASE + 0x54U)
#define RCC_D3CCIPR (RCC_BASE + 0x58U)
#define RCC_RSR (RCC_BASE + 0xD0U)
#define RCC_AHB2ENR (RCC_BASE + 0xDCU)
#define RCC_AHB4ENR (RCC_BASE + 0xE0U)
#define RCC_APB1LENR (RCC_BASE + 0xE8U)
#define RCC_APB2ENR (RCC_BASE + 0xF0U)
#define RCC_APB4ENR (RCC_BASE + 0xF4U)

#define RCC_CR_HSION (1U << 0)
#define RCC_CR_HSIRDY (1U << 2)
#define RCC_CR_HSIDIV_Pos 3U
#define RCC_CR_HSIDIV (3U << 3)
#define RCC_CR_HSIDIVF (1U << 5)
#define RCC_CR_HSI48ON (1U << 12)
#define RCC_CR_HSI48RDY (1U << 13)
#define RCC_CR_PLL1ON (1U << 24)
#define RCC_CR_PLL1RDY (1U << 25)

#define RCC_CFGR_SW 7U  // HSI, CSI, HSE, PLL1
#define RCC_CFGR_SW_PLL1 3U
#define RCC_CFGR_SWS_Pos 3U
#define RCC_CFGR_SWS (7U << 3)

#define RCC_D1CFGR_HPRE 0xFU
#define RCC_D1CFGR_HPRE_DIV1 0U
#define RCC_D1CFGR_HPRE_DIV2 8U
#define RCC_D1CFGR_D1PPRE_Pos 4U
#define RCC_D1CFGR_D1PPRE (7U << 4)
#define RCC_D1CFGR_D1CPRE_Pos 8U
#define RCC_D1CFGR_D1CPRE (0xFU << 8)
#define RCC_D2CFGR_D2PPRE1_Pos 4U
#define RCC_D2CFGR_D2PPRE1 (7U << 4)
#define RCC_D2CFGR_D2PPRE2_Pos 8U
#define RCC_D2CFGR_D2PPRE2 (7U << 8)
#define RCC_D3CFGR_D3PPRE_Pos 4U
#define RCC_D3CFGR_D3PPRE (7U << 4)

#define RCC_PLLCKSELR_PLLSRC 3U  // HSI, CSI, HSE, none
#define RCC_PLLCKSELR_PLLSRC_HSE 2U
#define RCC_PLLCKSELR_DIVM1_Pos 4U
#define RCC_PLLCKSELR_DIVM1 (0x3FU << 4)
#define RCC_PLLCFGR_PLL1FRACEN (1U << 0)
#define RCC_PLLCFGR_PLL1VCOSEL (1U << 1)  // 0: the wide range
#define RCC_PLLCFGR_PLL1RGE (3U << 2)
#define RCC_PLLCFGR_PLL1RGE_4_8MHZ (2U << 2)
#define RCC_PLLCFGR_DIVP1EN (1U << 16)
#define RCC_PLL1DIVR_N1 0x1FFU  // less one, as the next
#define RCC_PLL1DIVR_P1_Pos 9U
#define RCC_PLL1DIVR_P1 (0x7FU << 9)
#define RCC_PLL1FRACR_FRACN1_Pos 3U
#define RCC_PLL1FRACR_FRACN1 (0x1FFFU << 3)

#define RCC_D2CCIP2R_RNGSEL (3U << 8)  // 0: HSI48
#define RCC_AHB2ENR_RNGEN (1U << 6)
#define RCC_AHB2ENR_SRAMS (7U << 29)  // SRAM1, SRAM2, SRAM3 of domain D2
#define RCC_APB4ENR_SYSCFGEN (1U << 1)

#define RCC_RSR_RMVF (1U << 16)
#define RCC_RSR_BORRSTF (1U << 21)
#define RCC_RSR_PINRSTF (1U << 22)
#define RCC_RSR_PORRSTF (1U << 23)
#define RCC_RSR_SFTRSTF (1U << 24)
#define RCC_RSR_IWDG1RSTF (1U << 26)
#define RCC_RSR_WWDG1RSTF (1U << 28)
#define RCC_RSR_LPWRRSTF (1U << 30)

#define PWR_D3CR 0x58024818U  // RM0433 §6.8
#define PWR_D3CR_VOSRDY (1U << 13)
#define PWR_D3CR_VOS (3U << 14)  // 1: scale 3, 2: scale 2, 3: scale 1

#define SYSCFG_PWRCR 0x5800042CU  // RM0433, SYSCFG registers
#define SYSCFG_PWRCR_ODEN (1U << 0)

#define FLASH_ACR 0x52002000U  // RM0433 §4.9.1
#define FLASH_ACR_WRHIGHFREQ_Pos 4U
#define FLASH_ACR_WRHIGHFREQ (3U << 4)

#define DBGMCU_IDC 0x5C001000U  // RM0433, Microcontroller debug unit
#define REV_X 0x2001U

#define AXI_TARG7_FN_MOD 0x51008108U  // AXI SRAM's port of the interconnect
#define AXI_TARG7_READ_ISS_OVERRIDE (1U << 0)

#define GPIOA_BASE 0x58020000U  // RM0433 §2.3: memory map
#define IWDG1_BASE 0x58004800U
#define RNG_BASE 0x48021800U
#define UID_BASE 0x1FF1E800U  // RM0433, Unique device ID register

#define HSI_HZ 64000000U
#define CSI_HZ 4000000U
#define LSI_MAX_HZ 33600U  // DS12110, LSI oscillator characteristics

#define CORE_HZ ((uint32_t)(BOARDSMITH_CORE_HZ))
#define VOS1_MAX_HZ 400000000U
#define VOS0_MAX_HZ 480000000U
#define HCLK_HZ (CORE_HZ / 2U)  // the AHB's limit is half the core's at either scale

// PLL1: 4 or 5 MHz in, twice the core's clock in the VCO.
#if STM32_HSE_HZ > 0
#define PLL_SOURCE_HZ ((uint32_t)(STM32_HSE_HZ))
#define PLL_SOURCE RCC_PLLCKSELR_PLLSRC_HSE
#else
#define PLL_SOURCE_HZ HSI_HZ
#define PLL_SOURCE 0U
#endif
#define PLL_IN_HZ (((PLL_SOURCE_HZ % 4000000U) == 0U) ? 4000000U : 5000000U)
#define PLL_M (PLL_SOURCE_HZ / PLL_IN_HZ)
#define PLL_P 2U
#define PLL_N ((CORE_HZ / PLL_IN_HZ) * PLL_P)

_Static_assert((PLL_IN_HZ * PLL_M) == PLL_SOURCE_HZ, "STM32_HSE_HZ: not a multiple of 4 or 5 MHz");
_Static_assert((PLL_IN_HZ * (PLL_N / PLL_P)) == CORE_HZ, "core_hz: cannot be made from STM32_HSE_HZ");
_Static_assert((PLL_N >= 4U) && (PLL_N <= 512U) && (PLL_M >= 1U) && (PLL_M <= 63U),
               "core_hz: DIVN1 or DIVM1 is out of its range");
_Static_assert((CORE_HZ >= (192000000U / PLL_P)) && (CORE_HZ <= VOS0_MAX_HZ), "core_hz: out of range");

// Wait states and programming delay by the clock of the flash's bus (RM0433 table 17, VOS1; VOS0 adds the last row).
#define WAIT_STATES               \
  ((HCLK_HZ <= 70000000U)    ? 0U \
   : (HCLK_HZ <= 140000000U) ? 1U \
   : (HCLK_HZ <= 210000000U) ? 2U \
   : (HCLK_HZ <= 225000000U) ? 3U \
                             : 4U)
#define WRITE_DELAY ((HCLK_HZ <= 70000000U) ? 0U : (HCLK_HZ <= 185000000U) ? 1U : 2U)

// The APBs' limit is half the AHB's.
#define PPRE_DIV2 4U

#define HSI_MS 5U
#define HSI48_MS 5U
#define PLL_MS 5U
#define SWITCH_MS 5U
#define REGULATOR_MS 10U
#define FLASH_MS 1U

// Base, interrupt, RCC register and bit of its enable, bus, clock selector (0 PCLK, 3 HSI, 4 CSI, 5 LSE; PLL2 and
// PLL3 are off). 0 is LPUART1.
// clang-format off
#define USART_0 {0x58000C00U, 142U, RCC_APB4ENR, 3U, 4U, RCC_D3CCIPR, 0U}
#define USART_1 {0x40011000U, 37U, RCC_APB2ENR, 4U, 2U, RCC_D2CCIP2R, 3U}
#define USART_2 {0x40004400U, 38U, RCC_APB1LENR, 17U, 1U, RCC_D2CCIP2R, 0U}
#define USART_3 {0x40004800U, 39U, RCC_APB1LENR, 18U, 1U, RCC_D2CCIP2R, 0U}
#define USART_6 {0x40011400U, 71U, RCC_APB2ENR, 5U, 2U, RCC_D2CCIP2R, 3U}
// clang-format on

#define STM32_UARTS 0x4FU
#if (((STM32_UARTS) >> (STM32_UART)) & 1) == 0
#error "STM32_UART: this chip, or its port, has no USART of this number"
#endif
#define STM32_OSC_IN STM32_PIN('H', 0)
STM32_CHECK_HSE(4000000, 48000000, 4000000, 50000000);  // DS12110: HSE characteristics
STM32_CHECK_PINS;
STM32_CHECK_UART(HCLK_HZ / 2U);

const stm32_uart_t stm32_uart = STM32_OF_UART(USART_);

static uint32_t revision(void) { return REG32(DBGMCU_IDC) >> 16; }

// ---- Power -------------------------------------------------------------------------------------------------------

// The rest of chip_early, called by stm32h7_early.S after the supply is confirmed and RAM is writable.
void stm32h7_powered(void);
void stm32h7_powered(void) {
  if (revision() < REV_X) {
    // ES0392: without it, reads of the AXI SRAM may be wrong on revisions Z and Y.
    REG32(AXI_TARG7_FN_MOD) = AXI_TARG7_READ_ISS_OVERRIDE;
  }
  REG32(RCC_AHB2ENR) |= RCC_AHB2ENR_SRAMS;
  (void)REG32(RCC_AHB2ENR);
}

static int32_t vos_ready(void) { return stm32_wait(PWR_D3CR, PWR_D3CR_VOSRDY, PWR_D3CR_VOSRDY, REGULATOR_MS); }

// RM0433 §6.6.2: VOS0 can only be entered from VOS1.
static int32_t power_on(void) {
  if ((CORE_HZ > VOS1_MAX_HZ) && (revision() < REV_X)) {
    return -1;
  }
  stm32_modify(PWR_D3CR, PWR_D3CR_VOS, PWR_D3CR_VOS);
  if (vos_ready() != 0) {
    return -1;
  }
  if (CORE_HZ <= VOS1_MAX_HZ) {
    return 0;
  }
  stm32_enable(RCC_APB4ENR, RCC_APB4ENR_SYSCFGEN);
  stm32_modify(SYSCFG_PWRCR, SYSCFG_PWRCR_ODEN, SYSCFG_PWRCR_ODEN);
  return vos_ready();
}

// ---- Clocks ------------------------------------------------------------------------------------------------------

// Switches to HSI at 64 MHz, with PLL1 and HSE off, from any state.
static void to_hsi(void) {
  stm32_modify(RCC_CR, RCC_CR_HSION, RCC_CR_HSION);
  (void)stm32_wait(RCC_CR, RCC_CR_HSIRDY, RCC_CR_HSIRDY, HSI_MS);  // cannot fail on a working chip
  stm32_modify(RCC_CFGR, RCC_CFGR_SW, 0U);
  (void)stm32_wait(RCC_CFGR, RCC_CFGR_SWS, 0U, SWITCH_MS);
  stm32_modify(RCC_CR, RCC_CR_PLL1ON, 0U);
  (void)stm32_wait(RCC_CR, RCC_CR_PLL1RDY, 0U, PLL_MS);
  stm32_modify(RCC_CR, RCC_CR_HSEON, 0U);
  (void)stm32_wait(RCC_CR, RCC_CR_HSERDY, 0U, STM32_HSE_MS);
  stm32_modify(RCC_CR, RCC_CR_HSIDIV, 0U);  // must not change while a PLL uses it
  (void)stm32_wait(RCC_CR, RCC_CR_HSIDIVF, RCC_CR_HSIDIVF, HSI_MS);
}

static int32_t pll_on(void) {
  stm32_modify(RCC_PLLCKSELR, RCC_PLLCKSELR_PLLSRC | RCC_PLLCKSELR_DIVM1,
               PLL_SOURCE | (PLL_M << RCC_PLLCKSELR_DIVM1_Pos));
  stm32_modify(RCC_PLLCFGR, RCC_PLLCFGR_PLL1FRACEN | RCC_PLLCFGR_PLL1VCOSEL | RCC_PLLCFGR_PLL1RGE | RCC_PLLCFGR_DIVP1EN,
               RCC_PLLCFGR_PLL1RGE_4_8MHZ | RCC_PLLCFGR_DIVP1EN);
  stm32_modify(RCC_PLL1DIVR, RCC_PLL1DIVR_N1 | RCC_PLL1DIVR_P1, (PLL_N - 1U) | ((PLL_P - 1U) << RCC_PLL1DIVR_P1_Pos));
  stm32_modify(RCC_CR, RCC_CR_PLL1ON, RCC_CR_PLL1ON);
  return stm32_wait(RCC_CR, RCC_CR_PLL1RDY, RCC_CR_PLL1RDY, PLL_MS);
}

static int32_t set_flash(void) {
  const uint32_t settings = WAIT_STATES | (WRITE_DELAY << FLASH_ACR_WRHIGHFREQ_Pos);
  stm32_modify(FLASH_ACR, FLASH_ACR_LATENCY | FLASH_ACR_WRHIGHFREQ, settings);
  return stm32_wait(FLASH_ACR, FLASH_ACR_LATENCY | FLASH_ACR_WRHIGHFREQ, settings, FLASH_MS);
}

static int32_t switch_to_pll(void) {
  stm32_modify(RCC_D1CFGR, RCC_D1CFGR_D1CPRE | RCC_D1CFGR_D1PPRE | RCC_D1CFGR_HPRE,
               (PPRE_DIV2 << RCC_D1CFGR_D1PPRE_Pos) | RCC_D1CFGR_HPRE_DIV2);
  stm32_modify(RCC_D2CFGR, RCC_D2CFGR_D2PPRE1 | RCC_D2CFGR_D2PPRE2,
               (PPRE_DIV2 << RCC_D2CFGR_D2PPRE1_Pos) | (PPRE_DIV2 << RCC_D2CFGR_D2PPRE2_Pos));
  stm32_modify(RCC_D3CFGR, RCC_D3CFGR_D3PPRE, PPRE_DIV2 << RCC_D3CFGR_D3PPRE_Pos);
  stm32_modify(RCC_CFGR, RCC_CFGR_SW, RCC_CFGR_SW_PLL1);
  return stm32_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SW_PLL1 << RCC_CFGR_SWS_Pos, SWITCH_MS);
}

static int32_t to_pll(void) {
  return ((power_on() != 0) || (stm32_hse_on() != 0) || (pll_on() != 0) || (set_flash() != 0) || (switch_to_pll() != 0))
             ? -1
             : 0;
}

static void connect_pins(void) {
  stm32_pin(GPIOA_BASE, RCC_AHB4ENR, STM32_UART_TX, STM32_UART_TX_AF);
  stm32_pin(GPIOA_BASE, RCC_AHB4ENR, STM32_UART_RX, STM32_UART_RX_AF);
#ifdef BOARDSMITH_MEASURE_PIN
  STM32_MEASURE_PIN_IS_FREE(STM32_UART_TX, STM32_UART_RX);
  stm32_measure_pin(GPIOA_BASE, RCC_AHB4ENR);
#endif
}

// ---- Clocks from the registers -----------------------------------------------------------------------------------

static uint32_t hsi_hz(void) { return HSI_HZ >> ((REG32(RCC_CR) & RCC_CR_HSIDIV) >> RCC_CR_HSIDIV_Pos); }

static uint32_t pll_source_hz(uint32_t selector) {
  switch (selector) {
    case 0:
      return hsi_hz();
    case 1:
      return CSI_HZ;
    case 2:
      return (uint32_t)(STM32_HSE_HZ);
    default:
      return 0;
  }
}

static uint32_t pll_hz(void) {
  const uint32_t select = REG32(RCC_PLLCKSELR);
  const uint32_t divide = REG32(RCC_PLL1DIVR);
  const uint32_t fraction = ((REG32(RCC_PLLCFGR) & RCC_PLLCFGR_PLL1FRACEN) != 0U)
                                ? ((REG32(RCC_PLL1FRACR) & RCC_PLL1FRACR_FRACN1) >> RCC_PLL1FRACR_FRACN1_Pos)
                                : 0U;
  const uint32_t m = (select & RCC_PLLCKSELR_DIVM1) >> RCC_PLLCKSELR_DIVM1_Pos;
  const uint32_t n = (((divide & RCC_PLL1DIVR_N1) + 1U) << 13) + fraction;  // in 8192ths
  const uint32_t p = ((divide & RCC_PLL1DIVR_P1) >> RCC_PLL1DIVR_P1_Pos) + 1U;
  return stm32_scale(pll_source_hz(select & RCC_PLLCKSELR_PLLSRC), n, (m * p) << 13);
}

static uint32_t sysclk_hz(void) {
  const uint32_t source = (REG32(RCC_CFGR) & RCC_CFGR_SWS) >> RCC_CFGR_SWS_Pos;
  return (source == RCC_CFGR_SW_PLL1) ? pll_hz() : pll_source_hz(source);
}

uint32_t stm32_core_hz(void) {
  return sysclk_hz() >> stm32_ahb_shift((REG32(RCC_D1CFGR) & RCC_D1CFGR_D1CPRE) >> RCC_D1CFGR_D1CPRE_Pos);
}

static uint32_t bus_prescaler(uint32_t bus) {
  switch (bus) {
    case 1:
      return (REG32(RCC_D2CFGR) & RCC_D2CFGR_D2PPRE1) >> RCC_D2CFGR_D2PPRE1_Pos;
    case 2:
      return (REG32(RCC_D2CFGR) & RCC_D2CFGR_D2PPRE2) >> RCC_D2CFGR_D2PPRE2_Pos;
    default:
      return (REG32(RCC_D3CFGR) & RCC_D3CFGR_D3PPRE) >> RCC_D3CFGR_D3PPRE_Pos;
  }
}

uint32_t stm32_bus_hz(uint32_t bus) {
  const uint32_t hclk = stm32_core_hz() >> stm32_ahb_shift(REG32(RCC_D1CFGR) & RCC_D1CFGR_HPRE);
  return hclk >> stm32_apb_shift(bus_prescaler(bus));
}

// ---- The chip ----------------------------------------------------------------------------------------------------

static const stm32_resets_t resets = {
    .address = RCC_RSR,
    .clear = RCC_RSR_RMVF,
    .power = RCC_RSR_PORRSTF | RCC_RSR_BORRSTF,
    .pin = RCC_RSR_PINRSTF,
    .software = RCC_RSR_SFTRSTF,
    .watchdog = RCC_RSR_IWDG1RSTF | RCC_RSR_WWDG1RSTF,
    .other = RCC_RSR_LPWRRSTF,
};

const stm32_chip_t stm32_chip = {
    .rcc_cr = RCC_CR,
    .flash_acr = FLASH_ACR,
    .uid = UID_BASE,
    .iwdg = IWDG1_BASE,
    .rng = RNG_BASE,
    .uart_select = 7U,
    .lsi_max_hz = LSI_MAX_HZ,
    .resets = &resets,
    .to_reset_clock = to_hsi,
    .to_pll = to_pll,
    .set_flash = set_flash,
    .connect_pins = connect_pins,
};

// Clocked by HSI48.
int32_t stm32_rng_on(void) {
  stm32_modify(RCC_D2CCIP2R, RCC_D2CCIP2R_RNGSEL, 0U);
  stm32_modify(RCC_CR, RCC_CR_HSI48ON, RCC_CR_HSI48ON);
  if (stm32_wait(RCC_CR, RCC_CR_HSI48RDY, RCC_CR_HSI48RDY, HSI48_MS) != 0) {
    return -1;
  }
  stm32_enable(RCC_AHB2ENR, RCC_AHB2ENR_RNGEN);
  return 0;
}
