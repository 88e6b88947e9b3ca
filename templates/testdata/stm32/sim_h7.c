// SPDX-License-Identifier: Apache-2.0
//
// The clocks, power and flash interface of the STM32H743 in software (sim.h), after RM0433 and DS12110; its USART is
// USART3.
#include "sim.h"

#define CR 0x58024400U
#define CFGR 0x58024410U
#define D1CFGR 0x58024418U
#define D2CFGR 0x5802441CU
#define PLLCKSELR 0x58024428U
#define PLLCFGR 0x5802442CU
#define PLL1DIVR 0x58024430U
#define D2CCIP2R 0x58024454U
#define RSR 0x580244D0U
#define AHB2ENR 0x580244DCU
#define AHB4ENR 0x580244E0U
#define APB1LENR 0x580244E8U
#define APB4ENR 0x580244F4U
#define PWR 0x58024800U
#define SYSCFG 0x58000400U
#define ACR 0x52002000U
#define IDC 0x5C001000U
#define AXI_OVERRIDE 0x51008108U
#ifdef SIM_HSE_HZ  // the crystal's actual rate
#define HSE_HZ SIM_HSE_HZ
#else
#define HSE_HZ ((uint32_t)(STM32_HSE_HZ))
#endif

enum { HSI, HSE, PLL, SUPPLY, VOS, HSI48, DIVIDER };

const sim_map_t model_map = {
    .gpio = 0x58020000U,
    .usart = 0x40004800U,
    .rng = 0x48021800U,
    .iwdg = 0x58004800U,
    .uid = 0x1FF1E800U,
    .usart_v2 = 1,
};

static int bit(uint32_t address, uint32_t n) { return (int)((sim_get(address) >> n) & 1U); }
static int old_revision(void) { return sim_is("revision-y"); }

// The port's own is in assembler, and TestSTM32H7Early runs it.
void stm32h7_powered(void);
void chip_early(void) {
  REG32(PWR + 0x0CU) = 2;
  stm32h7_powered();
}

void model_reset(void) {
  sim_set(CR, 0x00000025U);
  sim_set(PLLCKSELR, 0x02020200U);
  sim_set(PLLCFGR, 0x01FF0000U);
  sim_set(PLL1DIVR, 0x01010280U);
  sim_set(RSR, 0x00E80000U);
  sim_set(ACR, 0x00000037U);
  sim_set(PWR + 0x0CU, 0x00000006U);
  sim_set(PWR + 0x18U, 0x00004000U);
  sim_set(IDC, old_revision() ? 0x10036450U : 0x20036450U);
  if (sim_is("watchdog")) {
    sim_set(RSR, 0x04420000U);
  }
  if (sim_is("pin")) {
    sim_set(RSR, 0x00420000U);
  }
}

static uint32_t source(uint32_t which) {
  const uint32_t hz[4] = {64000000U >> sim_field(CR, 3, 2), 4000000U, HSE_HZ, 0};
  return hz[which];
}

static uint32_t vco_in(void) {
  const uint32_t m = sim_field(PLLCKSELR, 4, 6);
  return (m == 0U) ? 0U : (source(sim_field(PLLCKSELR, 0, 2)) / m);
}

static uint32_t vco(void) { return vco_in() * (sim_field(PLL1DIVR, 0, 9) + 1U); }

static uint32_t ahb_divisor(uint32_t field) {
  static const uint32_t by[] = {2, 4, 8, 16, 64, 128, 256, 512};
  return (field < 8U) ? 1U : by[field - 8U];
}

static uint32_t apb_divisor(uint32_t field) { return (field < 4U) ? 1U : (2U << (field - 4U)); }

uint32_t model_core_hz(void) {
  const uint32_t used = sim_field(CFGR, 3, 3);
  const uint32_t sysclk = (used == 3U) ? (vco() / (sim_field(PLL1DIVR, 9, 7) + 1U)) : source(used & 3U);
  return sysclk / ahb_divisor(sim_field(D1CFGR, 8, 4));
}

static uint32_t hclk(void) { return model_core_hz() / ahb_divisor(sim_field(D1CFGR, 0, 4)); }

uint32_t model_uart_hz(void) {
  const uint32_t hz[8] = {hclk() / apb_divisor(sim_field(D2CFGR, 4, 3)), 0, 0, source(0), 4000000U, 32768U, 0, 0};
  return hz[sim_field(D2CCIP2R, 0, 3)];
}

uint32_t model_rng_hz(void) { return ((sim_field(D2CCIP2R, 8, 2) == 0U) && bit(CR, 13)) ? 48000000U : 0U; }

int model_clocked(uint32_t address) {
  if ((address & ~0x3FFU) == SYSCFG) {
    return bit(APB4ENR, 1);
  }
  if ((address & ~0x3FFU) == 0x40004800U) {
    return bit(APB1LENR, 18);
  }
  if ((address >= 0x58020000U) && (address < 0x58022C00U)) {
    return bit(AHB4ENR, (address - 0x58020000U) / 0x400U);
  }
  if ((address & ~0x3FFU) == 0x48021800U) {
    return bit(AHB2ENR, 6);
  }
  return 1;
}

