// SPDX-License-Identifier: Apache-2.0
//
// The common blocks of nRF51, nRF52 and nRF53 (nrf.h, with the sources).
#include "chip/nrf/nrf.h"

#include <stdint.h>

#include "chip/await.h"

#define TASKS_HFCLKSTART REG32((NRF_CLOCK_BASE) + 0x000U)  // "CLOCK"
#define EVENTS_HFCLKSTARTED REG32((NRF_CLOCK_BASE) + 0x100U)
#define HFCLKSTAT ((NRF_CLOCK_BASE) + 0x40CU)
#define RESETREAS REG32((NRF_CLOCK_BASE) + 0x400U)      // "POWER"; the nRF5340's "RESET"
#define WDT_TASKS_START REG32((NRF_WDT_BASE) + 0x000U)  // "WDT"
#define WDT_RUNSTATUS REG32((NRF_WDT_BASE) + 0x400U)
#define WDT_CRV REG32((NRF_WDT_BASE) + 0x504U)
#define WDT_RREN REG32((NRF_WDT_BASE) + 0x508U)
#define WDT_CONFIG REG32((NRF_WDT_BASE) + 0x50CU)
#define WDT_RR0 REG32((NRF_WDT_BASE) + 0x600U)
#define GPIO_OUTSET 0x008U  // "GPIO"
#define GPIO_OUTCLR 0x00CU
#define GPIO_PIN_CNF 0x200U
#define GPIO_PORT_BYTES 0x300U

#define PCLK16M_HZ 16000000U  // the nRF51's only clock
#define LFCLK_HZ 32768U
#define ID_BYTES 8U
#define HFCLKSTAT_XTAL_RUNNING 0x00010001U
#define CRYSTAL_READS ((BOARDSMITH_CORE_HZ) / 320U)  // at least 12 ms; it needs 0.4 to 1.5 ms
#define RESET_PIN (1U << 0)
#define PIN_OUTPUT 0x3U    // DIR, input buffer off
#define PIN_INPUT_UP 0xCU  // input buffer on, pulled up: no breaks while it is not driven
#define WDT_RELOAD 0x6E524635U

void nrf_crystal_on(void) {
  EVENTS_HFCLKSTARTED = 0;
  TASKS_HFCLKSTART = 1;
  (void)await_bits(HFCLKSTAT, HFCLKSTAT_XTAL_RUNNING, HFCLKSTAT_XTAL_RUNNING, CRYSTAL_READS);
}

BARE_CHECK_UART_PINS(NRF_UART_TX_PIN, NRF_UART_RX_PIN);

static uint32_t port_of(uint32_t pin) { return (NRF_GPIO_BASE) + ((pin / 32U) * GPIO_PORT_BYTES); }

static void configure(uint32_t pin, uint32_t value) { REG32(port_of(pin) + GPIO_PIN_CNF + (4U * (pin % 32U))) = value; }

#ifdef BOARDSMITH_MEASURE_PIN
_Static_assert(((BOARDSMITH_MEASURE_PIN) != (NRF_UART_TX_PIN)) && ((BOARDSMITH_MEASURE_PIN) != (NRF_UART_RX_PIN)),
               "measure_pin: a pin of the UART");

void chip_measure(int32_t level) {
  const uint32_t set_or_clear = port_of(BOARDSMITH_MEASURE_PIN) + ((level != 0) ? GPIO_OUTSET : GPIO_OUTCLR);
  REG32(set_or_clear) = 1U << ((BOARDSMITH_MEASURE_PIN) % 32U);
}

static void measure_init(void) {
  chip_measure(0);
  configure(BOARDSMITH_MEASURE_PIN, PIN_OUTPUT);
}
#else
static void measure_init(void) {}
#endif

void nrf_pins_on(void) {
  REG32(port_of(NRF_UART_TX_PIN) + GPIO_OUTSET) = 1U << ((NRF_UART_TX_PIN) % 32U);  // idle while the UART is off
  configure(NRF_UART_TX_PIN, PIN_OUTPUT);
  configure(NRF_UART_RX_PIN, PIN_INPUT_UP);
  measure_init();
}

int32_t nrf_reset_cause(const nrf_resets_t* bits) {
  const uint32_t flags = RESETREAS;
  RESETREAS = flags;  // writing 1 clears
  if (flags == 0U) {
    // Power-on and brown-out set no bit; an emulator has no such register.
    return ((BOARDSMITH_EMULATED) != 0) ? -1 : BARE_RESET_POWER;
  }
  if ((flags & RESET_PIN) != 0U) {
    return BARE_RESET_PIN;  // errata 136 (nRF52840), 55 (nRF5340): other bits are invalid then
  }
  int32_t cause = 0;
  cause |= ((flags & bits->watchdog) != 0U) ? BARE_RESET_WATCHDOG : 0;
  cause |= ((flags & bits->software) != 0U) ? BARE_RESET_SOFTWARE : 0;
  cause |= ((flags & bits->lockup) != 0U) ? BARE_RESET_FAULT : 0;
  cause |= ((flags & bits->others) != 0U) ? BARE_RESET_OTHER : 0;
  return cause;
}

uint32_t chip_uart_hz(void) { return PCLK16M_HZ; }

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  const uint32_t bytes = (max_bytes < ID_BYTES) ? max_bytes : ID_BYTES;
  for (uint32_t i = 0; i < bytes; i++) {
    id[i] = (uint8_t)(REG32((NRF_DEVICE_ID) + (i & ~3U)) >> (8U * (i & 3U)));
  }
  return bytes;
}

bare_watchdog_t chip_watchdog(void) { return (bare_watchdog_t){.hz = LFCLK_HZ, .most = UINT32_MAX}; }

// It continues over a software reset with its settings: only feed it then.
void chip_watchdog_start(uint32_t counts) {
  if ((WDT_RUNSTATUS & 1U) == 0U) {
    WDT_CONFIG = 1;  // runs while the core sleeps, stops while a debugger halts it
    WDT_CRV = counts - 1U;
    WDT_RREN = 1;
    WDT_TASKS_START = 1;
  }
  chip_watchdog_feed();
}

void chip_watchdog_feed(void) { WDT_RR0 = WDT_RELOAD; }
