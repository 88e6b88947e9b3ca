// SPDX-License-Identifier: Apache-2.0
//
// Software model (sim.h) of clocks, power and flash interface of the STM32L4R5 (RM0432), with LPUART1; if SIM_L475 is
// 1, of the STM32L475 (RM0351), with USART1; if SIM_G4 is 1, of the STM32G474 (RM0440), with LPUART1.
#include "sim.h"

#ifndef SIM_G4
#define SIM_G4 0
#endif

#if SIM_L475
#define USART 0x40013800U
#define USART_ENR APB2ENR
#define USART_ENR_BIT 14U
#define USART_SEL 0U
#define PPRE 11U
#define MAX_HZ 80000000U
#define WAIT_STATE_HZ 16000000U
#define MAX_N 86U
#define M_BITS 3U
#else
#define USART 0x40008000U
#define USART_ENR APB1ENR2
#define USART_ENR_BIT 0U
#define USART_SEL 10U
#define PPRE 8U
#define MAX_HZ (SIM_G4 ? 170000000U : 120000000U)
#define WAIT_STATE_HZ (SIM_G4 ? ((!bit(PWR + 0x80U, 8)) ? 34000000U : 30000000U) : 20000000U)
#define MAX_N 127U
#define M_BITS 4U
#endif

#define CR 0x40021000U
#define CFGR 0x40021008U
#define PLLCFGR 0x4002100CU
#define AHB2ENR 0x4002104CU
#define APB1ENR1 0x40021058U
#define APB1ENR2 0x4002105CU
#define APB2ENR 0x40021060U
#define CCIPR 0x40021088U
#define BDCR 0x40021090U
#define CSR 0x40021094U
#define CRRCR 0x40021098U
#define ACR 0x40022000U
#define PWR 0x40007000U
#ifdef SIM_HSE_HZ  // the crystal's actual rate
#define HSE_HZ SIM_HSE_HZ
#else
#define HSE_HZ ((uint32_t)(STM32_HSE_HZ))
#endif
#define GPIOG 0x48001800U

#define NORMAL_HZ (SIM_G4 ? 150000000U : 80000000U)  // without boost
#define RNG_BIT (SIM_G4 ? 26U : 18U)

enum { MSI, HSE, PLL, LSE, HSI48, SETTLES, HSI16 };

static uint32_t switched_at;

const sim_map_t model_map = {
    .gpio = 0x48000000U,
    .usart = USART,
    .rng = 0x50060800U,
    .iwdg = 0x40003000U,
    .uid = 0x1FFF7590U,
    .usart_v2 = 1,
    .lpuart = !SIM_L475,
};

static int bit(uint32_t address, uint32_t n) { return (int)((sim_get(address) >> n) & 1U); }

void model_reset(void) {
  sim_set(CR, SIM_G4 ? 0x00000500U : 0x00000063U);
  sim_set(CFGR, SIM_G4 ? 5U : 0U);
  sim_set(PLLCFGR, 0x00001000U);
  sim_set(CSR, 0x0C000600U);
  sim_set(ACR, sim_is("no-flash") ? 0U : 0x00000600U);
  sim_set(PWR, 0x00000200U);
  sim_set(PWR + 0x80U, SIM_L475 ? 0U : 0x00000100U);
  sim_set(AHB2ENR, 0);
  if (sim_is("watchdog")) {
    sim_set(CSR, 0x24000600U);
  }
  if (sim_is("pin")) {
    sim_set(CSR, 0x04000600U);
  }
}

static uint32_t msi(void) {
  if (SIM_G4) {
    return 0;
  }
  static const uint32_t hz[16] = {100000,  200000,  400000,   800000,   1000000,  2000000,
                                  4000000, 8000000, 16000000, 24000000, 32000000, 48000000};
  const uint32_t nominal = hz[bit(CR, 3) ? sim_field(CR, 4, 4) : sim_field(CSR, 8, 4)];
  if (!(bit(CR, 2) && bit(BDCR, 1))) {
    return nominal;
  }
  return (nominal == 4000000U) ? (122U * 32768U) : 0U;  // others are not modelled
}

static uint32_t vco_in(void) {
  const uint32_t source[4] = {0, msi(), 16000000U, HSE_HZ};
  return source[sim_field(PLLCFGR, 0, 2)] / (sim_field(PLLCFGR, 4, M_BITS) + 1U);
}

static uint32_t vco(void) { return vco_in() * sim_field(PLLCFGR, 8, 7); }

static uint32_t sysclk(void) {
  switch (sim_field(CFGR, 2, 2)) {
    case 0:
      return msi();
    case 1:
      return 16000000U;
    case 2:
      return HSE_HZ;
    default:
      return vco() / (2U * (sim_field(PLLCFGR, 25, 2) + 1U));
  }
}

uint32_t model_core_hz(void) {
  static const uint32_t by[] = {2, 4, 8, 16, 64, 128, 256, 512};
  const uint32_t field = sim_field(CFGR, 4, 4);
  return sysclk() / ((field < 8U) ? 1U : by[field - 8U]);
}

uint32_t model_uart_hz(void) {
  const uint32_t field = sim_field(CFGR, PPRE, 3);
  const uint32_t source[4] = {model_core_hz() / ((field < 4U) ? 1U : (2U << (field - 4U))), sysclk(), 16000000U,
                              32768U};
  return source[sim_field(CCIPR, USART_SEL, 2)];
}

uint32_t model_rng_hz(void) {
  const uint32_t hsi48 = (!SIM_L475 && bit(CRRCR, 1)) ? 48000000U : 0U;
  const uint32_t pllq = (bit(CR, 25) && bit(PLLCFGR, 20)) ? (vco() / (2U * (sim_field(PLLCFGR, 21, 2) + 1U))) : 0U;
  const uint32_t source[4] = {hsi48, 0, pllq, 0};  // PLLSAI1 and MSI are not used
  return source[sim_field(CCIPR, 26, 2)];
}

