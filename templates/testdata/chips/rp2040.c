// SPDX-License-Identifier: Apache-2.0
//
// RP2040 in software, as far as the port touches it: RP2040 datasheet §2.12 to §2.19, §4.7; the UART is the PL011's
// baud rate alone.
#include "fake.h"

#define RESET 0x4000C000U
#define DONE 0x4000C008U
#define FRCE_OFF 0x40010004U
#define WDSEL 0x40010008U
#define REF_CTRL 0x40008030U
#define REF_DIV 0x40008034U
#define REF_SELECTED 0x40008038U
#define SYS_CTRL 0x4000803CU
#define SYS_DIV 0x40008040U
#define SYS_SELECTED 0x40008044U
#define PERI_CTRL 0x40008048U
#define XOSC_CTRL 0x40024000U
#define XOSC_STATUS 0x40024004U
#define XOSC_STARTUP 0x4002400CU
#define PLL_CS 0x40028000U
#define PLL_PWR 0x40028004U
#define PLL_FBDIV 0x40028008U
#define PLL_PRIM 0x4002800CU
#define WD_CTRL 0x40058000U
#define WD_LOAD 0x40058004U
#define WD_TICK 0x4005802CU
#define UART0 0x40034000U

#define PLL_BLOCK (1U << 12)

static uint32_t feeds;
static uint32_t noise = 0x2545F491U;

// "after=power", "after=run", "after=watchdog", "after=software": the cause of the start. RESETS reads as the boot ROM
// leaves it.
void model_reset(void) {
  fake_set(RESET, 0x01FFFFFFU & ~((1U << 6) | (1U << 9)));  // the boot ROM needed the flash
  fake_set(REF_DIV, 0x100);
  fake_set(SYS_DIV, 0x100);
  fake_set(REF_SELECTED, 1);
  fake_set(SYS_SELECTED, 1);
  fake_set(PLL_CS, 1);
  fake_set(PLL_PWR, 0x2D);
  fake_set(PLL_PRIM, 0x77000);
  fake_set(0x40060018U, 1U << 31);
  fake_set(0x14000000U, 3);
  fake_set(0x40064008U, fake_is("after=run") ? (1U << 16) : (1U << 8));
  if (fake_is("usb-clock")) {  // another firmware ran before, its clk_sys from the USB's PLL
    fake_set(SYS_CTRL, (1U << 5) | 1U);
    fake_set(SYS_SELECTED, 2);
  }
  if (fake_is("after=power") || fake_is("after=run")) {
    return;
  }
  fake_set(0x4005800CU, 0x626F6172U);  // the port was here before
  fake_set(0x40058008U, 1);            // and the watchdog has bitten at some time
  if (fake_is("after=software")) {     // all but the processors is as it was
    fake_set(RESET, 0x01FFFFFFU & ~((1U << 5) | (1U << 6) | (1U << 8) | (1U << 9) | PLL_BLOCK | (1U << 22)));
    fake_set(XOSC_CTRL, 0x00FABAA0U);
    fake_set(REF_CTRL, 2);
    fake_set(SYS_CTRL, 1);
    fake_set(PLL_FBDIV, 125);
    fake_set(PLL_PWR, 4);
    fake_set(PLL_PRIM, 0x62000);
    fake_set(WD_CTRL, 1U << 30);
  }
}

// "crystal=hex": its actual rate in Hz.
static uint32_t crystal_hz(void) { return fake_number("crystal", 12000000U); }

static int in_reset(uint32_t block) { return (fake_get(RESET) & block) != 0U; }

static int xosc_is_stable(void) { return (fake_get(XOSC_STATUS) >> 31) != 0U; }

static int pll_is_locked(void) { return (fake_get(PLL_CS) >> 31) != 0U; }

static void touched_clocks(uint32_t address, uint32_t before, uint32_t after) {
  if ((address == SYS_CTRL) && ((before >> 5) != (after >> 5)) && ((fake_get(SYS_SELECTED) & 2U) != 0U)) {
    fake_breach("clk_sys: AUXSRC changes while it is in use");
  }
  if ((address == SYS_CTRL) && ((after & 1U) != 0U) &&
      (!pll_is_locked() || ((fake_get(PLL_PWR) & 0x29U) != 0U) || ((after >> 5) != 0U))) {
    fake_breach("clk_sys: switched to a PLL that does not run");
  }
  if ((address == REF_CTRL) && (after == 2U) && !xosc_is_stable()) {
    fake_breach("clk_ref: switched to a crystal that does not run");
  }
  if (((address == PLL_FBDIV) || (address == PLL_PRIM)) && in_reset(PLL_BLOCK)) {
    fake_breach("the PLL is set up in reset");
  }
  if ((address == PLL_FBDIV) && (before != after) && ((fake_get(PLL_PWR) & 1U) == 0U)) {
    fake_breach("FBDIV changes while the PLL runs");
  }
}

