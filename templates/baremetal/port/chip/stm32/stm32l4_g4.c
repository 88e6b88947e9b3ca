// SPDX-License-Identifier: Apache-2.0
//
// chip_* of the STM32L4 (RM0351: STM32L475), the STM32L4+ (RM0432: STM32L4R5) and the STM32G4 (RM0440: STM32G474):
// voltage range 1, with boost above its limit, flash accelerator, clocks, USART pins, random numbers. Citations of
// RM0432 also apply to the other two; the STM32G4 has HSI16 where the STM32L4 has MSI.
//
// The core's clock comes from the main PLL, with HSE as its source if the board has one, else the oscillator of a
// reset: MSI at 4 MHz, or HSI16. Each of these alone is accurate to about 1 %. With STM32_LSE 1, MSI is locked to the
// 32.768 kHz crystal (RM0432 §6.2.3, MSI PLL-mode) at 122 times its frequency, 3,997,696 Hz, so `core_hz` is 30 times
// that, not 120 MHz. If that crystal or the PLL does not start, chip_core_hz returns the actual clock. After a loss of
// power the crystal takes up to 2 seconds.
//
// QEMU's STM32L475 has clocks, but neither flash interface nor unique id (stm32_has_flash).
//
// A chip file's `defines`: STM32_HAS_MSI (0: an STM32G4), STM32_CORE_MAX_HZ, STM32_BOOST_HZ (above it range 1 needs
// boost: RM0432 §5.1.8, RM0440 §6.1.5), STM32_WAIT_STATE_HZ (Hz per wait state of the flash), STM32_PLLM_MAX,
// STM32_HAS_HSI48 (else PLLQ clocks random numbers), STM32_UART_FIFO. A board's: STM32_LSE, 1 if the crystal is fitted,
// which only the STM32L4 uses.
#include <stdint.h>

#include "chip/stm32/stm32.h"

#define RCC_BASE 0x40021000U  // RM0432 §6.4
#define RCC_CR (RCC_BASE + 0x00U)
#define RCC_CFGR (RCC_BASE + 0x08U)
#define RCC_PLLCFGR (RCC_BASE + 0x0CU)
#define RCC_AHB2ENR (RCC_BASE + 0x4CU)
#define RCC_APB1ENR1 (RCC_BASE + 0x58U)
#define RCC_APB1ENR2 (RCC_BASE + 0x5CU)
#define RCC_APB2ENR (RCC_BASE + 0x60U)
#define RCC_CCIPR (RCC_BASE + 0x88U)
#define RCC_BDCR (RCC_BASE + 0x90U)
#define RCC_CSR (RCC_BASE + 0x94U)
#define RCC_CRRCR (RCC_BASE + 0x98U)

#define RCC_CR_MSION (1U << 0)
#define RCC_CR_MSIRDY (1U << 1)
#define RCC_CR_MSIPLLEN (1U << 2)
#define RCC_CR_MSIRGSEL (1U << 3)  // 1: the range is in CR, else in CSR
#define RCC_CR_MSIRANGE_Pos 4U
#define RCC_CR_MSIRANGE (0xFU << 4)
#define RCC_CR_HSION (1U << 8)
#define RCC_CR_HSIRDY (1U << 10)
#define RCC_CR_PLLON (1U << 24)
#define RCC_CR_PLLRDY (1U << 25)

#define RCC_CFGR_SW 3U  // MSI, HSI16, HSE, PLL
#define RCC_CFGR_SW_PLL 3U
#define RCC_CFGR_SWS_Pos 2U
#define RCC_CFGR_SWS (3U << 2)
#define RCC_CFGR_HPRE_Pos 4U
#define RCC_CFGR_HPRE (0xFU << 4)
#define RCC_CFGR_HPRE_DIV2 (8U << 4)
#define RCC_CFGR_PPRE1_Pos 8U
#define RCC_CFGR_PPRE1 (7U << 8)
#define RCC_CFGR_PPRE2_Pos 11U
#define RCC_CFGR_PPRE2 (7U << 11)

