// SPDX-License-Identifier: Apache-2.0
//
// i.MX RT1060 in software, as far as the port touches it: IMXRT1060RM, chapters CCM, DCDC, SRC, WDOG, RTWDOG, TRNG,
// LPUART.
#include "fake.h"

#include <string.h>

#define CACRR 0x400FC010U
#define CBCDR 0x400FC014U
#define CBCMR 0x400FC018U
#define CSCDR1 0x400FC024U
#define CDHIPR 0x400FC048U
#define CLPCR 0x400FC054U
#define PLL_ARM 0x400D8000U
#define PLL_USB1 0x400D8010U
#define PLL_SYS 0x400D8030U
#define DCDC_REG0 0x40080000U
#define DCDC_REG3 0x4008000CU
#define SRSR 0x400F8008U
#define LPUART 0x40184000U
#define MCTL 0x400CC000U
#define RTWDOG_CS 0x400BC000U
#define RTWDOG_CNT 0x400BC004U
#define WCR 0x400B8000U
#define WSR 0x400B8002U

enum { FIFO_WORDS = 4, BYTE_TIME = 40, SENT_MAX = 4096 };
#define EMPTY 0x5A000000U  // in DATA where nothing was written: no byte looks so

static int srsr_written;
static uint32_t busy_until;
static uint32_t unlocked;
static uint32_t serviced;
static uint32_t feeds;
static uint32_t noise = 0x9E3779B9U;
static uint32_t trng_since;

static struct {
  uint8_t rx[FIFO_WORDS];
  uint32_t rx_count;
  uint8_t tx[FIFO_WORDS];
  uint32_t tx_count;
  uint32_t tx_until;
  uint8_t sent[SENT_MAX];
  uint32_t sent_count;
} uart;

void model_reset(void) {
  fake_set(SRSR, fake_number("reset", 1));
  fake_set(CACRR, 3);
  fake_set(CBCDR, 0x000A8200U);  // as after a reset: the system PLL's 528 MHz, / 1, IPG / 3
  fake_set(CBCMR, 0x2DAE8304U & ~(3U << 18));
  fake_set(CSCDR1, 0x06490B00U);
  fake_set(CLPCR, 0x79);
  fake_set(PLL_ARM, 0x00013063U);
  fake_set(PLL_USB1, 0x80003000U);
  fake_set(PLL_SYS, 0x80002001U);
  fake_set(DCDC_REG0, 1U << 31);
  fake_set(DCDC_REG3, 0x0EU);
  fake_set(0x401F4410U, 0x33221100U);
  fake_set(0x401F4420U, 0x77665544U);
  fake_set(RTWDOG_CS, 0x2980U);
  fake_set(WCR, 0x30);
  fake_set(0x400B8008U, 1);
  fake_set(0x400D0008U, 1);
  fake_set(LPUART + 0x28U, 0x11U);
  fake_set(LPUART + 0x1CU, EMPTY);
}

static int on_arm_pll(void) { return ((fake_get(CBCDR) & (1U << 25)) == 0U) && (((fake_get(CBCMR) >> 18) & 3U) == 3U); }

static uint32_t pll_arm_hz(void) {
  const uint32_t pll = fake_get(PLL_ARM);
  return ((pll & (1U << 16)) != 0U) ? 24000000U : (12000000U * (pll & 0x7FU));
}

uint32_t model_core_hz(void) {
  static const uint32_t pre[] = {528000000, 0, 0, 0};
  uint32_t hz;
  if ((fake_get(CBCDR) & (1U << 25)) != 0U) {
    const uint32_t clk2[] = {480000000, 24000000, 24000000, 0};
    hz = clk2[(fake_get(CBCMR) >> 12) & 3U] / (((fake_get(CBCDR) >> 27) & 7U) + 1U);
  } else if (on_arm_pll()) {
    hz = pll_arm_hz() / ((fake_get(CACRR) & 7U) + 1U);
  } else {
    hz = pre[(fake_get(CBCMR) >> 18) & 3U];
  }
  return hz / (((fake_get(CBCDR) >> 10) & 7U) + 1U);
}

uint32_t model_uart_hz(void) {
  const uint32_t hz = ((fake_get(CSCDR1) & 0x40U) != 0U) ? 24000000U : 80000000U;
  if ((fake_get(0x400FC07CU) & (3U << 24)) != (3U << 24)) {
    fake_breach("LPUART1 has no clock");
  }
  return hz / ((fake_get(CSCDR1) & 0x3FU) + 1U);
}

// ---- LPUART --------------------------------------------------------------------------------------------------------