void model_written(uint32_t address, uint32_t was) {
  const uint32_t changed = sim_get(address) ^ was;
  const int pll_registers = (address == PLL1DIVR) || ((address == PLLCFGR) && ((changed & 0x1000FU) != 0U)) ||
                            ((address == PLLCKSELR) && ((changed & 0x3F3U) != 0U));
  if (pll_registers && bit(CR, 24)) {
    sim_breach("the PLL is changed while it runs");
  }
  if ((address == CFGR) && (sim_field(CFGR, 0, 3) == 3U) && !bit(CR, 25)) {
    sim_breach("the PLL is chosen before it is ready");
  }
  if ((address == (PWR + 0x18U)) && ((changed & 0xC000U) != 0U) && !bit(PWR + 4U, 13)) {
    sim_breach("the voltage scale is changed before the supply is confirmed");
  }
  if ((address == (SYSCFG + 0x2CU)) && bit(SYSCFG + 0x2CU, 0) &&
      (old_revision() || (sim_field(PWR + 0x18U, 14, 2) != 3U))) {
    sim_breach("VOS0 is chosen where there is none");
  }
  if ((address == RSR) && bit(RSR, 16)) {
    sim_set(RSR, 0);
  }
}

static uint32_t core_limit(void) {
  static const uint32_t mhz[4] = {0, 200, 300, 400};
  const int boosted = bit(SYSCFG + 0x2CU, 0) && bit(PWR + 0x18U, 13);
  return boosted ? 480000000U : (mhz[sim_field(PWR + 0x18U, 14, 2)] * 1000000U);
}

// The flash's bus clock that wait states and programming delay allow, at VOS1 and VOS0.
static uint32_t flash_limit(void) {
  const uint32_t wait_states = sim_field(ACR, 0, 4);
  static const uint32_t by_wait_states[] = {70, 140, 210, 225, 240};
  static const uint32_t by_delay[] = {70, 185, 240, 240};
  const uint32_t a = by_wait_states[(wait_states < 4U) ? wait_states : 4U];
  const uint32_t b = by_delay[sim_field(ACR, 4, 2)];
  return ((a < b) ? a : b) * 1000000U;
}

static void rules(void) {
  if (model_core_hz() > core_limit()) {
    sim_breach("the core is over its limit");
  }
  const uint32_t limit = (core_limit() < 400000000U) ? 150000000U : (core_limit() / 2U);
  if (hclk() > limit) {
    sim_breach("the AHB is over its limit");
  }
  const uint32_t apbs[] = {sim_field(D1CFGR, 4, 3), sim_field(D2CFGR, 4, 3), sim_field(D2CFGR, 8, 3),
                           sim_field(0x58024420U, 4, 3)};
  for (uint32_t i = 0; i < 4U; i++) {
    if ((hclk() / apb_divisor(apbs[i])) > (limit / 2U)) {
      sim_breach("an APB is over its limit");
    }
  }
  if (hclk() > flash_limit()) {
    sim_breach("too few wait states");
  }
  if ((sim_field(CFGR, 3, 3) == 3U) && !bit(CR, 25)) {
    sim_breach("the system clock is switched off");
  }
  if (bit(CR, 24)) {
    const uint32_t low = 1000000U << sim_field(PLLCFGR, 2, 2);
    if ((vco_in() < low) || (vco_in() > (2U * low))) {
      sim_breach("the PLL's input is not in the range that RGE says");
    }
    if ((vco() < 192000000U) || (vco() > (old_revision() ? 836000000U : 960000000U)) || bit(PLLCFGR, 1)) {
      sim_breach("the VCO is out of its range");
    }
    if (!bit(PLLCFGR, 16)) {
      sim_breach("the PLL's output P is off");
    }
  }
  if ((sim_now() > 60U) && old_revision() && !bit(AXI_OVERRIDE, 0)) {
    sim_breach("AXI SRAM is used without the work-around");
  }
}

void model_step(void) {
  sim_flag(CR, 1U << 2, sim_ready(HSI, bit(CR, 0)) || (sim_now() < 25U));
  sim_flag(CR, 1U << 5, sim_ready(DIVIDER, bit(CR, 0)));
  sim_flag(CR, 1U << 13, sim_ready(HSI48, bit(CR, 12)));
  sim_flag(CR, 1U << 17, sim_ready(HSE, bit(CR, 16) && (HSE_HZ > 0U) && !sim_is("no-hse")));
  const uint32_t from = sim_field(PLLCKSELR, 0, 2);
  const int fed = (from == 2U) ? bit(CR, 17) : ((from == 0U) && bit(CR, 2));
  sim_flag(CR, 1U << 25, sim_ready(PLL, bit(CR, 24) && fed && !sim_is("no-pll")));
  const uint32_t wanted = sim_field(CFGR, 0, 3);
  if (((wanted == 0U) && bit(CR, 2)) || ((wanted == 3U) && bit(CR, 25))) {
    sim_set(CFGR, (sim_get(CFGR) & ~0x38U) | (wanted << 3));
  }
  sim_flag(PWR + 4U, 1U << 13, sim_ready(SUPPLY, (sim_get(PWR + 0x0CU) & 7U) == 2U));
  // A new scale takes a while, and VOS0 once more.
  static uint32_t scale = 1;
  const uint32_t asked = sim_field(PWR + 0x18U, 14, 2) + (4U * sim_field(SYSCFG + 0x2CU, 0, 1));
  if (asked != scale) {
    scale = asked;
    (void)sim_ready(VOS, 0);
  }
  sim_flag(PWR + 0x18U, 1U << 13, sim_ready(VOS, bit(PWR + 4U, 13)));
  rules();
}
