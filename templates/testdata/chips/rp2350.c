// SPDX-License-Identifier: Apache-2.0
//
// RP2350 in software, as far as the port touches it: RP2350 datasheet §7 to §9, §12.9, §12.12, §13; the UART is the
// PL011's baud rate alone.
#include "fake.h"

#define REF_CTRL 0x40010030U
#define REF_DIV 0x40010034U
#define REF_SELECTED 0x40010038U
#define SYS_CTRL 0x4001003CU
#define SYS_DIV 0x40010040U
#define SYS_SELECTED 0x40010044U
#define PERI_CTRL 0x40010048U
#define PERI_DIV 0x4001004CU
#define FRCE_OFF 0x40018004U
#define WDSEL 0x40018008U
#define RESET 0x40020000U
#define DONE 0x40020008U
#define XOSC_CTRL 0x40048000U
#define XOSC_STATUS 0x40048004U
#define XOSC_STARTUP 0x4004800CU
#define PLL_CS 0x40050000U
#define PLL_PWR 0x40050004U
#define PLL_FBDIV 0x40050008U
#define PLL_PRIM 0x4005000CU
#define UART0 0x40070000U
#define WD_CTRL 0x400D8000U
#define WD_LOAD 0x400D8004U
#define WD_REASON 0x400D8008U
#define WD_SCRATCH0 0x400D800CU
#define TRNG 0x400F0000U
#define CHIP_RESET 0x4010002CU
#define PAD0 0x40038004U
#define PAD1 0x40038008U
#define TICKS_CTRL 0x40108030U
#define TICKS_CYCLES 0x40108034U
#define OTP 0x40130000U

#define ALL_BLOCKS 0x1FFFFFFFU
#define FLASH_BLOCKS ((1U << 7) | (1U << 10))
#define PLL_BLOCK (1U << 14)
#define TRNG_BLOCK (1U << 25)
#define UART_BLOCK (1U << 26)
#define SYSINFO_BLOCK (1U << 21)
#define ROSC_HZ 11000000U

static uint32_t feeds;
static uint32_t sampling_since;
static uint32_t noise = 0x2545F491U;

