// SPDX-License-Identifier: Apache-2.0
//
// What all chips in software share (fake.h), and the program that starts a port on one and prints what came of it, one
// "name value" a line.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REGISTERS = 1024, SLOTS = 16, MAX_BREACHES = 32, MAX_BYTES = 4096 };

typedef struct reg {
  uint32_t address;
  volatile uint32_t value;
  volatile uint16_t half;
  uint32_t was;
  int is_half;
  int used;
} reg_t;

static reg_t regs[MAX_REGISTERS];
static uint32_t reg_count;
static reg_t* last;
static uint32_t before_last;  // address
static uint32_t now = 1;
static uint32_t since[SLOTS];
static const char* breaches[MAX_BREACHES];
static uint32_t breach_count;
static char** conditions;
static int condition_count;

static reg_t* find(uint32_t address) {
  for (uint32_t i = (address * 2654435761U) >> 22;; i++) {
    reg_t* r = &regs[i % (uint32_t)MAX_REGISTERS];
    if (r->used && (r->address != address)) {
      continue;
    }
    if (!r->used && (++reg_count == (uint32_t)MAX_REGISTERS)) {
      (void)fprintf(stderr, "too many registers\n");
      exit(2);
    }
    r->used = 1;
    r->address = address;
    return r;
  }
}

int fake_twice(uint32_t address) { return (before_last == address); }

static uint32_t value_of(const reg_t* r) { return r->is_half ? r->half : r->value; }

uint32_t fake_get(uint32_t address) { return value_of(find(address)); }

void fake_set(uint32_t address, uint32_t value) {
  reg_t* r = find(address);
  r->value = value;
  r->half = (uint16_t)value;
  r->was = value;
}

uint32_t fake_now(void) { return now; }

int fake_after(uint32_t slot, int on, uint32_t delay) {
  if (!on) {
    since[slot] = 0;
  } else if (since[slot] == 0U) {
    since[slot] = now;
  }
  return on && ((now - since[slot]) >= delay);
}

void fake_breach(const char* what) {
  for (uint32_t i = 0; i < breach_count; i++) {
    if (strcmp(breaches[i], what) == 0) {
      return;
    }
  }
  if (breach_count < (uint32_t)MAX_BREACHES) {
    breaches[breach_count++] = what;
  }
}

int fake_is(const char* condition) {
  for (int i = 0; i < condition_count; i++) {
    if (strcmp(conditions[i], condition) == 0) {
      return 1;
    }
  }
  return 0;
}

uint32_t fake_number(const char* name, uint32_t otherwise) {
  const size_t length = strlen(name);
  for (int i = 0; i < condition_count; i++) {
    if ((strncmp(conditions[i], name, length) == 0) && (conditions[i][length] == '=')) {
      return (uint32_t)strtoul(&conditions[i][length + 1U], NULL, 16);
    }
  }
  return otherwise;
}

static void settle(void) {
  now++;
  if (last != NULL) {
    reg_t* r = last;
    last = NULL;
    const uint32_t before = r->was;
    r->was = value_of(r);
    model_touched(r->address, before, r->was);
    before_last = (before_last == r->address) ? 0U : r->address;
  }
  model_step();
}

static reg_t* touch(uint32_t address, int is_half) {
  settle();
  last = find(address);
  last->is_half = is_half;
  last->was = value_of(last);
  return last;
}

volatile uint32_t* fake_register(uint32_t address) {
  if ((address % 4U) != 0U) {
    fake_breach("a word's address is no multiple of four");
  }
  return &touch(address, 0)->value;
}

volatile uint16_t* fake_half(uint32_t address) { return &touch(address, 1)->half; }

// ---- The rest of the firmware --------------------------------------------------------------------------------------

static uint8_t received[MAX_BYTES];
static uint32_t received_count;
static uint32_t lost;
static uint32_t irq = UINT32_MAX;

void bare_received(uint8_t byte) { received[received_count++ % (uint32_t)MAX_BYTES] = byte; }
void bare_lost(uint32_t count) { lost += count; }
void cpu_irq_enable(uint32_t number) { irq = number; }
uint32_t cpu_lock(void) { return 0; }
void cpu_unlock(uint32_t state) { (void)state; }

static void say(const char* name, uint32_t value) { (void)printf("%s %lu\n", name, (unsigned long)value); }

static void say_bytes(const char* name, const uint8_t* bytes, uint32_t count) {
  (void)printf("%s ", name);
  for (uint32_t i = 0; i < count; i++) {
    (void)printf("%02x", bytes[i]);
  }
  (void)printf("\n");
}

static int pending(void) {
  settle();
  return model_uart_pending();
}

