// SPDX-License-Identifier: Apache-2.0
//
// NXP's i.MX RT1060 family (RT1062 and others): 600 MHz from the ARM PLL, which needs 1.25 V; buses at 150 MHz; the
// LPUART on the 24 MHz crystal; pins of LPUART1. The flash's clock stays as set by the boot ROM (imxrt1060_boot.c), and
// the partition of RAM as set by the fuses. SDRAM stays off.
//
// Sources: IMXRT1060RM Rev. 3, IMXRT1060CEC (data sheet), in chapters as named below. Defines: UART_IRQ,
// IMXRT_FLASH_BYTES.
#include <stddef.h>
#include <stdint.h>

#include "chip/await.h"
#include "bare.h"

#ifndef REG16
#define REG16(address) \
  (*(volatile uint16_t*)(uintptr_t)(address))  // the watchdogs' registers do not support word access
#endif

#define XTAL_HZ 24000000U
#define PLL_ARM_DIV 100U  // PLL_ARM: 24 MHz * 100 / 2 = 1200 MHz, ARM_PODF: / 2
#define CORE_DIV 2U
#define IPG_DIV 4U  // 150 MHz, the maximum

#define CCM_CACRR 0x400FC010U  // RM "CCM"
#define CCM_CBCDR 0x400FC014U
#define CCM_CBCMR 0x400FC018U
#define CCM_CSCMR1 0x400FC01CU
#define CCM_CSCDR1 0x400FC024U
#define CCM_CDHIPR 0x400FC048U
#define CCM_CLPCR 0x400FC054U
#define CCM_CCGR2 0x400FC070U
#define CCM_CCGR3 0x400FC074U
#define CCM_CCGR4 0x400FC078U
#define CCM_CCGR5 0x400FC07CU
#define CCM_CCGR6 0x400FC080U
#define CCM_ANALOG_PLL_ARM 0x400D8000U
#define CCM_ANALOG_PLL_USB1 REG32(0x400D8010U)
#define CCM_ANALOG_PLL_SYS REG32(0x400D8030U)
#define DCDC_REG0 0x40080000U  // RM "DCDC"
#define DCDC_REG3 0x4008000CU
#define SRC_SRSR REG32(0x400F8008U)    // RM "SRC"
#define OCOTP_CFG0 REG32(0x401F4410U)  // RM "OCOTP": the unique id, lower and upper half
#define OCOTP_CFG1 REG32(0x401F4420U)
#define MUX_AD_B0_12 REG32(0x401F80ECU)  // RM "IOMUXC"
#define MUX_AD_B0_13 REG32(0x401F80F0U)
#define PAD_AD_B0_12 REG32(0x401F82DCU)
#define PAD_AD_B0_13 REG32(0x401F82E0U)
#define WDOG1_WCR REG16(0x400B8000U)  // RM "WDOG"
#define WDOG1_WSR REG16(0x400B8002U)
#define WDOG1_WMCR REG16(0x400B8008U)
#define WDOG2_WMCR REG16(0x400D0008U)
#define RTWDOG_CS REG32(0x400BC000U)  // RM "RTWDOG"
#define RTWDOG_CNT REG32(0x400BC004U)
#define RTWDOG_TOVAL REG32(0x400BC008U)
#define TRNG_MCTL 0x400CC000U  // RM "TRNG"
#define TRNG_ENT 0x400CC040U

#define CBCDR_IPG_PODF (3U << 8)
#define CBCDR_AHB_PODF (7U << 10)
#define CBCDR_PERIPH_CLK_SEL (1U << 25)
#define CBCDR_PERIPH_CLK2_PODF (7U << 27)
#define CBCMR_PERIPH_CLK2_SEL (3U << 12)
#define CBCMR_PERIPH_CLK2_OSC (1U << 12)
#define CBCMR_PRE_PERIPH_CLK_SEL (3U << 18)
#define CBCMR_PRE_PERIPH_PLL_ARM (3U << 18)
#define CSCMR1_PERCLK (0x7FU)  // source and divider
#define CSCMR1_PERCLK_OSC (1U << 6)
#define CSCDR1_UART (0x7FU)  // source and divider
#define CSCDR1_UART_OSC (1U << 6)
#define CDHIPR_ALL 0x0001002BU  // pending changes of dividers and switches
#define CLPCR_LPM 3U
#define PLL_DIV_SELECT 0x7FU
#define PLL_POWERDOWN (1U << 12)
#define PLL_ENABLE (1U << 13)
#define PLL_BYPASS_SRC (3U << 14)
#define PLL_BYPASS (1U << 16)
#define PLL_LOCK (1U << 31)
#define DCDC_TRG 0x1FU
#define DCDC_TRG_1250_MV 0x12U  // 0.8 V + 18 * 25 mV; IMXRT1060CEC, Operating ranges: 1.25 V above 528 MHz
#define DCDC_STS_DC_OK (1U << 31)
#define READS 1000000U  // each four cycles or more: 7 ms at 600 MHz, much longer before; a PLL locks in 60 us