#define RCC_PLLCFGR_PLLSRC 3U  // none, MSI, HSI16, HSE
#define RCC_PLLCFGR_PLLM_Pos 4U
#define RCC_PLLCFGR_PLLM (0xFU << 4)  // less one
#define RCC_PLLCFGR_PLLN_Pos 8U
#define RCC_PLLCFGR_PLLN (0x7FU << 8)
#define RCC_PLLCFGR_PLLQEN (1U << 20)
#define RCC_PLLCFGR_PLLQ_Pos 21U
#define RCC_PLLCFGR_PLLQ (3U << 21)  // 2, 4, 6, 8
#define RCC_PLLCFGR_PLLREN (1U << 24)
#define RCC_PLLCFGR_PLLR_Pos 25U
#define RCC_PLLCFGR_PLLR (3U << 25)  // 2, 4, 6, 8

#define RCC_AHB2ENR_RNGEN (1U << 18)
#define RCC_AHB2ENR_RNGEN_G4 (1U << 26)
#define RCC_APB1ENR1_PWREN (1U << 28)
#define RCC_CCIPR_CLK48SEL (3U << 26)  // HSI48 if present, PLLSAI1Q, PLLQ, MSI
#define RCC_CCIPR_CLK48SEL_PLLQ (2U << 26)
#define RCC_CRRCR_HSI48ON (1U << 0)
#define RCC_CRRCR_HSI48RDY (1U << 1)
#define RCC_BDCR_LSEON (1U << 0)
#define RCC_BDCR_LSERDY (1U << 1)

#define RCC_CSR_MSISRANGE_Pos 8U
#define RCC_CSR_MSISRANGE (0xFU << 8)
#define RCC_CSR_RMVF (1U << 23)
#define RCC_CSR_FWRSTF (1U << 24)   // firewall
#define RCC_CSR_OBLRSTF (1U << 25)  // option bytes loaded
#define RCC_CSR_PINRSTF (1U << 26)
#define RCC_CSR_BORRSTF (1U << 27)  // also power-on
#define RCC_CSR_SFTRSTF (1U << 28)
#define RCC_CSR_IWDGRSTF (1U << 29)
#define RCC_CSR_WWDGRSTF (1U << 30)
#define RCC_CSR_LPWRRSTF (1U << 31)

#define PWR_CR1 0x40007000U  // RM0432 §5.4
#define PWR_CR2 0x40007004U
#define PWR_SR2 0x40007014U
#define PWR_CR5 0x40007080U
#define PWR_CR1_DBP (1U << 8)
#define PWR_CR1_VOS (3U << 9)
#define PWR_CR1_VOS_RANGE1 (1U << 9)
#define PWR_CR2_IOSV (1U << 9)
#define PWR_SR2_VOSF (1U << 10)   // the regulator's output is changing
#define PWR_CR5_R1MODE (1U << 8)  // 0: boost

#define FLASH_ACR 0x40022000U  // RM0432 §3.7.1
#define FLASH_ACR_PRFTEN (1U << 8)
#define FLASH_ACR_ICEN (1U << 9)
#define FLASH_ACR_DCEN (1U << 10)

#define GPIOA_BASE 0x48000000U  // RM0432 §2.2: memory map
#define GPIO_PORT_G 6U
#define IWDG_BASE 0x40003000U
#define RNG_BASE 0x50060800U
#define UID_BASE 0x1FFF7590U  // RM0432, Unique device ID register

#define HSI16_HZ 16000000U
#define LSE_HZ 32768U
#define LSI_MAX_HZ 34000U  // DS12023, LSI oscillator characteristics

#define MSI_RANGE_4MHZ 6U
#define MSI_4MHZ 4000000U
#define MSI_LOCKED(nominal_hz) ((((nominal_hz) + (LSE_HZ / 2U)) / LSE_HZ) * LSE_HZ)

#define CORE_HZ ((uint32_t)(BOARDSMITH_CORE_HZ))

#if STM32_HAS_MSI && !defined(STM32_LSE)
#error "STM32_LSE: not defined: defines of the board file has 1 if the board has a crystal of 32768 Hz, else 0"
#endif