int model_uart_arrives(uint8_t byte) {
  if (uart.rx_count < (uint32_t)FIFO_WORDS) {
    uart.rx[uart.rx_count++] = byte;
  } else {
    fake_set(LPUART + 0x14U, fake_get(LPUART + 0x14U) | (1U << 19));  // OR
  }
  return 1;
}

static void uart_flags(void) {
  uint32_t stat = fake_get(LPUART + 0x14U) & ~(1U << 21);
  stat |= (uart.rx_count > 0U) ? (1U << 21) : 0U;  // RDRF
  fake_set(LPUART + 0x14U, stat);
  fake_set(LPUART + 0x2CU, (fake_get(LPUART + 0x2CU) & 0x00030003U) | (uart.rx_count << 24) | (uart.tx_count << 8));
  fake_set(LPUART + 0x1CU, EMPTY | ((uart.rx_count > 0U) ? uart.rx[0] : 0U));
}

int model_uart_pending(void) {
  const uint32_t stat = fake_get(LPUART + 0x14U);
  const uint32_t ctrl = fake_get(LPUART + 0x18U);
  return (((stat >> 21) & (ctrl >> 21) & 1U) != 0U) || (((stat >> 19) & (ctrl >> 27) & 1U) != 0U);
}

static void touched_uart(uint32_t address, uint32_t before, uint32_t after) {
  if (address == (LPUART + 0x1CU)) {
    if (before != after) {
      if (uart.tx_count == (uint32_t)FIFO_WORDS) {
        fake_breach("the transmitter's FIFO overflows");
        return;
      }
      uart.tx[uart.tx_count++] = (uint8_t)after;
    } else if (uart.rx_count > 0U) {
      uart.rx_count--;
      memmove(uart.rx, &uart.rx[1], uart.rx_count);
    } else {
      fake_breach("the receiver's FIFO is read while it is empty");
    }
  }
  if (address == (LPUART + 0x14U)) {
    if ((before != after) || fake_twice(address)) {
      fake_set(address, before & ~after);  // writing 1 clears
    }
  }
  if ((address == (LPUART + 0x28U)) && (before != after) && ((fake_get(LPUART + 0x18U) & (3U << 18)) != 0U)) {
    fake_breach("FIFO is set up while the UART is on");
  }
  if ((address == (LPUART + 0x10U)) && ((fake_get(LPUART + 0x18U) & (3U << 18)) != 0U)) {
    fake_breach("BAUD changes while the UART is on");
  }
}

static void tx_step(void) {
  if ((uart.tx_count > 0U) && (uart.tx_until == 0U)) {
    uart.tx_until = fake_now() + (uint32_t)BYTE_TIME;
  }
  if ((uart.tx_until != 0U) && (fake_now() >= uart.tx_until)) {
    uart.sent[uart.sent_count++ % (uint32_t)SENT_MAX] = uart.tx[0];
    uart.tx_count--;
    memmove(uart.tx, &uart.tx[1], uart.tx_count);
    uart.tx_until = 0;
  }
}

uint32_t model_uart_sent(uint8_t* bytes, uint32_t max) {
  const uint32_t n = (uart.sent_count < max) ? uart.sent_count : max;
  memcpy(bytes, uart.sent, n);
  return n;
}

uint32_t model_baud(void) {
  const uint32_t baud = fake_get(LPUART + 0x10U);
  const uint32_t osr = ((baud >> 24) & 31U) + 1U;
  const uint32_t sbr = baud & 0x1FFFU;
  if ((osr < 4U) || (sbr == 0U) || ((osr < 8U) && ((baud & (1U << 17)) == 0U)) || ((baud & (1U << 13)) != 0U)) {
    fake_breach("BAUD: oversampling out of range, or two stop bits");
    return 0;
  }
  if ((fake_get(0x401F80ECU) != 2U) || (fake_get(0x401F80F0U) != 2U) ||
      ((fake_get(0x401F82E0U) & 0x3000U) != 0x3000U)) {
    fake_breach("pins: GPIO_AD_B0_12 and 13 are not LPUART1's, or RX is not pulled");
  }
  if ((fake_get(LPUART + 0x28U) & 0x88U) != 0x88U) {
    fake_breach("a FIFO is off");
  }
  return model_uart_hz() / (osr * sbr);
}

// ---- The rest ------------------------------------------------------------------------------------------------------

static void touched_clocks(uint32_t address, uint32_t before, uint32_t after) {
  if ((before != after) && ((address == CACRR) || (address == CBCDR) || ((address == CBCMR)))) {
    busy_until = fake_now() + 20U;
  }
  if ((address == PLL_ARM) && (before != after) && on_arm_pll()) {
    fake_breach("the ARM PLL changes while the core runs from it");
  }
  if ((address == CBCMR) && (before != after) && ((fake_get(CBCDR) & (1U << 25)) == 0U) &&
      (((before ^ after) & (3U << 18)) != 0U)) {
    fake_breach("PRE_PERIPH_CLK_SEL, which has glitches, changes while it is in use");
  }
  if ((address == CBCMR) && (((before ^ after) & (3U << 12)) != 0U) && ((fake_get(CBCDR) & (1U << 25)) != 0U)) {
    fake_breach("PERIPH_CLK2_SEL changes while it is in use");
  }
}

