// SPDX-License-Identifier: Apache-2.0
//
// The part of the STM32 in software (sim.h) that all models share: registers, time, USART, random numbers, watchdog;
// and the program that starts the port on it and prints what came of it, one "name value" a line.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/stm32/stm32.h"

enum { MAX_REGISTERS = 1024, SLOTS = 16, DELAY = 25, MAX_BREACHES = 32 };

typedef struct reg {
  uint32_t address;
  volatile uint32_t value;
  uint32_t was;
} reg_t;

static reg_t regs[MAX_REGISTERS];
static uint32_t reg_count;
static reg_t* last;
static uint32_t now;
static uint32_t written_at;  // in accesses, too
static uint32_t since[SLOTS];
static const char* condition = "";
static const char* breaches[MAX_BREACHES];
static uint32_t breach_count;

// By its address, in a table that is never nearly full.
static reg_t* find(uint32_t address) {
  uint32_t at = ((address >> 2) * 0x9E3779B1U) >> 22;
  while ((regs[at].address != address) && (regs[at].address != 0U)) {
    at = (at + 1U) % (uint32_t)MAX_REGISTERS;
  }
  if (regs[at].address == 0U) {
    reg_count++;
    regs[at].address = address;
  }
  if (reg_count > ((uint32_t)MAX_REGISTERS / 2U)) {
    (void)fprintf(stderr, "too many registers\n");
    exit(2);
  }
  return &regs[at];
}

uint32_t sim_get(uint32_t address) { return find(address)->value; }

void sim_set(uint32_t address, uint32_t value) {
  reg_t* r = find(address);
  r->value = value;
  r->was = value;
}

void sim_flag(uint32_t address, uint32_t bits, int on) {
  sim_set(address, on ? (sim_get(address) | bits) : (sim_get(address) & ~bits));
}

uint32_t sim_field(uint32_t address, uint32_t shift, uint32_t width) {
  return (sim_get(address) >> shift) & ((1U << width) - 1U);
}

void sim_breach(const char* what) {
  for (uint32_t i = 0; i < breach_count; i++) {
    if (strcmp(breaches[i], what) == 0) {
      return;
    }
  }
  if (breach_count < MAX_BREACHES) {
    breaches[breach_count++] = what;
  }
}

int sim_ready(uint32_t slot, int on) {
  if (!on) {
    since[slot] = 0;
  } else if (since[slot] == 0U) {
    since[slot] = now;
  }
  return on && ((now - since[slot]) >= (uint32_t)DELAY);
}

uint32_t sim_now(void) { return now; }

int sim_is(const char* what) { return strcmp(condition, what) == 0; }

// ---- USART -------------------------------------------------------------------------------------------------------

static struct {
  uint8_t waiting[8];
  uint32_t count;
  uint32_t got;
  uint8_t received[64];
  uint32_t lost;
  uint8_t sent[8];
  uint32_t sent_count;
  uint32_t irq;
} uart = {.irq = UINT32_MAX};

static uint32_t status_register(void) { return model_map.usart + (model_map.usart_v2 ? 0x1CU : 0U); }
static uint32_t data_in(void) { return model_map.usart + (model_map.usart_v2 ? 0x24U : 4U); }
static uint32_t data_out(void) { return model_map.usart + (model_map.usart_v2 ? 0x28U : 4U); }
static uint32_t control(void) { return model_map.usart + (model_map.usart_v2 ? 0U : 0xCU); }
static uint32_t divisor(void) { return model_map.usart + (model_map.usart_v2 ? 0xCU : 8U); }
static int uart_is_on(void) { return (sim_get(control()) & (model_map.usart_v2 ? 1U : (1U << 13))) != 0U; }

static void usart_step(void) {
  sim_flag(status_register(), 1U << 5, uart.count > 0U);  // RXNE
  sim_flag(status_register(), 1U << 7, 1);                // TXE
  if (uart.count > 0U) {
    sim_set(data_in(), uart.waiting[0]);
  }
}

