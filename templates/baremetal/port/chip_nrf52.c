// SPDX-License-Identifier: Apache-2.0
//
// Nordic's nRF52840: crystal oscillator, instruction cache, pins of the UARTE, watchdog, random numbers. The core
// always runs at 64 MHz; what can be chosen is the oscillator behind it.
//
// Sources: nRF52840 Product Specification v1.8 (PS), nRF52840 Revision 3 Errata. Of the errata those are applied that
// touch what is used here; 66 (TEMP) is for whoever measures temperature, and 98, 103, 115 and 120 were mended after
// Engineering A. Defines: NRF_UART_TX_PIN, NRF_UART_RX_PIN (port * 32 + pin), UARTE_IRQ.
#include <stddef.h>
#include <stdint.h>

#include "await.h"
#include "bare.h"

#define CORE_HZ 64000000U   // PS "CPU": one frequency
#define UARTE_HZ 16000000U  // PS "CLOCK", HFCLK controller: PCLK16M
#define LFCLK_HZ 32768U

#define TASKS_HFCLKSTART REG32(0x40000000U)  // PS "CLOCK", Registers
#define EVENTS_HFCLKSTARTED REG32(0x40000100U)
#define EVENTS_DONE REG32(0x4000010CU)
#define EVENTS_CTTO REG32(0x40000110U)
#define HFCLKSTAT 0x4000040CU
#define CTIV REG32(0x40000538U)
#define RESETREAS REG32(0x40000400U)          // PS "POWER", Registers
#define APPROTECT_DISABLE REG32(0x40000558U)  // PS "Debug and trace", Registers (APPROTECT)
#define UICR_APPROTECT REG32(0x10001208U)     // PS "UICR", Registers
#define ICACHECNF REG32(0x4001E540U)          // PS "NVMC", Registers
#define FICR_PART_CODE REG32(0x10000130U)     // what the errata's checks read: 8 is nRF52840,
#define FICR_REVISION REG32(0x10000134U)      // 5 is Revision 3
#define FICR_DEVICEID 0x10000060U             // PS "FICR", Registers: two words
#define GPIO_BASE 0x50000000U                 // PS "GPIO", Registers; port 1 is at + 0x300
#define RNG_TASKS_START REG32(0x4000D000U)    // PS "RNG", Registers
#define RNG_TASKS_STOP REG32(0x4000D004U)
#define RNG_EVENTS_VALRDY 0x4000D100U
#define RNG_CONFIG REG32(0x4000D504U)
#define RNG_VALUE REG32(0x4000D508U)
#define WDT_TASKS_START REG32(0x40010000U)  // PS "WDT", Registers
#define WDT_RUNSTATUS REG32(0x40010400U)
#define WDT_CRV REG32(0x40010504U)
#define WDT_RREN REG32(0x40010508U)
#define WDT_CONFIG REG32(0x4001050CU)
#define WDT_RR0 REG32(0x40010600U)

#define HFCLKSTAT_XTAL_RUNNING 0x00010001U
#define HFCLK_READS 200000U  // at least 12 ms; the crystal needs 0.4 ms, and 1 ms more with the longest debounce
#define RNG_READS 200000U    // at least 12 ms; a byte needs 0.12 ms with bias correction
#define PIN_OUTPUT 0x3U      // DIR, input buffer off
#define PIN_INPUT_UP 0xCU    // input buffer on, pulled up: no breaks while nobody drives it
#define WDT_RELOAD 0x6E524635U

#define RESET_PIN (1U << 0)
#define RESET_DOG (1U << 1)
#define RESET_SREQ (1U << 2)
#define RESET_LOCKUP (1U << 3)
#define RESET_OTHERS (0x1FU << 16)  // wake-up from off, by debugger, NFC or VBUS

static uint32_t reset_cause;

static uint32_t port_of(uint32_t pin) { return GPIO_BASE + ((pin / 32U) * 0x300U); }

static void pins_on(void) {
  REG32(port_of(NRF_UART_TX_PIN) + 0x508U) = 1U << ((NRF_UART_TX_PIN) % 32U);  // OUTSET: idle while the UARTE is off
  REG32(port_of(NRF_UART_TX_PIN) + 0x700U + (4U * ((NRF_UART_TX_PIN) % 32U))) = PIN_OUTPUT;  // PIN_CNF
  REG32(port_of(NRF_UART_RX_PIN) + 0x700U + (4U * ((NRF_UART_RX_PIN) % 32U))) = PIN_INPUT_UP;
}