// The main PLL: 4 MHz in, twice the core's clock in the VCO.
#if STM32_HSE_HZ > 0
#define PLL_SOURCE 3U
#define PLL_SOURCE_HZ ((uint32_t)(STM32_HSE_HZ))
#define PLL_M (PLL_SOURCE_HZ / 4000000U)
#elif !STM32_HAS_MSI
#define PLL_SOURCE 2U
#define PLL_SOURCE_HZ HSI16_HZ
#define PLL_M (PLL_SOURCE_HZ / 4000000U)
#elif STM32_LSE
#define PLL_SOURCE 1U
#define PLL_SOURCE_HZ MSI_LOCKED(MSI_4MHZ)
#define PLL_M 1U
#else
#define PLL_SOURCE 1U
#define PLL_SOURCE_HZ MSI_4MHZ
#define PLL_M 1U
#endif
#define PLL_IN_HZ (PLL_SOURCE_HZ / PLL_M)
#define PLL_R 2U
#define PLL_N ((CORE_HZ * PLL_R) / PLL_IN_HZ)
#define PLL_Q 4U

_Static_assert((PLL_IN_HZ * PLL_M) == PLL_SOURCE_HZ, "STM32_HSE_HZ: not a multiple of 4 MHz");
_Static_assert((PLL_IN_HZ * PLL_N) == (CORE_HZ * PLL_R), "core_hz: cannot be made from the source of the PLL");
_Static_assert((PLL_N >= 8U) && (PLL_N <= 127U) && (PLL_M >= 1U) && (PLL_M <= (STM32_PLLM_MAX)),
               "core_hz: PLLN or PLLM is out of its range");
_Static_assert(((CORE_HZ * PLL_R) >= 64000000U) && ((CORE_HZ * PLL_R) <= 344000000U),
               "core_hz: out of the range of the PLL");
_Static_assert(CORE_HZ <= (STM32_CORE_MAX_HZ), "core_hz: more than the maximum of the chip");
_Static_assert((STM32_HAS_HSI48) || (((CORE_HZ * PLL_R) / PLL_Q) <= 48000000U),
               "core_hz: the clock of random numbers is more than 48 MHz");

// In range 1, with and without boost (RM0351 §3.3.3, RM0432 §3.3.3, RM0440 §3.3.3).
#define WAIT_STATES ((CORE_HZ - 1U) / (STM32_WAIT_STATE_HZ))

#define OSCILLATOR_MS 5U  // MSI, HSI16 and HSI48 take microseconds
#define LSE_MS 2000U      // DS12023: 2 s typically
#define PLL_MS 5U
#define SWITCH_MS 5U
#define REGULATOR_MS 5U
#define FLASH_MS 1U

#define LPUART1_IRQ_G4 91U

// Base, interrupt, RCC register and bit of its enable, bus, clock selector. 0 is LPUART1.
// clang-format off
#if !STM32_HAS_MSI
#define USART_0 {0x40008000U, LPUART1_IRQ_G4, RCC_APB1ENR2, 0U, 1U, RCC_CCIPR, 10U}
#else
#define USART_0 {0x40008000U, 70U, RCC_APB1ENR2, 0U, 1U, RCC_CCIPR, 10U}
#endif
#define USART_1 {0x40013800U, 37U, RCC_APB2ENR, 14U, 2U, RCC_CCIPR, 0U}
#define USART_2 {0x40004400U, 38U, RCC_APB1ENR1, 17U, 1U, RCC_CCIPR, 2U}
#define USART_3 {0x40004800U, 39U, RCC_APB1ENR1, 18U, 1U, RCC_CCIPR, 4U}
// clang-format on

#define STM32_UARTS 0xFU
#if (((STM32_UARTS) >> (STM32_UART)) & 1) == 0
#error "STM32_UART: this chip, or its port, has no USART of this number"
#endif
#if STM32_HAS_MSI
#define STM32_OSC_IN STM32_PIN('H', 0)
#else
#define STM32_OSC_IN STM32_PIN('F', 0)  // of the G4
#endif
STM32_CHECK_HSE(4000000, 48000000, 1, 48000000);  // DS10969, DS12023, DS12288: HSE characteristics
STM32_CHECK_PINS;
STM32_CHECK_UART(CORE_HZ);  // no bus is divided

const stm32_uart_t stm32_uart = STM32_OF_UART(USART_);

// ---- Clocks ------------------------------------------------------------------------------------------------------

