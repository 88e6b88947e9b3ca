// SPDX-License-Identifier: Apache-2.0
//
// nRF52840, nRF52833 and nRF5340 (application core, secure) in software, as far as the port touches them: nRF52840
// Product Specification v1.8, nRF52833 Product Specification v1.6, nRF5340 Product Specification v1.3. NRF53 and
// NRF52833 choose.
#include "fake.h"

#include <string.h>

#ifdef NRF53
#define CLOCK 0x50005000U
#define HFCLKSRC (CLOCK + 0x514U)
#define HFCLKCTRL (CLOCK + 0x558U)
#define RESETREAS 0x50005400U
#define WDT 0x50018000U
#define UARTE 0x50008000U
#define P0 0x50842500U
#define PIN_CNF(n) (P0 + 0x200U + (0x300U * ((n) / 32U)) + (4U * ((n) % 32U)))
#define CACHE 0x50001500U
#define FICR 0x00FF0000U
#define DEVICEID (FICR + 0x204U)
#define UICR_APPROTECT 0x00FF8000U
#define APPROTECT 0x50006544U
#else
#define CLOCK 0x40000000U
#define RESETREAS 0x40000400U
#define WDT 0x40010000U
#define UARTE 0x40002000U
#define P0 0x50000000U
#define PIN_CNF(n) (P0 + 0x700U + (0x300U * ((n) / 32U)) + (4U * ((n) % 32U)))
#define CACHE 0x4001E540U
#define FICR 0x10000000U
#define DEVICEID (FICR + 0x60U)
#define UICR_APPROTECT 0x10001208U
#define APPROTECT 0x40000558U
#endif
// FICR's part code and the first revision with two locks of the debug port
#ifdef NRF52833
#define PART 13U
#define GUARDED 2U
#define PINS 42U
#else
#define PART 8U
#define GUARDED 5U
#define PINS 48U
#endif
#define HFCLKSTAT (CLOCK + 0x40CU)

enum { FIFO_BYTES = 5, BYTE_TIME = 40, SENT_MAX = 4096 };

static int reset_written;
static int hfclk_asked;
static int rng_runs;
static uint32_t rng_since;
static uint32_t noise = 0x12345678U;
static uint32_t wdt_feeds;
static uint32_t stop_since;

static struct {
  uint8_t fifo[FIFO_BYTES];
  uint32_t fifo_count;
  int receiving;
  uint32_t tx_until;  // 0: nothing goes out
  const uint8_t* tx;
  uint8_t tx_copy[256];
  uint32_t tx_count;
  uint8_t sent[SENT_MAX];
  uint32_t sent_count;
} uarte;

static uint32_t next_noise(void) {
  noise = (noise * 1664525U) + 1013904223U;
  return noise >> 16;
}

void model_reset(void) {
  fake_set(RESETREAS, fake_number("reset", 0));
  fake_set(DEVICEID, 0x03020100U);
  fake_set(DEVICEID + 4U, 0x07060504U);
  fake_set(FICR + 0x130U, PART);
  fake_set(FICR + 0x134U, fake_number("revision", GUARDED));
  fake_set(UICR_APPROTECT, 0x5AU);
#ifdef NRF53
  fake_set(FICR + 0x130U, 7);
  fake_set(HFCLKCTRL, 1);
  fake_set(HFCLKSRC, 1);
  fake_set(FICR + 0x300U, 0x50004800U);  // two trims, then none
  fake_set(FICR + 0x304U, 0x11U);
  fake_set(FICR + 0x308U, 0x50004804U);
  fake_set(FICR + 0x30CU, 0x22U);
  fake_set(FICR + 0x310U, UINT32_MAX);
  if (fake_is("receiver-left-on")) {  // erratum 44
    fake_set(UARTE + 0x564U, 1);
  }
#endif
}

// ---- UARTE ---------------------------------------------------------------------------------------------------------

static void dma_byte(uint8_t byte) {
  *(volatile uint8_t*)(uintptr_t)fake_get(UARTE + 0x534U) = byte;  // RXD.PTR: low enough in this program
  fake_set(UARTE + 0x53CU, 1);                                     // AMOUNT
  fake_set(UARTE + 0x110U, 1);                                     // ENDRX
  uarte.receiving = 0;
}

int model_uart_arrives(uint8_t byte) {
  fake_set(UARTE + 0x108U, 1);  // RXDRDY
  if (uarte.receiving) {
    dma_byte(byte);
  } else if (uarte.fifo_count < (uint32_t)FIFO_BYTES) {
    uarte.fifo[uarte.fifo_count++] = byte;
  } else {
    if ((fake_get(UARTE + 0x124U) == 0U) && (fake_get(UARTE + 0x480U) != 0U)) {
      fake_breach("ERRORSRC was not cleared");
    }
    fake_set(UARTE + 0x480U, fake_get(UARTE + 0x480U) | 1U);  // ERRORSRC: overrun
    fake_set(UARTE + 0x124U, 1);                              // ERROR
  }
  return 1;
}