#define MUX_LPUART1 2U
#define PAD_TX 0x10B0U  // keeper, up to 150 MHz, R0/6
#define PAD_RX 0xB0B0U  // the same, pulled up by 100 kOhm: no breaks while it is not driven

#define SRSR_ALL 0x1FFU
#define SRSR_POWER (1U << 0)
#define SRSR_SOFTWARE (1U << 1)  // a lockup sets the same bit
#define SRSR_PIN (1U << 3)
#define SRSR_WATCHDOG ((1U << 4) | (1U << 7))
#define SRSR_OTHERS ((1U << 2) | (1U << 5) | (1U << 6) | (1U << 8))  // CSU, JTAG, temperature

#define WCR_WDBG (1U << 1)  // stops while a debugger halts the core
#define WCR_WDE (1U << 2)
#define WCR_SRS (1U << 4)  // 0 would reset at once
#define WCR_WDA (1U << 5)  // 0 would drive the pin
#define RTWDOG_KEY 0xD928C520U
#define RTWDOG_CMD32EN (1U << 13)
#define RTWDOG_EN (1U << 7)
#define RTWDOG_UPDATE (1U << 5)

#define MCTL_RAW 1U
#define MCTL_RST_DEF (1U << 6)
#define MCTL_ENT_VAL (1U << 10)
#define MCTL_ERR (1U << 12)
#define MCTL_PRGM (1U << 16)
#define TRNG_READS 5000000U  // each over the slower bus: a quarter of a second; 512 bits take some 60 ms
#define TRNG_WORDS 16U

_Static_assert((((XTAL_HZ / 2U) * PLL_ARM_DIV) / CORE_DIV) == (BOARDSMITH_CORE_HZ),
               "core_hz: not what this port sets, 600 MHz");
_Static_assert((UART_HZ) == XTAL_HZ, "UART_HZ: not what this port sets, the 24 MHz of the crystal");

static uint32_t reset_cause;

// ---- Clocks ------------------------------------------------------------------------------------------------------

static void set_field(uint32_t address, uint32_t mask, uint32_t value) {
  REG32(address) = (REG32(address) & ~mask) | value;
}

// Changes a divider or switch of the core's clock and waits until the change is complete.
static int32_t set_clock(uint32_t address, uint32_t mask, uint32_t value) {
  set_field(address, mask, value);
  return await_bits(CCM_CDHIPR, CDHIPR_ALL, 0, READS);
}

static int32_t pll_arm_on(void) {
  set_field(CCM_ANALOG_PLL_ARM, PLL_BYPASS_SRC, PLL_BYPASS);  // 24 MHz until the PLL locks
  set_field(CCM_ANALOG_PLL_ARM, PLL_DIV_SELECT | PLL_POWERDOWN, PLL_ENABLE | PLL_ARM_DIV);
  if (await_bits(CCM_ANALOG_PLL_ARM, PLL_LOCK, PLL_LOCK, READS) != 0) {
    return -1;
  }
  set_field(CCM_ANALOG_PLL_ARM, PLL_BYPASS, 0);
  return 0;
}