void model_touched(uint32_t address, uint32_t before, uint32_t after) {
  const uint32_t alias = address & 0x3000U;
  if ((address >= 0x40000000U) && (address < 0x50000000U) && (alias >= 0x2000U)) {  // set, clear
    const uint32_t base = address & ~0x3000U;
    const uint32_t was = fake_get(base);
    fake_set(base, (alias == 0x2000U) ? (was | after) : (was & ~after));
    fake_set(address, 0);
    if (was != fake_get(base)) {
      model_touched(base, was, fake_get(base));
    }
    return;
  }
  touched_clocks(address, before, after);
  if ((address == RESET) && ((after & ~before & PLL_BLOCK) != 0U)) {
    fake_set(PLL_CS, 1);
    fake_set(PLL_PWR, 0x2D);
    fake_set(PLL_FBDIV, 0);
    fake_set(PLL_PRIM, 0x77000);
  }
  if ((address == RESET) && ((after & PLL_BLOCK) != 0U) && ((fake_get(SYS_SELECTED) & 2U) != 0U) &&
      ((fake_get(SYS_CTRL) >> 5) == 0U)) {
    fake_breach("the PLL is reset while clk_sys comes from it");
  }
  if ((address == RESET) && ((after & ((1U << 6) | (1U << 9))) != 0U)) {
    fake_breach("the flash's pins are reset");
  }
  if (((address & 0xFFFFF000U) == 0x40014000U) && in_reset(1U << 5)) {
    fake_breach("IO_BANK0 in reset is used");
  }
  if (((address & 0xFFFFF000U) == 0x4001C000U) && in_reset(1U << 8)) {
    fake_breach("PADS_BANK0 in reset is used");
  }
  if (((address & 0xFFFFF000U) == UART0) && in_reset(1U << 22)) {
    fake_breach("UART0 in reset is used");
  }
  if (address == WD_LOAD) {
    feeds++;
  }
  if (address == 0x4006001CU) {
    noise = (noise * 1664525U) + 1013904223U;
    fake_set(address, noise >> 31);
  }
}

void model_step(void) {
  const uint32_t pwr = fake_get(PLL_PWR);
  const int crystal = (fake_get(XOSC_CTRL) == 0x00FABAA0U) && !fake_is("no-crystal");
  fake_set(XOSC_STATUS, fake_after(0, crystal, 300) ? (1U << 31) : 0U);
  if (crystal && (fake_get(XOSC_STARTUP) < 47U) && !fake_is("after=software")) {
    fake_breach("the crystal gets less than a millisecond");
  }
  const uint32_t vco = 12U * fake_get(PLL_FBDIV);
  const int pll = ((pwr & 0x21U) == 0U) && xosc_is_stable() && !in_reset(PLL_BLOCK) && !fake_is("no-pll");
  if (pll && ((vco < 750U) || (vco > 1600U))) {
    fake_breach("the VCO is out of its range of 750 to 1600 MHz");
  }
  fake_set(PLL_CS, (fake_get(PLL_CS) & 0x7FFFFFFFU) | (fake_after(1, pll, 100) ? (1U << 31) : 0U));
  fake_set(DONE, ~fake_get(RESET) & 0x01FFFFFFU);
  fake_set(REF_SELECTED, 1U << (fake_get(REF_CTRL) & 3U));
  fake_set(SYS_SELECTED, 1U << (fake_get(SYS_CTRL) & 1U));
  if (model_core_hz() > 133000000U) {
    fake_breach("clk_sys is above 133 MHz");
  }
  if (fake_is("no-rosc")) {
    fake_set(0x40060018U, 0);
  }
}

uint32_t model_core_hz(void) {
  const uint32_t ref = (fake_get(REF_SELECTED) == 4U) ? crystal_hz() : 6500000U;
  if ((fake_get(SYS_CTRL) & 1U) == 0U) {
    return ref;
  }
  if ((fake_get(SYS_CTRL) >> 5) == 1U) {
    return 48000000U;
  }
  const uint32_t prim = fake_get(PLL_PRIM);
  return (crystal_hz() * fake_get(PLL_FBDIV)) / (((prim >> 16) & 7U) * ((prim >> 12) & 7U));
}

uint32_t model_uart_hz(void) {
  if ((fake_get(PERI_CTRL) & 0xCE0U) != 0x800U) {
    fake_breach("clk_peri is off, or not clk_sys");
    return 0;
  }
  return model_core_hz();
}

// Its rate is the clock / (16 * (IBRD + FBRD / 64)).
uint32_t model_baud(void) {
  const uint32_t divider = (64U * fake_get(UART0 + 0x24U)) + fake_get(UART0 + 0x28U);
  if ((fake_get(0x40014004U) != 2U) || (fake_get(0x4001400CU) != 2U) || ((fake_get(0x4001C008U) & 0xCCU) != 0x48U)) {
    fake_breach("pins: GPIO 0 and 1 are not UART0's, or GPIO 1 is no pulled-up input");
  }
  if ((fake_get(FRCE_OFF) & (1U << 16)) != 0U) {
    fake_breach("the second core is still held, so that no debugger finds it");
  }
  return (divider == 0U) ? 0U : (4U * model_uart_hz()) / divider;
}

// Erratum RP2040-E1: the counter goes down twice a tick.
uint32_t model_watchdog_ms(void) {
  const uint32_t cycles = fake_get(WD_TICK) & 0x1FFU;
  if ((fake_get(WD_CTRL) & (1U << 30)) == 0U) {
    return 0;
  }
  if (((fake_get(WD_TICK) & 0x200U) == 0U) || (cycles != 12U)) {
    fake_breach("the watchdog's tick is no microsecond");
  }
  if (fake_get(WDSEL) != 0x1FFFCU) {
    fake_breach("the watchdog resets too much or too little");
  }
  if (fake_get(WD_LOAD) > 0xFFFFFFU) {
    fake_breach("LOAD has 24 bits");
  }
  return fake_get(WD_LOAD) / 2000U;
}

uint32_t model_watchdog_feeds(void) { return feeds; }

int model_uart_arrives(uint8_t byte) {
  (void)byte;
  return 0;
}
int model_uart_pending(void) { return 0; }
uint32_t model_uart_sent(uint8_t* bytes, uint32_t max) {
  (void)bytes;
  (void)max;
  return 0;
}