void model_touched(uint32_t address, uint32_t before, uint32_t after) {
  if ((address == SRSR) && fake_twice(address)) {
    srsr_written = 1;
    fake_set(SRSR, before & ~after);
  }
  touched_clocks(address, before, after);
  if ((address & 0xFFFFC000U) == LPUART) {
    touched_uart(address, before, after);
  }
  if ((address == RTWDOG_CNT) && (after == 0xD928C520U)) {
    unlocked = 1;
    fake_set(address, 0);
  }
  if ((address == RTWDOG_CS) && (before != after) && !unlocked) {
    fake_breach("RTWDOG changes while it is locked");
  }
  if ((address == WCR) && (((after & 0x30U) != 0x30U) || (((before & 4U) != 0U) && ((after & 4U) == 0U)))) {
    fake_breach("WDOG1_WCR: a reset at once, or WDE cleared, which cannot be");
  }
  if ((address == WSR) && (before != after)) {
    if (after == 0x5555U) {
      serviced = 1;
    } else {
      feeds += ((after == 0xAAAAU) && serviced) ? 1U : 0U;
      serviced = 0;
    }
    fake_set(address, 0);
  }
  if ((address == MCTL) && (before != after)) {
    fake_set(address, after & ~(1U << 12));
    trng_since = ((after & (1U << 16)) == 0U) ? fake_now() : 0U;
    fake_set(address, fake_get(address) & ~(1U << 10));
  }
  if (address == 0x400CC07CU) {  // ENT15 was read
    fake_set(MCTL, fake_get(MCTL) & ~(1U << 10));
    trng_since = fake_now();
  }
}

static void trng_step(void) {
  if ((trng_since == 0U) || ((fake_now() - trng_since) < 50U) || fake_is("no-rng") ||
      ((fake_get(MCTL) & (1U << 10)) != 0U)) {
    return;
  }
  for (uint32_t i = 0; i < 16U; i++) {
    noise = (noise * 1664525U) + 1013904223U;
    fake_set(0x400CC040U + (4U * i), noise ^ (noise << 13));
  }
  fake_set(MCTL, fake_get(MCTL) | (1U << 10));
}

void model_step(void) {
  const uint32_t pll = fake_get(PLL_ARM);
  const int runs = ((pll & (1U << 12)) == 0U) && ((pll & (1U << 13)) != 0U) && !fake_is("no-pll");
  fake_set(PLL_ARM, (pll & 0x7FFFFFFFU) | (fake_after(0, runs, 100) ? (1U << 31) : 0U));
  fake_set(CDHIPR, (fake_now() < busy_until) ? (1U << 5) : 0U);
  const uint32_t mv = 800U + (25U * (fake_get(DCDC_REG3) & 0x1FU));
  fake_set(DCDC_REG0, fake_is("no-voltage") && (mv > 1200U) ? 0U : (1U << 31));
  const uint32_t hz = model_core_hz();
  if (on_arm_pll() && ((fake_get(PLL_ARM) >> 31) == 0U)) {
    fake_breach("the core runs from a PLL that has not locked");
  }
  if ((hz > 528000000U) && (mv < 1250U)) {
    fake_breach("more than 528 MHz at less than 1.25 V");
  }
  if (hz > 600000000U) {
    fake_breach("more than 600 MHz");
  }
  if ((hz / (((fake_get(CBCDR) >> 8) & 3U) + 1U)) > 176000000U) {
    fake_breach("IPG is above its limit");
  }
  trng_step();
  tx_step();
  uart_flags();
}

uint32_t model_watchdog_ms(void) {
  if (!srsr_written || (fake_get(SRSR) != 0U)) {
    fake_breach("SRSR was not cleared");
  }
  if (((fake_get(RTWDOG_CS) & 0x80U) != 0U) || ((fake_get(0x400B8008U) & 1U) != 0U) ||
      ((fake_get(0x400D0008U) & 1U) != 0U)) {
    fake_breach("a watchdog is on that nobody feeds");
  }
  if ((fake_get(CLPCR) & 3U) != 0U) {
    fake_breach("WFI stops clocks");
  }
  const uint32_t wcr = fake_get(WCR);
  return ((wcr & 4U) == 0U) ? 0U : (((wcr >> 8) + 1U) * 500U);
}

uint32_t model_watchdog_feeds(void) { return feeds; }