// RM "CCM", Clock switching: through the crystal's 24 MHz, which stays if a step fails. The voltage is set first.
static void core_on(void) {
  if ((set_clock(CCM_CBCMR, CBCMR_PERIPH_CLK2_SEL, CBCMR_PERIPH_CLK2_OSC) != 0) ||
      (set_clock(CCM_CBCDR, CBCDR_PERIPH_CLK2_PODF, 0) != 0) ||
      (set_clock(CCM_CBCDR, CBCDR_PERIPH_CLK_SEL, CBCDR_PERIPH_CLK_SEL) != 0)) {
    return;
  }
  set_field(DCDC_REG3, DCDC_TRG, DCDC_TRG_1250_MV);
  if ((await_bits(DCDC_REG0, DCDC_STS_DC_OK, DCDC_STS_DC_OK, READS) != 0) || (pll_arm_on() != 0)) {
    return;
  }
  if ((set_clock(CCM_CACRR, 7U, CORE_DIV - 1U) != 0) || (set_clock(CCM_CBCDR, CBCDR_AHB_PODF, 0) != 0) ||
      (set_clock(CCM_CBCDR, CBCDR_IPG_PODF, (IPG_DIV - 1U) << 8) != 0)) {
    return;
  }
  set_field(CCM_CBCMR, CBCMR_PRE_PERIPH_CLK_SEL, CBCMR_PRE_PERIPH_PLL_ARM);
  (void)set_clock(CCM_CBCDR, CBCDR_PERIPH_CLK_SEL, 0);
}

static void clocks_on(void) {
  set_field(CCM_CCGR2, 0, 3U << 12);   // OCOTP
  set_field(CCM_CCGR3, 0, 3U << 16);   // WDOG1
  set_field(CCM_CCGR4, 0, 3U << 2);    // IOMUXC
  set_field(CCM_CCGR5, 0, 3U << 24);   // LPUART1
  set_field(CCM_CCGR6, 0, 3U << 12);   // TRNG
  set_field(CCM_CLPCR, CLPCR_LPM, 0);  // WFI leaves the clocks on, so that the tick continues
  set_field(CCM_CSCMR1, CSCMR1_PERCLK, CSCMR1_PERCLK_OSC);
  set_field(CCM_CSCDR1, CSCDR1_UART, CSCDR1_UART_OSC);
  core_on();
}

static uint32_t pll_arm_hz(void) {
  const uint32_t pll = REG32(CCM_ANALOG_PLL_ARM);
  const uint32_t hz = ((pll & PLL_BYPASS) != 0U) ? XTAL_HZ : ((XTAL_HZ / 2U) * (pll & PLL_DIV_SELECT));
  return hz / ((REG32(CCM_CACRR) & 7U) + 1U);
}

static uint32_t pll_sys_hz(void) {
  const uint32_t pll = CCM_ANALOG_PLL_SYS;
  return ((pll & PLL_BYPASS) != 0U) ? XTAL_HZ : (XTAL_HZ * (((pll & 1U) != 0U) ? 22U : 20U));
}

static uint32_t pll_usb1_hz(void) {
  const uint32_t pll = CCM_ANALOG_PLL_USB1;
  return ((pll & PLL_BYPASS) != 0U) ? XTAL_HZ : (XTAL_HZ * (((pll & 2U) != 0U) ? 22U : 20U));
}

// Returns the frequency of the core's clock before AHB_PODF; 0 for a source that this file does not set.
static uint32_t periph_hz(void) {
  const uint32_t cbcdr = REG32(CCM_CBCDR);
  const uint32_t cbcmr = REG32(CCM_CBCMR);
  if ((cbcdr & CBCDR_PERIPH_CLK_SEL) != 0U) {
    const uint32_t select = (cbcmr & CBCMR_PERIPH_CLK2_SEL) >> 12;
    const uint32_t hz = (select == 0U) ? pll_usb1_hz() : ((select < 3U) ? XTAL_HZ : 0U);
    return hz / (((cbcdr & CBCDR_PERIPH_CLK2_PODF) >> 27) + 1U);
  }
  switch ((cbcmr & CBCMR_PRE_PERIPH_CLK_SEL) >> 18) {
    case 0:
      return pll_sys_hz();
    case 3:
      return pll_arm_hz();
    default:
      return 0;
  }
}

uint32_t chip_core_hz(void) { return periph_hz() / (((REG32(CCM_CBCDR) & CBCDR_AHB_PODF) >> 10) + 1U); }

uint32_t chip_uart_hz(void) {
  const uint32_t cscdr1 = REG32(CCM_CSCDR1);
  const uint32_t hz = ((cscdr1 & CSCDR1_UART_OSC) != 0U) ? XTAL_HZ : (pll_usb1_hz() / 6U);
  return hz / ((cscdr1 & 0x3FU) + 1U);
}

// ---- Start -------------------------------------------------------------------------------------------------------