static void startrx(void) {
  if (fake_get(UARTE + 0x500U) != 8U) {
    fake_breach("STARTRX while the UARTE is off");
  }
  if (fake_get(UARTE + 0x538U) != 1U) {
    fake_breach("this model knows a RXD.MAXCNT of 1 only");
  }
  uarte.receiving = 1;
  if (uarte.fifo_count > 0U) {
    const uint8_t byte = uarte.fifo[0];
    uarte.fifo_count--;
    memmove(uarte.fifo, &uarte.fifo[1], uarte.fifo_count);
    dma_byte(byte);
  }
}

static void starttx(void) {
  if (uarte.tx_until != 0U) {
    fake_breach("STARTTX before ENDTX");
  }
  uarte.tx = (const uint8_t*)(uintptr_t)fake_get(UARTE + 0x544U);
  uarte.tx_count = fake_get(UARTE + 0x548U);
  if ((uarte.tx_count == 0U) || (uarte.tx_count > sizeof uarte.tx_copy)) {
    fake_breach("TXD.MAXCNT");
    uarte.tx_count = 0;
  }
  memcpy(uarte.tx_copy, uarte.tx, uarte.tx_count);
  uarte.tx_until = fake_now() + ((uint32_t)BYTE_TIME * uarte.tx_count);
}

static void tx_step(void) {
  if ((uarte.tx_until == 0U) || (fake_now() < uarte.tx_until)) {
    return;
  }
  if (memcmp(uarte.tx_copy, uarte.tx, uarte.tx_count) != 0) {
    fake_breach("a buffer changed while it was sent");
  }
  for (uint32_t i = 0; i < uarte.tx_count; i++) {
    uarte.sent[uarte.sent_count++ % (uint32_t)SENT_MAX] = uarte.tx_copy[i];
  }
  uarte.tx_until = 0;
  fake_set(UARTE + 0x120U, 1);  // ENDTX
}

int model_uart_pending(void) {
  const uint32_t enabled = fake_get(UARTE + 0x300U);
  const uint32_t events = ((fake_get(UARTE + 0x110U) != 0U) ? (1U << 4) : 0U) |
                          ((fake_get(UARTE + 0x120U) != 0U) ? (1U << 8) : 0U) |
                          ((fake_get(UARTE + 0x124U) != 0U) ? (1U << 9) : 0U);
  return (enabled & events) != 0U;
}

uint32_t model_uart_sent(uint8_t* bytes, uint32_t max) {
  const uint32_t n = (uarte.sent_count < max) ? uarte.sent_count : max;
  memcpy(bytes, uarte.sent, n);
  return n;
}

// BAUDRATE register: each value and the rate it stands for.
uint32_t model_baud(void) {
  static const uint32_t table[][2] = {{0x00275000U, 9600},   {0x004EA000U, 19200},  {0x009D0000U, 38400},
                                      {0x00EB0000U, 57600},  {0x01D60000U, 115200}, {0x03B00000U, 230400},
                                      {0x04000000U, 250000}, {0x07400000U, 460800}, {0x0F000000U, 921600},
                                      {0x10000000U, 1000000}};
  const uint32_t tx = fake_get(UARTE + 0x50CU);
  const uint32_t rx = fake_get(UARTE + 0x514U);
  if ((tx >= PINS) || (rx >= PINS) || ((fake_get(PIN_CNF(tx)) & 1U) == 0U) || ((fake_get(PIN_CNF(rx)) & 3U) != 0U)) {
    fake_breach("pins: TXD is no output, or RXD no input");
    return 0;
  }
  if ((fake_get(UARTE + 0x508U) >> 31 == 0U) || (fake_get(UARTE + 0x510U) >> 31 == 0U)) {
    fake_breach("RTS or CTS has a pin");
  }
  for (uint32_t i = 0; i < (sizeof table / sizeof table[0]); i++) {
    if (fake_get(UARTE + 0x524U) == table[i][0]) {
      return table[i][1];
    }
  }
  return 0;
}

// ---- The rest ------------------------------------------------------------------------------------------------------

// A task's register is written with 1 and reads 0.
static int task(uint32_t at, uint32_t address, uint32_t value) {
  if ((address != at) || (value != 1U)) {
    return 0;
  }
  fake_set(address, 0);
  return 1;
}

static void touched_wdt(uint32_t address, uint32_t before, uint32_t after) {
  const int runs = (fake_get(WDT + 0x400U) & 1U) != 0U;
  if (task(WDT, address, after)) {
    fake_set(WDT + 0x400U, 1);
  } else if ((address == (WDT + 0x600U)) && (after == 0x6E524635U)) {
    wdt_feeds++;
    fake_set(address, 0);
  } else if (runs && (before != after) && (address >= (WDT + 0x504U)) && (address <= (WDT + 0x50CU))) {
    fake_breach("the watchdog's settings change while it runs");
  }
}