static void usart_touched(uint32_t address, int written) {
  if ((address == data_out()) && written) {
    uart.sent[uart.sent_count++ % sizeof uart.sent] = (uint8_t)sim_get(address);
  } else if ((address == data_in()) && (uart.count > 0U)) {
    uart.count--;
    memmove(uart.waiting, &uart.waiting[1], uart.count);
    if (!model_map.usart_v2) {
      sim_flag(status_register(), 0xFU, 0);
    }
  } else if (model_map.usart_v2 && written && (address == (model_map.usart + 0x20U))) {
    sim_flag(status_register(), sim_get(address), 0);  // ICR
    sim_set(address, 0);
  } else if (written && (address == divisor()) && uart_is_on()) {
    sim_breach("BRR is written while the USART is on");
  }
}

void cpu_irq_enable(uint32_t number) { uart.irq = number; }
void bare_received(uint8_t byte) { uart.received[uart.got++ % sizeof uart.received] = byte; }
void bare_lost(uint32_t count) { uart.lost += count; }

// ---- Random numbers ----------------------------------------------------------------------------------------------

static void rng_step(void) {
  static uint32_t seed = 1;
  const uint32_t hz = model_rng_hz();
  const int on = (sim_get(model_map.rng) & 4U) != 0U;
  if (hz > 48000000U) {
    sim_breach("the random number generator's clock is over 48 MHz");
  }
  const int works = on && (hz > 0U) && !sim_is("no-rng");
  if (sim_ready(SLOTS - 1, works)) {
    seed = (seed * 1664525U) + 1013904223U;
    sim_set(model_map.rng + 8U, seed);
  }
  sim_flag(model_map.rng + 4U, 1U, sim_ready(SLOTS - 1, works));
}

// As in bare.c, for chips without a generator.
__attribute__((weak)) int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  (void)data;
  (void)size_bytes;
  return -1;
}

// ---- Watchdog: prints its settings -------------------------------------------------------------------------------

static struct {
  int started;
  int open;
  uint32_t fed;
} dog;

static void watchdog_written(uint32_t address, uint32_t was) {
  const uint32_t value = sim_get(address);
  if (address == model_map.iwdg) {
    dog.started |= value == 0xCCCCU;
    dog.open = (value == 0x5555U) ? 1 : ((value == 0xAAAAU) ? 0 : dog.open);
    dog.fed += value == 0xAAAAU;
    sim_set(address, 0);
  } else if (((address == (model_map.iwdg + 4U)) || (address == (model_map.iwdg + 8U))) && !dog.open) {
    sim_set(address, was);  // protected
  }
}

// ---- Accesses ----------------------------------------------------------------------------------------------------

static void settle(void) {
  if (last == NULL) {
    return;
  }
  reg_t* r = last;
  last = NULL;
  const uint32_t was = r->was;
  const int written = r->value != was;
  r->was = r->value;
  if (sim_is("no-chip")) {
    sim_set(r->address, 0);  // writes go nowhere
    return;
  }
  usart_touched(r->address, written);
  if (written) {
    written_at = now;
    watchdog_written(r->address, was);
    model_written(r->address, was);
  }
}

volatile uint32_t* sim_register(uint32_t address) {
  settle();
  now++;
  // Where nothing has been written for long nothing moves: then a look now and then will do.
  const int moves = ((now - written_at) < 256U) || ((now % 64U) == 0U);
  if (!sim_is("no-chip") && moves) {
    model_step();
    usart_step();
    rng_step();
    if (!model_clocked(address)) {
      sim_breach("a register is accessed whose peripheral has no clock");
    }
  }
  if (sim_is("no-flash") && (address >= model_map.uid) && (address < (model_map.uid + 12U))) {
    sim_breach("the unique id is read, which is not there: a bus fault");
  }
  last = find(address);
  return &last->value;
}

// ---- The program -------------------------------------------------------------------------------------------------

static void print_bytes(const char* name, const uint8_t* data, uint32_t count) {
  (void)printf("%s ", name);
  for (uint32_t i = 0; i < count; i++) {
    (void)printf("%02x", data[i]);
  }
  (void)printf("\n");
}