// RAM needs no setup. Watchdogs may be on: the RTWDOG by the fuses; WDOG1 and 2 drive their pin 16 s after power-on
// unless they are disabled.
void chip_early(void) {
  WDOG1_WMCR = 0;
  WDOG2_WMCR = 0;
  if ((RTWDOG_CS & RTWDOG_EN) == 0U) {
    return;
  }
  if ((RTWDOG_CS & RTWDOG_CMD32EN) != 0U) {
    RTWDOG_CNT = RTWDOG_KEY;
  } else {
    RTWDOG_CNT = RTWDOG_KEY & 0xFFFFU;
    RTWDOG_CNT = RTWDOG_KEY >> 16;
  }
  RTWDOG_TOVAL = 0xFFFF;
  RTWDOG_CS = (RTWDOG_CS & ~RTWDOG_EN) | RTWDOG_UPDATE;
}

static void read_reset_cause(void) {
  const uint32_t flags = SRC_SRSR & SRSR_ALL;
  SRC_SRSR = flags;  // writing 1 clears
  reset_cause = ((flags & SRSR_POWER) != 0U) ? (uint32_t)BARE_RESET_POWER : 0U;
  reset_cause |= ((flags & SRSR_SOFTWARE) != 0U) ? (uint32_t)BARE_RESET_SOFTWARE : 0U;
  reset_cause |= ((flags & SRSR_PIN) != 0U) ? (uint32_t)BARE_RESET_PIN : 0U;
  reset_cause |= ((flags & SRSR_WATCHDOG) != 0U) ? (uint32_t)BARE_RESET_WATCHDOG : 0U;
  reset_cause |= ((flags & SRSR_OTHERS) != 0U) ? (uint32_t)BARE_RESET_OTHER : 0U;
}

void chip_init(void) {
  read_reset_cause();
  clocks_on();
  MUX_AD_B0_12 = MUX_LPUART1;
  MUX_AD_B0_13 = MUX_LPUART1;
  PAD_AD_B0_12 = PAD_TX;
  PAD_AD_B0_13 = PAD_RX;
}

void chip_platform(struct bare_platform* p) { p->reset_cause = (int32_t)reset_cause; }

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  const uint32_t halves[2] = {OCOTP_CFG0, OCOTP_CFG1};
  uint32_t n = 0;
  for (; (n < 8U) && (n < max_bytes); n++) {
    id[n] = (uint8_t)(halves[n / 4U] >> (8U * (n % 4U)));
  }
  return n;
}

// ---- Random bits, watchdog -----------------------------------------------------------------------------------------

// RM "TRNG": generates 512 bits in ENT0 to ENT15, with the default settings.
static int32_t random_words(void) {
  for (uint32_t i = 0; i < TRNG_READS; i++) {
    const uint32_t status = REG32(TRNG_MCTL);
    if ((status & MCTL_ENT_VAL) != 0U) {
      return 0;
    }
    if ((status & MCTL_ERR) != 0U) {
      REG32(TRNG_MCTL) = status | MCTL_ERR;  // a test failed; writing 1 restarts it
    }
  }
  return -1;
}

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  static uint32_t word;
  if ((REG32(TRNG_MCTL) & MCTL_ENT_VAL) == 0U) {
    REG32(TRNG_MCTL) = MCTL_PRGM | MCTL_RST_DEF;
    REG32(TRNG_MCTL) = MCTL_PRGM | MCTL_RAW;
    REG32(TRNG_MCTL) = MCTL_RAW | MCTL_ERR;  // runs
    word = 0;
  }
  uint32_t value = 0;
  for (uint32_t i = 0; i < size_bytes; i++) {
    if ((i % 4U) == 0U) {
      if (random_words() != 0) {
        return -1;
      }
      value = REG32(TRNG_ENT + (4U * word));
      word = (word + 1U) % TRNG_WORDS;  // reading the last word generates new ones
    }
    data[i] = (uint8_t)(value >> (8U * (i % 4U)));
  }
  return 0;
}

// WDOG1 counts half seconds.
bare_watchdog_t chip_watchdog(void) { return (bare_watchdog_t){.hz = 2, .most = 256}; }

void chip_watchdog_start(uint32_t counts) {
  const uint32_t control = ((counts - 1U) << 8) | WCR_WDA | WCR_SRS | WCR_WDBG;
  WDOG1_WCR = (uint16_t)control;
  WDOG1_WCR = (uint16_t)(control | WCR_WDE);
  chip_watchdog_feed();
}

void chip_watchdog_feed(void) {
  WDOG1_WSR = 0x5555;
  WDOG1_WSR = 0xAAAA;
}