// The oscillator of a reset, as RCC_CFGR_SW has it. Its start cannot fail on a working chip.
#if STM32_HAS_MSI
#define RESET_SW 0U

static void reset_oscillator_on(void) {
  stm32_modify(RCC_CR, RCC_CR_MSION, RCC_CR_MSION);
  (void)stm32_wait(RCC_CR, RCC_CR_MSIRDY, RCC_CR_MSIRDY, OSCILLATOR_MS);
  stm32_modify(RCC_CR, RCC_CR_MSIRANGE | RCC_CR_MSIRGSEL, (MSI_RANGE_4MHZ << RCC_CR_MSIRANGE_Pos) | RCC_CR_MSIRGSEL);
  (void)stm32_wait(RCC_CR, RCC_CR_MSIRDY, RCC_CR_MSIRDY, OSCILLATOR_MS);
}
#else
#define RESET_SW 1U

static void reset_oscillator_on(void) {
  stm32_modify(RCC_CR, RCC_CR_HSION, RCC_CR_HSION);
  (void)stm32_wait(RCC_CR, RCC_CR_HSIRDY, RCC_CR_HSIRDY, OSCILLATOR_MS);
}
#endif

// Switches to it, at 4 or 16 MHz, with the PLL and HSE off, from any state.
static void to_reset_clock(void) {
  reset_oscillator_on();
  stm32_modify(RCC_CFGR, RCC_CFGR_SW, RESET_SW);
  (void)stm32_wait(RCC_CFGR, RCC_CFGR_SWS, RESET_SW << RCC_CFGR_SWS_Pos, SWITCH_MS);
  stm32_modify(RCC_CFGR, RCC_CFGR_HPRE | RCC_CFGR_PPRE1 | RCC_CFGR_PPRE2, 0U);
  stm32_modify(RCC_CR, RCC_CR_PLLON, 0U);
  (void)stm32_wait(RCC_CR, RCC_CR_PLLRDY, 0U, PLL_MS);
  stm32_modify(RCC_CR, RCC_CR_HSEON, 0U);
  (void)stm32_wait(RCC_CR, RCC_CR_HSERDY, 0U, STM32_HSE_MS);
}

// Starts the PLL's source, unless it is the oscillator of a reset. MSI is locked to its crystal, which keeps running
// over resets; if that does not start, MSI runs unlocked, and chip_core_hz returns its clock.
static int32_t pll_source_on(void) {
#if STM32_HSE_HZ > 0
  return stm32_hse_on();
#else
#if STM32_HAS_MSI && STM32_LSE
  stm32_modify(PWR_CR1, PWR_CR1_DBP, PWR_CR1_DBP);  // RCC_BDCR is write-protected
  stm32_modify(RCC_BDCR, RCC_BDCR_LSEON, RCC_BDCR_LSEON);
  if (stm32_wait(RCC_BDCR, RCC_BDCR_LSERDY, RCC_BDCR_LSERDY, LSE_MS) == 0) {
    stm32_modify(RCC_CR, RCC_CR_MSIPLLEN, RCC_CR_MSIPLLEN);  // only after LSE is ready
  }
#endif
  return 0;
#endif
}

static int32_t pll_on(void) {
  stm32_modify(RCC_PLLCFGR,
               RCC_PLLCFGR_PLLSRC | RCC_PLLCFGR_PLLM | RCC_PLLCFGR_PLLN | RCC_PLLCFGR_PLLQ | RCC_PLLCFGR_PLLR,
               PLL_SOURCE | ((PLL_M - 1U) << RCC_PLLCFGR_PLLM_Pos) | (PLL_N << RCC_PLLCFGR_PLLN_Pos) |
                   (((PLL_Q / 2U) - 1U) << RCC_PLLCFGR_PLLQ_Pos) | (((PLL_R / 2U) - 1U) << RCC_PLLCFGR_PLLR_Pos));
  stm32_modify(RCC_CR, RCC_CR_PLLON, RCC_CR_PLLON);
  if (stm32_wait(RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY, PLL_MS) != 0) {
    return -1;
  }
  stm32_modify(RCC_PLLCFGR, RCC_PLLCFGR_PLLREN, RCC_PLLCFGR_PLLREN);
  return 0;
}