// Three bytes, and the USART reports a lost one; then an answer.
static void talk(void) {
  static const uint8_t bytes[] = {0x12, 0xFE, 0x34};
  for (uint32_t i = 0; i < sizeof bytes; i++) {
    settle();
    uart.waiting[0] = bytes[i];
    uart.count = 1;
    if (i == 2U) {
      sim_flag(status_register(), 8U, 1);  // ORE
    }
    (void)chip_irq(uart.irq);
  }
  settle();
  print_bytes("received", uart.received, uart.got);
  (void)printf("lost %u\n", uart.lost);
  (void)printf("overrun_left %u\n", (sim_get(status_register()) >> 3) & 1U);
  (void)printf("put %d\n", uart_put(0xA5));
  settle();
  print_bytes("sent", uart.sent, uart.sent_count);
  (void)printf("foreign_irq %d\n", chip_irq(uart.irq + 1U));
}

static void print_clocks(void) {
  (void)printf("core_hz %u\nreal_core_hz %u\n", chip_core_hz(), sim_is("no-chip") ? 0U : model_core_hz());
  (void)printf("uart_hz %u\nreal_uart_hz %u\n", chip_uart_hz(), sim_is("no-chip") ? 0U : model_uart_hz());
  const uint32_t brr = sim_get(divisor());
  const uint64_t hz = model_uart_hz();
  (void)printf("brr %u\n", brr);
  (void)printf("baud %u\n", (brr == 0U) ? 0U : (uint32_t)((hz * (model_map.lpuart ? 256U : 1U)) / brr));
  (void)printf("uart_on %d\n", uart_is_on());
}

static void print_platform(void) {
  struct bare_platform p = {.flags = 0, .cpuid = 0, .wait_states = -1, .reset_cause = -1};
  chip_platform(&p);
  (void)printf("flags %u\nwait_states %d\nreset_cause %d\n", p.flags, p.wait_states, p.reset_cause);
  uint8_t id[32];
  print_bytes("id", id, chip_id(id, sizeof id));
  print_bytes("id5", id, chip_id(id, 5));
}

static void print_random(void) {
  uint8_t data[10] = {0};
  (void)printf("random_result %d\n", chip_random(data, sizeof data));
  print_bytes("random", data, sizeof data);
}

static void print_watchdog(uint32_t ms) {
  dog.fed = 0;
  bare_watchdog_start(ms);
  chip_watchdog_feed();
  settle();
  (void)printf("watchdog_started %d\nwatchdog_fed %u\n", dog.started, dog.fed);
  (void)printf("watchdog_counts %llu\n",
               (unsigned long long)(4U << sim_get(model_map.iwdg + 4U)) * (sim_get(model_map.iwdg + 8U) + 1U));
}

#ifdef BOARDSMITH_MEASURE_PIN
// Prints the registers of these addresses, in hexadecimal digits.
static void print_pin(const char* when, char** addresses) {
  (void)printf("%s", when);
  for (; *addresses != NULL; addresses++) {
    (void)printf(" %x", sim_get((uint32_t)strtoul(*addresses, NULL, 16)));
  }
  (void)printf("\n");
}
#endif

int main(int argc, char** argv) {
  condition = (argc > 1) ? argv[1] : "";
  if (!sim_is("no-chip")) {
    model_reset();
    for (uint32_t i = 0; i < 3U; i++) {
      sim_set(model_map.uid + (4U * i), 0x03020100U + (0x04040404U * i));
    }
  }
  chip_early();
  chip_init();
  (void)printf("accesses %u\n", now);
#ifdef BOARDSMITH_MEASURE_PIN
  print_pin("pin_started", &argv[2]);
  chip_measure(1);
  settle();
  print_pin("pin_high", &argv[2]);
  chip_measure(0);
  settle();
  print_pin("pin_low", &argv[2]);
  return 0;
#endif
  uart_init();
  settle();
  print_clocks();
  (void)printf("irq %u\n", uart.irq);
  print_platform();
  if (!sim_is("no-chip")) {
    talk();
  }
  print_random();
  print_watchdog((argc > 2) ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000U);
  for (uint32_t i = 0; i < breach_count; i++) {
    (void)printf("breach %s\n", breaches[i]);
  }
  return 0;
}