// "after=power", "after=brownout", "after=run", "after=glitch", "after=watchdog", "after=forced", "after=software": the
// cause of the start. RESETS reads as the boot ROM leaves it; all pads are isolated then.
void model_reset(void) {
  fake_set(RESET, ALL_BLOCKS & ~(FLASH_BLOCKS | TRNG_BLOCK | (1U << 6) | (1U << 9) | SYSINFO_BLOCK));
  fake_set(REF_DIV, 0x10000);
  fake_set(SYS_DIV, 0x10000);
  fake_set(PERI_DIV, 0x10000);
  fake_set(REF_SELECTED, 1);
  fake_set(SYS_SELECTED, 1);
  fake_set(PLL_CS, 1);
  fake_set(PLL_PWR, 0x2D);
  fake_set(PLL_PRIM, 0x77000);
  fake_set(PAD0, 0x116);
  fake_set(PAD1, 0x116);
  fake_set(0x400C8000U, 0x83);
  fake_set(OTP, 0x01020304U);
  fake_set(OTP + 4U, 0xA1B2C3D4U);
  const uint32_t cause = fake_is("after=run")        ? 18U
                         : fake_is("after=brownout") ? 17U
                         : fake_is("after=glitch")   ? 26U
                                                     : 16U;
  fake_set(CHIP_RESET, 1U << cause);
  if (fake_is("slow-clock")) {  // another firmware ran before, its dividers are set
    fake_set(REF_DIV, 4U << 16);
    fake_set(SYS_DIV, 0x28000);
    fake_set(PERI_DIV, 2U << 16);
  }
  if (fake_is("usb-clock")) {  // likewise, its clk_sys from the USB's PLL
    fake_set(SYS_CTRL, (1U << 5) | 1U);
    fake_set(SYS_SELECTED, 2);
  }
  if (fake_is("after=watchdog") || fake_is("after=forced")) {
    fake_set(WD_SCRATCH0, 0x626F6172U);  // the port was here before
    fake_set(WD_REASON, fake_is("after=forced") ? 2 : 1);
  }
  if (fake_is("after=software")) {  // all but the processors is as it was
    fake_set(WD_SCRATCH0, 0x626F6172U);
    fake_set(RESET, ALL_BLOCKS & ~(FLASH_BLOCKS | (1U << 6) | (1U << 9) | PLL_BLOCK | UART_BLOCK | SYSINFO_BLOCK));
    fake_set(XOSC_CTRL, 0x00FABAA0U);
    fake_set(REF_CTRL, 2);
    fake_set(SYS_CTRL, 1);
    fake_set(PLL_FBDIV, 125);
    fake_set(PLL_PWR, 4);
    fake_set(PLL_PRIM, 0x52000);
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

// TRNG_BUSY is set while samples are taken: after EHR_DATA5 was read, or the source enabled.
static void touched_trng(uint32_t address) {
  if ((address & 0xFFFFF000U) != TRNG) {
    return;
  }
  if (in_reset(TRNG_BLOCK)) {
    fake_breach("the TRNG in reset is used");
  }
  const uint32_t offset = address - TRNG;
  if ((offset >= 0x114U) && (offset <= 0x128U) && (fake_get(TRNG + 0x1B8U) != 0U)) {
    fake_breach("samples are read before they are complete");
  }
  if ((offset == 0x128U) || (offset == 0x12CU)) {
    sampling_since = fake_now();
    fake_set(TRNG + 0x1B8U, 1);
  }
}

static void step_trng(void) {
  const int on = ((fake_get(TRNG + 0x12CU) & 1U) != 0U) && !fake_is("no-rng");
  if (!on || (fake_get(TRNG + 0x1B8U) == 0U) || ((fake_now() - sampling_since) < 200U)) {
    return;
  }
  fake_set(TRNG + 0x1B8U, 0);
  for (uint32_t i = 0x114U; i <= 0x128U; i += 4U) {
    noise = (noise * 1664525U) + 1013904223U;
    fake_set(TRNG + i, fake_is("stuck-rng") ? 0U : noise);
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
  if ((address == RESET) && ((after & FLASH_BLOCKS) != 0U)) {
    fake_breach("the flash's pins are reset");
  }
  if ((address == RESET) && ((after & SYSINFO_BLOCK) != 0U)) {
    fake_breach("SYSINFO is in reset, so that a debugger does not find the chip's id");
  }
  if (((address & 0xFFFFF000U) == 0x40028000U) && in_reset(1U << 6)) {
    fake_breach("IO_BANK0 in reset is used");
  }
  if (((address & 0xFFFFF000U) == 0x40038000U) && in_reset(1U << 9)) {
    fake_breach("PADS_BANK0 in reset is used");
  }
  if (((address & 0xFFFFF000U) == UART0) && in_reset(UART_BLOCK)) {
    fake_breach("UART0 in reset is used");
  }
  if (((address == PAD0) || (address == PAD1)) && ((after & 0x100U) == 0U) &&
      (fake_get((address == PAD0) ? 0x40028004U : 0x4002800CU) != 2U)) {
    fake_breach("a pad is connected before its function is chosen");
  }
  if (address == WD_LOAD) {
    feeds++;
  }
  touched_trng(address);
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
  fake_set(DONE, ~fake_get(RESET) & ALL_BLOCKS);
  fake_set(REF_SELECTED, 1U << (fake_get(REF_CTRL) & 3U));
  fake_set(SYS_SELECTED, 1U << (fake_get(SYS_CTRL) & 1U));
  if (model_core_hz() > 150000000U) {
    fake_breach("clk_sys is above 150 MHz");
  }
  step_trng();
}

static uint32_t divided(uint32_t hz, uint32_t div) { return (uint32_t)(((uint64_t)hz << 16) / div); }

uint32_t model_core_hz(void) {
  const uint32_t ref = divided((fake_get(REF_SELECTED) == 4U) ? crystal_hz() : ROSC_HZ, fake_get(REF_DIV));
  uint32_t hz = ref;
  if ((fake_get(SYS_CTRL) & 1U) != 0U) {
    const uint32_t prim = fake_get(PLL_PRIM);
    hz = ((fake_get(SYS_CTRL) >> 5) == 1U)
             ? 48000000U
             : (crystal_hz() * fake_get(PLL_FBDIV)) / (((prim >> 16) & 7U) * ((prim >> 12) & 7U));
  }
  return divided(hz, fake_get(SYS_DIV));
}

uint32_t model_uart_hz(void) {
  if ((fake_get(PERI_CTRL) & 0xCE0U) != 0x800U) {
    fake_breach("clk_peri is off, or not clk_sys");
    return 0;
  }
  return divided(model_core_hz(), fake_get(PERI_DIV) & 0x30000U);
}

// Its rate is the clock / (16 * (IBRD + FBRD / 64)).
uint32_t model_baud(void) {
  const uint32_t divider = (64U * fake_get(UART0 + 0x24U)) + fake_get(UART0 + 0x28U);
  if ((fake_get(0x40028004U) != 2U) || (fake_get(0x4002800CU) != 2U) || ((fake_get(PAD1) & 0x1CCU) != 0x48U)) {
    fake_breach("pins: GPIO 0 and 1 are not UART0's, or GPIO 1 is no pulled-up input");
  }
  if (((fake_get(PAD0) | fake_get(PAD1)) & 0x180U) != 0U) {
    fake_breach("pins: isolated, or the output is off");
  }
  if ((fake_get(FRCE_OFF) & (1U << 24)) != 0U) {
    fake_breach("the second core is still held, so that no debugger finds it");
  }
  return (divider == 0U) ? 0U : (4U * model_uart_hz()) / divider;
}

// LOAD counts microseconds, by a tick of clk_ref.
uint32_t model_watchdog_ms(void) {
  if ((fake_get(WD_CTRL) & (1U << 30)) == 0U) {
    return 0;
  }
  if (((fake_get(TICKS_CTRL) & 1U) == 0U) || (fake_get(TICKS_CYCLES) != 12U)) {
    fake_breach("the watchdog's tick is no microsecond");
  }
  if (fake_get(WDSEL) != 0x01FFFFF3U) {
    fake_breach("the watchdog resets too much or too little");
  }
  if (fake_get(WD_LOAD) > 0xFFFFFFU) {
    fake_breach("LOAD has 24 bits");
  }
  return fake_get(WD_LOAD) / 1000U;
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