static int32_t set_flash(void) {
  stm32_modify(FLASH_ACR, FLASH_ACR_LATENCY | FLASH_ACR_PRFTEN | FLASH_ACR_ICEN | FLASH_ACR_DCEN,
               WAIT_STATES | FLASH_ACR_PRFTEN | FLASH_ACR_ICEN | FLASH_ACR_DCEN);
  return stm32_has_flash() ? stm32_wait(FLASH_ACR, FLASH_ACR_LATENCY, WAIT_STATES, FLASH_MS) : 0;
}

static int32_t power_on(void) {
  stm32_enable(RCC_APB1ENR1, RCC_APB1ENR1_PWREN);
  stm32_modify(PWR_CR1, PWR_CR1_VOS, PWR_CR1_VOS_RANGE1);
  return stm32_wait(PWR_SR2, PWR_SR2_VOSF, 0U, REGULATOR_MS);
}

// Waits at least a microsecond, at any clock: a hundred reads of a peripheral.
static void pause(void) {
  for (uint32_t i = 0; i < 100U; i++) {
    (void)REG32(RCC_CFGR);
  }
}

// RM0432 §5.1.8: enable boost, make the PLL the system clock with the AHB prescaler at 2, and set it to 1 a microsecond
// later.
static int32_t switch_to_pll(void) {
  stm32_modify(RCC_CFGR, RCC_CFGR_HPRE, RCC_CFGR_HPRE_DIV2);
  if (CORE_HZ > (STM32_BOOST_HZ)) {
    stm32_modify(PWR_CR5, PWR_CR5_R1MODE, 0U);
  }
  if (set_flash() != 0) {
    return -1;
  }
  stm32_modify(RCC_CFGR, RCC_CFGR_SW, RCC_CFGR_SW_PLL);
  if (stm32_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SW_PLL << RCC_CFGR_SWS_Pos, SWITCH_MS) != 0) {
    return -1;
  }
  pause();
  stm32_modify(RCC_CFGR, RCC_CFGR_HPRE, 0U);
  return 0;
}

static int32_t to_pll(void) {
  return ((power_on() != 0) || (pll_source_on() != 0) || (pll_on() != 0) || (switch_to_pll() != 0)) ? -1 : 0;
}

// On an STM32L4, port G's pins from PG2 on have a separate supply, which is isolated after a reset (RM0432 §5.1.2).
static void supply(uint32_t which) {
  if ((STM32_HAS_MSI) && (STM32_PIN_PORT(which) == GPIO_PORT_G)) {
    stm32_modify(PWR_CR2, PWR_CR2_IOSV, PWR_CR2_IOSV);
  }
}

static void pin(uint32_t which, uint32_t function) {
  supply(which);
  stm32_pin(GPIOA_BASE, RCC_AHB2ENR, which, function);
}

static void connect_pins(void) {
  pin(STM32_UART_TX, STM32_UART_TX_AF);
  pin(STM32_UART_RX, STM32_UART_RX_AF);
#ifdef BOARDSMITH_MEASURE_PIN
  STM32_MEASURE_PIN_IS_FREE(STM32_UART_TX, STM32_UART_RX);
  supply(BOARDSMITH_MEASURE_PIN);
  stm32_measure_pin(GPIOA_BASE, RCC_AHB2ENR);
#endif
}

// ---- Clocks from the registers -----------------------------------------------------------------------------------

#if STM32_HAS_MSI
// RM0432 §6.4.1, MSIRANGE; locked to LSE, the frequency is the nearest multiple of LSE.
static uint32_t msi_hz(void) {
  static const uint16_t khz[] = {100, 200, 400, 800, 1000, 2000, 4000, 8000, 16000, 24000, 32000, 48000};
  const uint32_t cr = REG32(RCC_CR);
  const uint32_t range = ((cr & RCC_CR_MSIRGSEL) != 0U)
                             ? ((cr & RCC_CR_MSIRANGE) >> RCC_CR_MSIRANGE_Pos)
                             : ((REG32(RCC_CSR) & RCC_CSR_MSISRANGE) >> RCC_CSR_MSISRANGE_Pos);
  if (range >= (sizeof khz / sizeof khz[0])) {
    return 0;
  }
  const uint32_t hz = khz[range] * 1000U;
  const bool locked = ((cr & RCC_CR_MSIPLLEN) != 0U) && ((REG32(RCC_BDCR) & RCC_BDCR_LSERDY) != 0U);
  return locked ? MSI_LOCKED(hz) : hz;
}
#else
static uint32_t msi_hz(void) { return 0; }
#endif