// burst bytes come, and only then the interrupt is served; until 256 have come. 1: they came in order and once, as far
// as they came.
static void receive(uint32_t burst) {
  uint32_t next = 0;
  received_count = 0;
  lost = 0;
  while (next < 256U) {
    for (uint32_t i = 0; (i < burst) && (next < 256U); i++) {
      if (!model_uart_arrives((uint8_t)next)) {
        return;
      }
      next++;
    }
    for (uint32_t i = 0; pending() && (i < 100U); i++) {
      if (chip_irq(irq) != 0) {
        fake_breach("the UART's interrupt is not expected");
      }
    }
    if (pending()) {
      fake_breach("the UART's interrupt does not go away");
      return;
    }
  }
  uint32_t in_order = 1;
  for (uint32_t i = 1; i < received_count; i++) {
    in_order &= (received[i] > received[i - 1U]) ? 1U : 0U;
  }
  (void)printf("burst%lu received %lu lost %lu in_order %lu\n", (unsigned long)burst, (unsigned long)received_count,
               (unsigned long)(lost != 0U), (unsigned long)in_order);
}

// 256 bytes go out. With interrupts served, or masked as in a fault: then polling has to do.
static void transmit(const char* name, int with_interrupts) {
  uint8_t sent[MAX_BYTES];
  const uint32_t before = model_uart_sent(sent, MAX_BYTES);
  uint32_t patience = 1000000;
  for (uint32_t i = 0; (i < 256U) && (patience > 0U); patience--) {
    if (uart_put((uint8_t)(255U - i)) == 0) {
      i++;
    }
    if (with_interrupts && pending()) {
      (void)chip_irq(irq);
    }
  }
  for (uint32_t i = 0; i < 10000U; i++) {  // until all is out
    settle();
    if (pending()) {
      (void)chip_irq(irq);
    }
  }
  const uint32_t after = model_uart_sent(sent, MAX_BYTES);
  uint32_t right = 0;
  for (uint32_t i = before; (i < after) && ((i - before) < 256U); i++) {
    right += (sent[i] == (uint8_t)(255U - (i - before))) ? 1U : 0U;
  }
  say(name, (after - before == 256U) ? right : 0U);
}

static void uart(void) {
  uart_init();
  settle();
  say("baud", model_baud());
  say("uart_irq", irq);
  if (!model_uart_arrives(0)) {
    return;
  }
  while (pending()) {
    (void)chip_irq(irq);
  }
  receive(1);
  receive(4);
  receive(20);
  transmit("sent", 1);
  transmit("sent_polled", 0);
}

static void watchdog(uint32_t ms) {
  bare_watchdog_start(ms);
  settle();
  say("watchdog_ms", model_watchdog_ms());
  const uint32_t feeds = model_watchdog_feeds();
  chip_watchdog_feed();
  settle();
  say("watchdog_fed", model_watchdog_feeds() - feeds);
}

#ifdef BOARDSMITH_MEASURE_PIN
// Prints the registers of the conditions peek1=ADDRESS, peek2=… after the start; then, each cleared before, those that
// raising and lowering the pin writes.
static void print_pin(const char* when) {
  (void)printf("%s", when);
  for (char digit = '1'; digit <= '9'; digit++) {
    const char name[] = {'p', 'e', 'e', 'k', digit, '\0'};
    const uint32_t address = fake_number(name, 0);
    if (address != 0U) {
      (void)printf(" %lx", (unsigned long)fake_get(address));
      fake_set(address, 0);
    }
  }
  (void)printf("\n");
}

static void measure(void) {
  print_pin("pin_started");
  chip_measure(1);
  settle();
  print_pin("pin_high");
  chip_measure(0);
  settle();
  print_pin("pin_low");
}
#endif

int main(int argc, char** argv) {
  uint8_t bytes[32];
  conditions = &argv[1];
  condition_count = argc - 1;
  model_reset();
  chip_early();
  chip_init();
  settle();
#ifdef BOARDSMITH_MEASURE_PIN
  measure();
  return 0;
#endif
  say("core_hz", chip_core_hz());
  say("real_core_hz", model_core_hz());
  say("uart_hz", chip_uart_hz());
  say("real_uart_hz", model_uart_hz());
  struct bare_platform p = {.flags = 0, .cpuid = 0, .wait_states = -1, .reset_cause = -1};
  chip_platform(&p);
  say("flags", p.flags);
  say("reset_cause", (uint32_t)p.reset_cause);
  say_bytes("id", bytes, chip_id(bytes, sizeof bytes));
  say("id_in_3", chip_id(bytes, 3));
  memset(bytes, 0, sizeof bytes);
  const int32_t error = chip_random(bytes, sizeof bytes);
  say("random_error", (uint32_t)-error);
  say_bytes("random", bytes, sizeof bytes);
  say("unexpected_irq", (uint32_t)-chip_irq(31));
  uart();
  watchdog(fake_number("watchdog", 1500));
  say("breaches", breach_count);
  for (uint32_t i = 0; i < breach_count; i++) {
    (void)printf("breach %s\n", breaches[i]);
  }
  return 0;
}
