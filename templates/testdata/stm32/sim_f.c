// SPDX-License-Identifier: Apache-2.0
//
// The clocks, power and flash interface of the STM32F405, F401 and F746 in software (sim.h), after RM0090, RM0368 and
// RM0385. SIM_F7 chooses the last; SIM_CORE_MAX, SIM_APB1_MAX, SIM_APB2_MAX are the data sheet's limits.
#include "sim.h"

#define CR 0x40023800U
#define PLLCFGR 0x40023804U
#define CFGR 0x40023808U
#define AHB1ENR 0x40023830U
#define AHB2ENR 0x40023834U
#define APB1ENR 0x40023840U
#define APB2ENR 0x40023844U
#define CSR 0x40023874U
#define ACR 0x40023C00U
#define PWR 0x40007000U  // CR, CSR; CR1, CSR1
#ifdef SIM_HSE_HZ        // the crystal's actual rate
#define HSE_HZ SIM_HSE_HZ
#else
#define HSE_HZ ((uint32_t)(STM32_HSE_HZ))
#endif

enum { HSI, HSE, PLL, VOS, OD, ODSW };

#if SIM_USART == 1
#define USART 0x40011000U
#define USART_ON ((sim_get(APB2ENR) >> 4) & 1U)
#elif SIM_USART == 2
#define USART 0x40004400U
#define USART_ON ((sim_get(APB1ENR) >> 17) & 1U)
#else
#define USART 0x40004800U
#define USART_ON ((sim_get(APB1ENR) >> 18) & 1U)
#endif

const sim_map_t model_map = {
    .gpio = 0x40020000U,
    .usart = USART,
    .rng = 0x50060800U,
    .iwdg = 0x40003000U,
#if SIM_F7
    .uid = 0x1FF0F420U,
    .usart_v2 = 1,
#else
    .uid = 0x1FFF7A10U,
#endif
};

void model_reset(void) {
  sim_set(CR, 0x00000083U);
  sim_set(PLLCFGR, 0x24003010U);
  sim_set(CSR, 0x0E000000U);  // power-on
#if SIM_F7
  sim_set(PWR, 0x0000C000U);
  sim_set(AHB1ENR, 0x00100000U);
#else
  sim_set(PWR, (SIM_CORE_MAX > 84000000U) ? 0x4000U : 0x8000U);
  // ES0182, MCU device ID is incorrect: revision A of the F405 has the id of an F2.
  sim_set(0xE0042000U, sim_is("revision-a") ? 0x20006411U : ((SIM_CORE_MAX > 84000000U) ? 0x10070413U : 0x10010433U));
#endif
  if (sim_is("watchdog")) {
    sim_set(CSR, 0x24000000U);
  }
  if (sim_is("pin")) {
    sim_set(CSR, 0x04000000U);
  }
}

static int bit(uint32_t address, uint32_t n) { return (int)((sim_get(address) >> n) & 1U); }

static uint32_t vco_in(void) {
  const uint32_t m = sim_field(PLLCFGR, 0, 6);
  return (m < 2U) ? 0U : ((bit(PLLCFGR, 22) ? HSE_HZ : 16000000U) / m);
}

static uint32_t vco(void) { return vco_in() * sim_field(PLLCFGR, 6, 9); }

static uint32_t sysclk(uint32_t which) {
  switch (which) {
    case 0:
      return 16000000U;
    case 1:
      return HSE_HZ;
    default:
      return vco() / (2U * (sim_field(PLLCFGR, 16, 2) + 1U));
  }
}

static uint32_t ahb_divisor(uint32_t field) {
  static const uint32_t by[] = {2, 4, 8, 16, 64, 128, 256, 512};
  return (field < 8U) ? 1U : by[field - 8U];
}

static uint32_t apb_divisor(uint32_t field) { return (field < 4U) ? 1U : (2U << (field - 4U)); }

uint32_t model_core_hz(void) { return sysclk(sim_field(CFGR, 2, 2)) / ahb_divisor(sim_field(CFGR, 4, 4)); }

uint32_t model_uart_hz(void) {
  return model_core_hz() / apb_divisor((SIM_USART == 1) ? sim_field(CFGR, 13, 3) : sim_field(CFGR, 10, 3));
}

uint32_t model_rng_hz(void) {
  const uint32_t q = sim_field(PLLCFGR, 24, 4);
  return ((sim_get(CR) & (1U << 25)) != 0U) && (q >= 2U) ? (vco() / q) : 0U;
}

int model_clocked(uint32_t address) {
  if ((address & ~0xFFFU) == PWR) {
    return bit(APB1ENR, 28);
  }
  if ((address & ~0x3FFU) == USART) {
    return (int)USART_ON;
  }
  if ((address >= 0x40020000U) && (address < 0x40023000U)) {
    return bit(AHB1ENR, (address - 0x40020000U) / 0x400U);
  }
  if ((address & ~0x3FFU) == 0x50060800U) {
    return bit(AHB2ENR, 6);
  }
  return 1;
}