// From Revision 3 on a debugger gets in only if both UICR and this register say so (PS "Debug and trace", Access port
// protection): without it a board could be programmed once.
static void debug_as_in_uicr(void) {
  if ((FICR_PART_CODE == 8U) && (FICR_REVISION >= 5U)) {
    APPROTECT_DISABLE = UICR_APPROTECT;
  }
}

static void read_reset_cause(void) {
  const uint32_t why = RESETREAS;
  RESETREAS = why;  // writing 1 clears
  if ((why & RESET_PIN) != 0U) {
    reset_cause = BARE_RESET_PIN;  // erratum 136: then other bits mean nothing
    return;
  }
  reset_cause = (why == 0U) ? (uint32_t)BARE_RESET_POWER : 0U;  // PS "POWER", Reset: power-on and brown-out set no bit
  reset_cause |= ((why & RESET_DOG) != 0U) ? (uint32_t)BARE_RESET_WATCHDOG : 0U;
  reset_cause |= ((why & RESET_SREQ) != 0U) ? (uint32_t)BARE_RESET_SOFTWARE : 0U;
  reset_cause |= ((why & RESET_LOCKUP) != 0U) ? (uint32_t)BARE_RESET_FAULT : 0U;
  reset_cause |= ((why & RESET_OTHERS) != 0U) ? (uint32_t)BARE_RESET_OTHER : 0U;
}

void chip_early(void) {}

void chip_init(void) {
  read_reset_cause();
  debug_as_in_uicr();
  EVENTS_DONE = 0;  // erratum 36: these are not reset
  EVENTS_CTTO = 0;
  CTIV = 0;
  ICACHECNF = 1;
  EVENTS_HFCLKSTARTED = 0;
  TASKS_HFCLKSTART = 1;
  // If it never comes the RC oscillator goes on.
  (void)await_bits(HFCLKSTAT, HFCLKSTAT_XTAL_RUNNING, HFCLKSTAT_XTAL_RUNNING, HFCLK_READS);
  pins_on();
}

uint32_t chip_core_hz(void) { return CORE_HZ; }

uint32_t chip_uart_hz(void) { return UARTE_HZ; }

int32_t chip_irq(uint32_t number) {
  if (number != (uint32_t)(UARTE_IRQ)) {
    return -1;
  }
  uart_irq();
  return 0;
}

void chip_platform(struct bare_platform* p) {
  p->flags |= ((ICACHECNF & 1U) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;
  p->reset_cause = (int32_t)reset_cause;
}

uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  uint32_t n = 0;
  for (; (n < 8U) && (n < max_bytes); n++) {
    id[n] = (uint8_t)(REG32(FICR_DEVICEID + (n & 4U)) >> (8U * (n & 3U)));
  }
  return n;
}

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  int32_t error = 0;
  RNG_CONFIG = 1;  // bias correction
  RNG_TASKS_START = 1;
  for (uint32_t i = 0; (i < size_bytes) && (error == 0); i++) {
    REG32(RNG_EVENTS_VALRDY) = 0;
    error = await_bits(RNG_EVENTS_VALRDY, 1U, 1U, RNG_READS);
    data[i] = (uint8_t)RNG_VALUE;
  }
  RNG_TASKS_STOP = 1;
  return error;
}

// It runs on over a software reset and keeps its settings (PS "POWER", Reset behavior): then only feeding is left.
void chip_watchdog_start(uint32_t ms) {
  if ((WDT_RUNSTATUS & 1U) == 0U) {
    WDT_CONFIG = 1;  // runs while the core sleeps, stops while a debugger has halted it
    WDT_CRV = (uint32_t)((((uint64_t)ms * LFCLK_HZ) / 1000U) - 1U);
    WDT_RREN = 1;
    WDT_TASKS_START = 1;
  }
  chip_watchdog_feed();
}

void chip_watchdog_feed(void) { WDT_RR0 = WDT_RELOAD; }