void model_touched(uint32_t address, uint32_t before, uint32_t after) {
  if ((address == RESETREAS) && ((before != after) || fake_twice(address))) {
    reset_written = 1;
    fake_set(RESETREAS, before & ~after);  // writing 1 clears
  }
  hfclk_asked |= task(CLOCK, address, after);
  if (task(UARTE, address, after)) {
    startrx();
  }
  if (task(UARTE + 8U, address, after)) {
    starttx();
  }
  if (task(UARTE + 4U, address, after)) {
    if (fake_get(UARTE + 0x500U) != 8U) {
      fake_breach("STOPRX while the UARTE is off");
    }
    stop_since = fake_now();
  }
  if ((address == (UARTE + 0x500U)) && (before != after) && (after == 0U) && (fake_get(UARTE + 0x564U) != 0U)) {
    fake_breach("erratum 44: the UARTE is disabled while its receiver runs");
  }
  if ((address == (UARTE + 0x480U)) && (after != 0U)) {
    if (fake_twice(address)) {
      fake_set(address, 0);
    }
  }
  touched_wdt(address, before, after);
#ifndef NRF53
  if (task(0x4000D000U, address, after)) {
    rng_runs = !fake_is("no-rng");
    rng_since = fake_now();
  }
  if (task(0x4000D004U, address, after)) {
    rng_runs = 0;
  }
  if ((address == 0x4000D100U) && (before == 1U) && (after == 0U)) {
    rng_since = fake_now();
  }
#else
  if ((address == 0x5084512CU) && (after != before)) {
    rng_runs = (after == 1U) && !fake_is("no-rng");
    rng_since = fake_now();
  }
  if ((address == 0x50845108U) && (after != 0U)) {
    fake_set(0x50845104U, fake_get(0x50845104U) & ~after);
    fake_set(0x50845108U, 0);
  }
  if ((address == 0x50845130U) && (fake_get(0x50844500U) != 1U)) {
    fake_breach("the random number generator is used while CryptoCell is off");
  }
#endif
}

static void rng_step(void) {
  if (!rng_runs) {
    return;
  }
#ifndef NRF53
  if (((fake_now() - rng_since) > 30U) && (fake_get(0x4000D100U) == 0U)) {
    fake_set(0x4000D508U, next_noise() & 0xFFU);
    fake_set(0x4000D100U, 1);
  }
#else
  if (((fake_now() - rng_since) > 30U) && ((fake_get(0x50845104U) & 0x1FU) == 0U)) {
    static int failed;
    if (!failed) {  // the first time a test fails
      failed = 1;
      fake_set(0x50845104U, 2);
      return;
    }
    for (uint32_t i = 0; i < 6U; i++) {
      fake_set(0x50845114U + (4U * i), (next_noise() << 16) | next_noise());
    }
    fake_set(0x50845104U, 1);
  }
#endif
}

void model_step(void) {
  const int ready = hfclk_asked && !fake_is("no-crystal");
  fake_set(HFCLKSTAT, fake_after(0, ready, 200) ? 0x10001U : 0x10000U);
  rng_step();
  tx_step();
  if ((stop_since != 0U) && ((fake_now() - stop_since) > 50U)) {
    fake_set(UARTE + 0x564U, 0);
    stop_since = 0;
  }
}

uint32_t model_core_hz(void) {
  if (fake_get(CACHE) != 1U) {
    fake_breach("the cache is off");
  }
  if (!reset_written || (fake_get(RESETREAS) != 0U)) {
    fake_breach("RESETREAS was not cleared");
  }
  const int old = (fake_number("revision", GUARDED) < GUARDED);
#ifdef NRF53
  if ((fake_get(0x50004800U) != 0x11U) || (fake_get(0x50004804U) != 0x22U)) {
    fake_breach("trims were not put in place");
  }
  if ((fake_get(0x5000470CU) == 0x7EU) == old) {
    fake_breach("erratum 160");
  }
  if (fake_get(APPROTECT) != 0x5AU) {
    fake_breach("a debugger cannot get in");
  }
  return ((fake_get(HFCLKCTRL) & 3U) == 0U) ? 128000000U : 64000000U;
#else
  if ((fake_get(APPROTECT) == 0x5AU) == old) {
    fake_breach("a debugger cannot get in, or a register that is not there was written");
  }
  return 64000000U;
#endif
}

uint32_t model_uart_hz(void) { return 16000000U; }

uint32_t model_watchdog_ms(void) {
  if (fake_get(WDT + 0x400U) == 0U) {
    return 0;
  }
  return (uint32_t)((((uint64_t)fake_get(WDT + 0x504U) + 1U) * 1000U) / 32768U);
}

uint32_t model_watchdog_feeds(void) { return wdt_feeds; }