void model_written(uint32_t address, uint32_t was) {
  const uint32_t changed = sim_get(address) ^ was;
  if ((address == PLLCFGR) && (bit(CR, 24) || bit(CR, 25))) {
    sim_breach("the PLL is changed while it runs");
  }
  if ((address == PLLCFGR) && ((changed & 0xF0BC8000U) != 0U)) {
    sim_breach("reserved bits of PLLCFGR are changed");
  }
  if ((address == CR) && ((changed & (1U << 18)) != 0U) && ((was & (3U << 16)) != 0U)) {
    sim_breach("HSEBYP is changed while HSE runs");
  }
  if ((address == CFGR) && (sim_field(CFGR, 0, 2) == 2U) && !bit(CR, 25)) {
    sim_breach("the PLL is chosen before it is ready");
  }
  if ((address == CFGR) && (sim_field(CFGR, 0, 2) == 1U) && !bit(CR, 17)) {
    sim_breach("HSE is chosen before it is ready");
  }
  if ((address == CSR) && bit(CSR, 24)) {
    sim_set(CSR, 0x01000000U);
  }
#if SIM_F7
  if ((address == PWR) && ((changed & (1U << 17)) != 0U) && bit(PWR, 17) && !bit(PWR + 4U, 16)) {
    sim_breach("over-drive's voltage is chosen before it is ready");
  }
  if ((address == ACR) && bit(ACR, 11) && bit(ACR, 9)) {
    sim_breach("ART is emptied while it is on");
  }
#endif
  if ((address == PWR) && ((changed & 0xC000U) != 0U) && bit(CR, 24)) {
    sim_breach("the voltage scale is changed while the PLL is on");
  }
}

static void rules(void) {
  const uint32_t hclk = model_core_hz();
  const uint32_t wait_states = sim_field(ACR, 0, 4);
  if (hclk > (30000000U * (wait_states + 1U))) {
    sim_breach("too few wait states");
  }
  if (hclk > SIM_CORE_MAX) {
    sim_breach("the core is over its limit");
  }
  if (((hclk / apb_divisor(sim_field(CFGR, 10, 3))) > SIM_APB1_MAX) ||
      ((hclk / apb_divisor(sim_field(CFGR, 13, 3))) > SIM_APB2_MAX)) {
    sim_breach("an APB is over its limit");
  }
  const uint32_t used = sim_field(CFGR, 2, 2);
  if (((used == 2U) && !bit(CR, 25)) || ((used == 1U) && !bit(CR, 17))) {
    sim_breach("the system clock is switched off");
  }
  if (bit(CR, 24)) {
    if ((vco_in() < 950000U) || (vco_in() > 2100000U)) {
      sim_breach("the PLL's input is not 1 to 2 MHz");
    }
    if ((vco() < 192000000U) || (vco() > 432000000U)) {
      sim_breach("the VCO is out of its range");
    }
  }
#if SIM_F7
  if ((hclk > 180000000U) && !(bit(PWR + 4U, 16) && bit(PWR + 4U, 17))) {
    sim_breach("more than 180 MHz without over-drive");
  }
#else
  const uint32_t scale = (SIM_CORE_MAX > 84000000U) ? bit(PWR, 14) : (sim_field(PWR, 14, 2) == 2U);
  if ((hclk > ((SIM_CORE_MAX > 84000000U) ? 144000000U : 60000000U)) && (scale == 0U)) {
    sim_breach("the voltage scale is too low for the clock");
  }
#endif
}

void model_step(void) {
  sim_flag(CR, 1U << 1, sim_ready(HSI, bit(CR, 0)) || (sim_now() < 25U));
  sim_flag(CR, 1U << 17, sim_ready(HSE, bit(CR, 16) && (HSE_HZ > 0U) && !sim_is("no-hse")));
  const int source = bit(PLLCFGR, 22) ? bit(CR, 17) : bit(CR, 1);
  sim_flag(CR, 1U << 25, sim_ready(PLL, bit(CR, 24) && source && !sim_is("no-pll")));
  const uint32_t wanted = sim_field(CFGR, 0, 2);
  if (((wanted == 0U) && bit(CR, 1)) || ((wanted == 1U) && bit(CR, 17)) || ((wanted == 2U) && bit(CR, 25))) {
    sim_set(CFGR, (sim_get(CFGR) & ~0xCU) | (wanted << 2));
  }
  sim_flag(PWR + 4U, 1U << 14, sim_ready(VOS, bit(CR, 24)));
#if SIM_F7
  sim_flag(PWR + 4U, 1U << 16, sim_ready(OD, bit(PWR, 16)) && !sim_is("no-over-drive"));
  sim_flag(PWR + 4U, 1U << 17, sim_ready(ODSW, bit(PWR, 17)));
#endif
  rules();
}