int model_clocked(uint32_t address) {
  if ((address & ~0x3FFU) == PWR) {
    return bit(APB1ENR1, 28);
  }
  if ((address & ~0x3FFU) == USART) {
    return bit(USART_ENR, USART_ENR_BIT);
  }
  if ((address >= 0x48000000U) && (address < 0x48002400U)) {
    return bit(AHB2ENR, (address - 0x48000000U) / 0x400U);
  }
  if ((address & ~0x3FFU) == 0x50060800U) {
    return bit(AHB2ENR, RNG_BIT);
  }
  return 1;
}

void model_written(uint32_t address, uint32_t was) {
  const uint32_t changed = sim_get(address) ^ was;
  if ((address == BDCR) && !bit(PWR, 8)) {
    sim_set(BDCR, was);  // write-protected
  }
  if ((address == PLLCFGR) && ((changed & 0x06607FFFU) != 0U) && bit(CR, 24)) {
    sim_breach("the PLL is changed while it runs");
  }
  if ((address == ACR) && sim_is("no-flash")) {
    sim_set(ACR, 0);
  }
  if (SIM_L475 && (changed != 0U) && ((address == CRRCR) || (address == (PWR + 0x80U)))) {
    sim_breach("a register of the STM32L4+ is written");
  }
  if (SIM_G4 &&
      (((address == CR) && ((changed & 0xFFU) != 0U)) || ((address == (PWR + 4U)) && ((changed & 0x200U) != 0U)))) {
    sim_breach("a bit that only an STM32L4 has is written");
  }
  if ((address == CR) && ((changed & 4U) != 0U) && bit(CR, 2) && !bit(BDCR, 1)) {
    sim_breach("MSI is locked to LSE before that is ready");
  }
  if ((address == CR) && ((changed & 0xF0U) != 0U) && bit(CR, 0) && ((was & 2U) == 0U)) {
    sim_breach("MSI's range is changed before it is ready");
  }
  if ((address == CFGR) && ((changed & 3U) != 0U)) {
    switched_at = sim_now();
    if ((sim_field(CFGR, 0, 2) == 3U) && !(bit(CR, 25) && bit(PLLCFGR, 24))) {
      sim_breach("the PLL is chosen before it is ready");
    }
    if ((sim_field(CFGR, 0, 2) == 3U) && (vco() > (2U * (SIM_G4 ? 80000000U : NORMAL_HZ))) &&
        (sim_field(CFGR, 4, 4) < 8U)) {
      sim_breach("the switch to more than 80 MHz is not made with the AHB at half");
    }
  }
  if ((address == CFGR) && ((changed & 0xF0U) != 0U) && (sim_field(CFGR, 2, 2) == 3U) &&
      ((sim_now() - switched_at) < 75U)) {
    sim_breach("the AHB goes to full speed within a microsecond");
  }
  if ((address == CSR) && bit(CSR, 23)) {
    sim_set(CSR, 0x00800600U);
  }
  if (((address & ~0x3FFU) == GPIOG) && !SIM_G4 && !bit(PWR + 4U, 9)) {
    sim_breach("port G has no supply");
  }
}

static void rules(void) {
  const uint32_t hclk = model_core_hz();
  const int boost = !bit(PWR + 0x80U, 8);
  if ((hclk > (WAIT_STATE_HZ * (sim_field(ACR, 0, 4) + 1U))) && !sim_is("no-flash")) {
    sim_breach("too few wait states");
  }
  if ((hclk > MAX_HZ) || ((hclk > NORMAL_HZ) && !boost) || ((hclk > 26000000U) && (sim_field(PWR, 9, 2) != 1U))) {
    sim_breach("the core is over its limit");
  }
  if ((sim_field(CFGR, 2, 2) == 3U) && !bit(CR, 25)) {
    sim_breach("the system clock is switched off");
  }
  if (bit(CR, 24)) {
    if ((vco_in() < (SIM_L475 ? 4000000U : 2660000U)) || (vco_in() > 16000000U)) {
      sim_breach("the PLL's input is out of its range");
    }
    if ((vco() < (SIM_G4 ? 96000000U : 64000000U)) || (vco() > 344000000U) || (sim_field(PLLCFGR, 8, 7) > MAX_N)) {
      sim_breach("the VCO is out of its range");
    }
  }
}

void model_step(void) {
  if (SIM_G4) {
    sim_flag(CR, 1U << 10, sim_ready(HSI16, bit(CR, 8)) || (sim_now() < 25U));
  } else {
    sim_flag(CR, 1U << 1, sim_ready(MSI, bit(CR, 0)) || (sim_now() < 25U));
  }
  sim_flag(CR, 1U << 17, sim_ready(HSE, bit(CR, 16) && (HSE_HZ > 0U) && !sim_is("no-hse")));
  sim_flag(CR, 1U << 25, sim_ready(PLL, bit(CR, 24) && !sim_is("no-pll")));
  sim_flag(BDCR, 1U << 1, sim_ready(LSE, bit(BDCR, 0) && !sim_is("no-lse")));
  sim_flag(CRRCR, 1U << 1, sim_ready(HSI48, bit(CRRCR, 0)));
  const uint32_t wanted = sim_field(CFGR, 0, 2);
  if (((wanted == 0U) && bit(CR, 1)) || ((wanted == 1U) && bit(CR, 10)) || ((wanted == 2U) && bit(CR, 17)) ||
      ((wanted == 3U) && bit(CR, 25))) {
    sim_set(CFGR, (sim_get(CFGR) & ~0xCU) | (wanted << 2));
  }
  rules();
}