static uint32_t pll_hz(void) {
  const uint32_t cfg = REG32(RCC_PLLCFGR);
  const uint32_t m = ((cfg & RCC_PLLCFGR_PLLM) >> RCC_PLLCFGR_PLLM_Pos) + 1U;
  const uint32_t n = (cfg & RCC_PLLCFGR_PLLN) >> RCC_PLLCFGR_PLLN_Pos;
  const uint32_t r = 2U * (((cfg & RCC_PLLCFGR_PLLR) >> RCC_PLLCFGR_PLLR_Pos) + 1U);
  switch (cfg & RCC_PLLCFGR_PLLSRC) {
    case 1:
      return stm32_scale(msi_hz(), n, m * r);
    case 2:
      return stm32_scale(HSI16_HZ, n, m * r);
    case 3:
      return stm32_scale((uint32_t)(STM32_HSE_HZ), n, m * r);
    default:
      return 0;
  }
}

static uint32_t sysclk_hz(void) {
  switch ((REG32(RCC_CFGR) & RCC_CFGR_SWS) >> RCC_CFGR_SWS_Pos) {
    case 0:
      return msi_hz();
    case 1:
      return HSI16_HZ;
    case 2:
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

// ---- The chip ----------------------------------------------------------------------------------------------------

static const stm32_resets_t resets = {
    .address = RCC_CSR,
    .clear = RCC_CSR_RMVF,
    .power = RCC_CSR_BORRSTF,
    .pin = RCC_CSR_PINRSTF,
    .software = RCC_CSR_SFTRSTF,
    .watchdog = RCC_CSR_IWDGRSTF | RCC_CSR_WWDGRSTF,
    .other = RCC_CSR_LPWRRSTF | RCC_CSR_OBLRSTF | RCC_CSR_FWRSTF,
};

const stm32_chip_t stm32_chip = {
    .rcc_cr = RCC_CR,
    .flash_acr = FLASH_ACR,
    .uid = UID_BASE,
    .iwdg = IWDG_BASE,
    .rng = RNG_BASE,
    .flash_prefetch = FLASH_ACR_PRFTEN,
    .flash_icache = FLASH_ACR_ICEN,
    .flash_dcache = FLASH_ACR_DCEN,
    .uart_select = 3U,
    .lsi_max_hz = LSI_MAX_HZ,
    .resets = &resets,
    .to_reset_clock = to_reset_clock,
    .to_pll = to_pll,
    .set_flash = set_flash,
    .connect_pins = connect_pins,
};

void chip_early(void) {}

// Starts the clock of at most 48 MHz: HSI48, or PLLQ, which does not run if the PLL did not start.
static int32_t clk48_on(void) {
#if STM32_HAS_HSI48
  stm32_modify(RCC_CCIPR, RCC_CCIPR_CLK48SEL, 0U);
  stm32_modify(RCC_CRRCR, RCC_CRRCR_HSI48ON, RCC_CRRCR_HSI48ON);
  return stm32_wait(RCC_CRRCR, RCC_CRRCR_HSI48RDY, RCC_CRRCR_HSI48RDY, OSCILLATOR_MS);
#else
  stm32_modify(RCC_PLLCFGR, RCC_PLLCFGR_PLLQEN, RCC_PLLCFGR_PLLQEN);
  stm32_modify(RCC_CCIPR, RCC_CCIPR_CLK48SEL, RCC_CCIPR_CLK48SEL_PLLQ);
  return ((REG32(RCC_CR) & RCC_CR_PLLRDY) != 0U) ? 0 : -1;
#endif
}

int32_t stm32_rng_on(void) {
  if (clk48_on() != 0) {
    return -1;
  }
#if STM32_HAS_MSI
  stm32_enable(RCC_AHB2ENR, RCC_AHB2ENR_RNGEN);
#else
  stm32_enable(RCC_AHB2ENR, RCC_AHB2ENR_RNGEN_G4);
#endif
  return 0;
}
