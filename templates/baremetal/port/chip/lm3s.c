// SPDX-License-Identifier: Apache-2.0
//
// TI's (Luminary's) LM3S6965 and similar chips with a crystal of 8 MHz: Stellaris LM3S6965 Microcontroller Data Sheet
// (DS-LM3S6965-12746). Defines: UART_IRQ.
#include "bare.h"

#define SYSCTL 0x400FE000U  // §5.4
#define RIS REG32(SYSCTL + 0x050U)
#define RESC REG32(SYSCTL + 0x05CU)
#define RCC REG32(SYSCTL + 0x060U)
#define RCGC0 REG32(SYSCTL + 0x100U)
#define RCGC1 REG32(SYSCTL + 0x104U)
#define RCGC2 REG32(SYSCTL + 0x108U)
#define GPIOA_AFSEL REG32(0x40004420U)  // §8.4
#define GPIOA_DEN REG32(0x4000451CU)
#ifdef BOARDSMITH_MEASURE_PIN
#define MEASURE_PORT ((BOARDSMITH_MEASURE_PIN) / 8U)  // ports A to D and E to G have their registers together
#define MEASURE_BIT (1U << ((BOARDSMITH_MEASURE_PIN) % 8U))
#define MEASURE_BASE ((MEASURE_PORT < 4U) ? (0x40004000U + (MEASURE_PORT << 12)) : (0x40020000U + (MEASURE_PORT << 12)))
#define GPIODATA REG32(MEASURE_BASE + (MEASURE_BIT << 2))  // only this pin's bit
#define GPIODIR REG32(MEASURE_BASE + 0x400U)
#define GPIOAFSEL REG32(MEASURE_BASE + 0x420U)
#define GPIODEN REG32(MEASURE_BASE + 0x51CU)
#endif
#define WDTLOAD REG32(0x40000000U)  // §10.4
#define WDTCTL REG32(0x40000008U)
#define WDTICR REG32(0x4000000CU)

#define RCC_SYSDIV_POS 23U
#define RCC_SYSDIV (0xFU << RCC_SYSDIV_POS)
#define RCC_USESYSDIV (1U << 22)
#define RCC_PWRDN (1U << 13)
#define RCC_BYPASS (1U << 11)
#define RCC_XTAL (0xFU << 6)
#define RCC_XTAL_8_MHZ (0xEU << 6)
#define RCC_OSCSRC (3U << 4)  // 0: the main oscillator
#define RCC_MOSCDIS 1U
#define RIS_PLL_LOCKED (1U << 6)
#define RESC_EXT (1U << 0)
#define RESC_POR (1U << 1)
#define RESC_BOR (1U << 2)
#define RESC_WDT (1U << 3)
#define RESC_SW (1U << 4)
#define RCGC0_WDT (1U << 3)
#define RCGC1_UART0 1U
#define RCGC2_GPIOA 1U
#define UART0_PINS 3U
#define WDTCTL_ON 3U       // INTEN, RESEN
#define PLL_HZ 200000000U  // after the fixed division by two (§5.2.4.2)
#define CRYSTAL_HZ 8000000U
#define LOCK_LOOPS 100000U

_Static_assert((((PLL_HZ / (BOARDSMITH_CORE_HZ)) * (BOARDSMITH_CORE_HZ)) == PLL_HZ) &&
                   ((PLL_HZ / (BOARDSMITH_CORE_HZ)) >= 4U) && ((PLL_HZ / (BOARDSMITH_CORE_HZ)) <= 16U),
               "core_hz: not 200 MHz divided by 4 to 16");

static uint32_t reset_cause;
static uint32_t watchdog_load;

void chip_early(void) {}

// §5.3: bypass the PLL, select the crystal, start the PLL, wait for it, switch to it. Without a lock the core stays on
// the undivided crystal.
static void clock_init(void) {
  uint32_t rcc = (RCC | RCC_BYPASS) & ~(RCC_USESYSDIV | RCC_MOSCDIS);
  RCC = rcc;
  rcc = (rcc & ~(RCC_XTAL | RCC_OSCSRC | RCC_PWRDN | RCC_SYSDIV)) | RCC_XTAL_8_MHZ;
  rcc |= ((PLL_HZ / (BOARDSMITH_CORE_HZ)) - 1U) << RCC_SYSDIV_POS;
  RCC = rcc;
  for (uint32_t i = 0; (i < LOCK_LOOPS) && ((RIS & RIS_PLL_LOCKED) == 0U); i++) {
  }
  if ((RIS & RIS_PLL_LOCKED) != 0U) {
    RCC = (rcc | RCC_USESYSDIV) & ~RCC_BYPASS;
  }
}

#ifdef BOARDSMITH_MEASURE_PIN
_Static_assert((BOARDSMITH_MEASURE_PIN) > 1U, "measure_pin: a pin of the UART");

void chip_measure(int32_t level) { GPIODATA = (level != 0) ? MEASURE_BIT : 0U; }

static void measure_init(void) {
  RCGC2 |= RCGC2_GPIOA << MEASURE_PORT;
  (void)RCGC2;
  chip_measure(0);
  GPIOAFSEL &= ~MEASURE_BIT;
  GPIODIR |= MEASURE_BIT;
  GPIODEN |= MEASURE_BIT;
}
#else
static void measure_init(void) {}
#endif

void chip_init(void) {
  reset_cause = RESC;
  RESC = 0;
  clock_init();
  RCGC0 |= RCGC0_WDT;
  RCGC1 |= RCGC1_UART0;
  RCGC2 |= RCGC2_GPIOA;
  (void)RCGC2;  // three cycles until the port is accessible
  GPIOA_AFSEL |= UART0_PINS;
  GPIOA_DEN |= UART0_PINS;
  measure_init();
}

uint32_t chip_core_hz(void) {
  const uint32_t rcc = RCC;
  const uint32_t source = ((rcc & RCC_BYPASS) != 0U) ? CRYSTAL_HZ : PLL_HZ;
  return ((rcc & RCC_USESYSDIV) != 0U) ? (source / (((rcc & RCC_SYSDIV) >> RCC_SYSDIV_POS) + 1U)) : source;
}

uint32_t chip_uart_hz(void) { return chip_core_hz(); }

void chip_platform(struct bare_platform* p) {
  p->wait_states = 0;  // up to 50 MHz (§7.2.2.1)
  p->reset_cause = 0;
  p->reset_cause |= ((reset_cause & RESC_POR) != 0U) ? BARE_RESET_POWER : 0;
  p->reset_cause |= ((reset_cause & RESC_EXT) != 0U) ? BARE_RESET_PIN : 0;
  p->reset_cause |= ((reset_cause & RESC_SW) != 0U) ? BARE_RESET_SOFTWARE : 0;
  p->reset_cause |= ((reset_cause & RESC_WDT) != 0U) ? BARE_RESET_WATCHDOG : 0;
  p->reset_cause |= ((reset_cause & RESC_BOR) != 0U) ? BARE_RESET_OTHER : 0;
  if (p->reset_cause == 0) {
    p->reset_cause = -1;  // the emulator never sets this register
  }
}

// §10.3: an interrupt at the first time-out, which is not enabled here; a reset at the second.
bare_watchdog_t chip_watchdog(void) { return (bare_watchdog_t){.hz = chip_core_hz() / 2U, .most = UINT32_MAX}; }

void chip_watchdog_start(uint32_t counts) {
  watchdog_load = counts;
  WDTLOAD = watchdog_load;
  WDTCTL = WDTCTL_ON;
}

void chip_watchdog_feed(void) {
  WDTICR = 1;
  WDTLOAD = watchdog_load;
}
