// SPDX-License-Identifier: Apache-2.0
//
// bare.c and fault.c on software models of core, chip and UART: the program runs one scene and prints the results, one
// "name value" a line. A tick occurs whenever the core sleeps or the UART is busy, and where a scene requests one.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Included for its state, which a reset clears except the kept data.
#include "fault.c"

#include "bare.h"
#include "bare_model.h"

enum { TICK = 1000 / (int)BARE_TICK_HZ, CORE_HZ = 16000000 };

static uint64_t now_ms;
static uint32_t ticks;
static uint32_t unfed;         // ticks since the watchdog was fed,
static uint32_t longest;       // and their maximum
static uint32_t drawn;         // bytes of the chip's generator
static int32_t generator = 0;  // what chip_random returns
static uint32_t seed = 1;
static bare_watchdog_t dog = {.hz = 1000, .most = UINT32_MAX};
static uint32_t dog_counts;  // of its start
static int32_t cause = -1;
static uint32_t byte_every;  // ticks; 0: no byte comes
static uint32_t busy;        // ticks for which the UART takes no byte after each
static uint32_t busy_left;
static jmp_buf reset;
static char** arguments;
static int argument_count;

static void say(const char* name, int64_t value) { (void)printf("%s %lld\n", name, (long long)value); }

static uint32_t argument(int n) { return (n < argument_count) ? (uint32_t)strtoul(arguments[n], NULL, 10) : 1U; }

static void tick(void) {
  ticks++;
  unfed++;
  longest = (unfed > longest) ? unfed : longest;
  now_ms += (uint64_t)TICK;
  if (bare_tick()) {
    bare_tick_fault(NULL);
  }
}

// ---- Core --------------------------------------------------------------------------------------------------------

void cpu_init(void) {}
uint64_t cpu_ticks(void) { return (now_ms * (CORE_HZ / 1000)) + 1U; }
uint32_t cpu_ticks_hz(void) { return CORE_HZ; }
void cpu_ticks_align(void) {}
uint32_t cpu_lock(void) { return 0; }
void cpu_unlock(uint32_t state) { (void)state; }
void cpu_irq_enable(uint32_t number) { (void)number; }
void cpu_platform(struct bare_platform* p) { (void)p; }
void cpu_reset(void) { longjmp(reset, 1); }

void cpu_idle(void) {
  tick();
  if ((byte_every != 0U) && ((ticks % byte_every) == 0U)) {
    bare_received(7);
  }
}

// ---- Chip, UART, runtime -----------------------------------------------------------------------------------------

void chip_init(void) {}
uint32_t chip_core_hz(void) { return CORE_HZ; }
void chip_platform(struct bare_platform* p) { p->reset_cause = cause; }
int32_t chip_irq(uint32_t number) { return (number == 0U) ? 0 : -1; }
bare_watchdog_t chip_watchdog(void) { return dog; }
void chip_watchdog_start(uint32_t counts) { dog_counts = counts; }
void chip_watchdog_feed(void) { unfed = 0; }

int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  for (uint32_t i = 0; i < size_bytes; i++) {
    seed = (seed * 1664525U) + 1013904223U;
    data[i] = (uint8_t)(seed >> 24);
  }
  drawn += size_bytes;
  return generator;
}

void uart_init(void) {}

int32_t uart_put(uint8_t byte) {
  (void)byte;
  if (busy_left > 0U) {
    busy_left--;
    tick();
    return -1;
  }
  busy_left = busy;
  return 0;
}

uint32_t boardsmith_crc32(const void* data, size_t size_bytes) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size_bytes; i++) {
    crc = (crc ^ ((const uint8_t*)data)[i]) * 16777619U;
  }
  return crc;
}
uint32_t boardsmith_crc32_more(uint32_t crc, const void* data, size_t size_bytes) {
  return crc ^ boardsmith_crc32(data, size_bytes);
}
void TVMLogf(const char* format, ...) { (void)format; }
const uint8_t boardsmith_build_id[16];
const bare_model_t bare_model;
uint8_t bare_stack_start[8];
uint8_t bare_stack_end[8];
volatile uint32_t bare_handler_mark[4];
const uint8_t bare_image_start[8];
const uint8_t bare_resident_end[8];

// ---- Scenes ------------------------------------------------------------------------------------------------------

// Simulates a reset: clears memory and restarts the counter of cpu_ticks.
static void after_reset(int32_t why) {
  (void)memset(&call, 0, sizeof call);
  cause = why;
  now_ms = 100;
  (void)boardsmith_port.init(NULL);
}

static void receive(uint32_t timeout_ms) {
  uint8_t* data;
  (void)boardsmith_port.receive(NULL, &data, timeout_ms);
}

static void begin_call(void) { boardsmith_call_begins((TVMFunctionHandle)(uintptr_t)0x80010002U); }

static void set_budget(int64_t ms) {
  TVMValue value = {.v_int64 = ms};
  TVMValue result;
  int code = (int)kTVMArgInt;
  say("budget_error", fault_budget_packed(&value, &code, 1, &result, &code, NULL));
}

// Ticks come and nothing else happens.
static void hang(uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    tick();
  }
}

static void idle(void) { receive(10000); }

static void busy_loop(void) {
  byte_every = 3;
  for (uint32_t i = 0; i < 300U; i++) {
    receive(10);
    hang(1);
  }
}

static void stuck(void) {
  receive(10);
  ticks = 0;
  hang(1000);
}

static void long_call(void) {
  boardsmith_session_begins();
  begin_call();
  hang(1000);
}

static void endless_call(void) {
  boardsmith_session_begins();
  begin_call();
  hang(1000000);
}

static void endless_call_without_budget(void) {
  boardsmith_session_begins();
  set_budget(0);
  begin_call();
  hang(1000000);
}

static void short_budget(void) {
  boardsmith_session_begins();
  set_budget(50);
  begin_call();
  hang(1000);
}

// The warm-up of a timed call, then two samples, of which the last one hangs.
static void endless_sample(void) {
  boardsmith_session_begins();
  set_budget(50);
  begin_call();
  hang(4);
  fault_budget_begins();
  hang(4);
  fault_budget_begins();
  hang(1000);
}

static void stuck_after_call(void) {
  long_call();
  boardsmith_call_ends();
  ticks = 0;
  hang(1000);
}

static void slow_uart(void) {
  static const uint8_t data[100];
  busy = 20;
  say("sent", boardsmith_port.send(NULL, data, sizeof data));
}

static void dead_uart(void) {
  static const uint8_t data[100];
  busy = 1000000;
  say("sent", boardsmith_port.send(NULL, data, sizeof data));
}

static void print_random(const char* name, uint32_t count) {
  static uint8_t data[100000];
  uint32_t seen[256] = {0};
  say("random_error", boardsmith_port.random(NULL, data, count));
  for (uint32_t i = 0; i < count; i++) {
    seen[data[i]]++;
  }
  uint32_t least = UINT32_MAX;
  uint32_t most = 0;
  for (uint32_t i = 0; i < 256U; i++) {
    least = (seen[i] < least) ? seen[i] : least;
    most = (seen[i] > most) ? seen[i] : most;
  }
  (void)printf("%s ", name);
  for (uint32_t i = 0; i < 16U; i++) {
    (void)printf("%02x", data[i]);
  }
  (void)printf("\nleast %u\nmost %u\ndrawn %u\n", least, most, drawn);
}

static void random_numbers(void) {
  print_random("first", 1);
  print_random("random", 100000);
}

static void broken_generator(void) {
  generator = -1;
  random_numbers();
}

// The record that is made at the start after a reset.
static void watchdog_in_call(void) {
  long_call();
  after_reset(BARE_RESET_WATCHDOG);
}

static void watchdog_outside_call(void) {
  stuck_after_call();
  after_reset(BARE_RESET_WATCHDOG);
}

static void unknown_reset_in_call(void) {
  long_call();
  after_reset(-1);
}

static void unknown_reset_outside_call(void) {
  stuck_after_call();
  after_reset(-1);
}

static void pin_reset_in_call(void) {
  long_call();
  after_reset(BARE_RESET_PIN);
}

static void meant_reset(void) {
  if (setjmp(reset) == 0) {
    boardsmith_port.stop(NULL, PORT_STOP_CLOSED, 0);
  }
  after_reset(BARE_RESET_WATCHDOG);  // as on a chip with only the watchdog's reset
}

static void fault_in_call(void) {
  long_call();
  fault_keep(FAULT_HARDWARE, 3, NULL);
}

// The arguments: the counter's rate and reach, and milliseconds.
static void watchdog_start(void) {
  dog.hz = argument(2);
  dog.most = argument(3);
  bare_watchdog_start(argument(4));
  say("counts", dog_counts);
}

static const struct {
  const char* name;
  void (*play)(void);
} scenes[] = {
    {"idle", idle},
    {"busy-loop", busy_loop},
    {"stuck", stuck},
    {"call", long_call},
    {"endless-call", endless_call},
    {"endless-call-without-budget", endless_call_without_budget},
    {"short-budget", short_budget},
    {"endless-sample", endless_sample},
    {"stuck-after-call", stuck_after_call},
    {"slow-uart", slow_uart},
    {"dead-uart", dead_uart},
    {"random", random_numbers},
    {"broken-generator", broken_generator},
    {"watchdog-start", watchdog_start},
    {"watchdog-in-call", watchdog_in_call},
    {"watchdog-outside-call", watchdog_outside_call},
    {"unknown-reset-in-call", unknown_reset_in_call},
    {"unknown-reset-outside-call", unknown_reset_outside_call},
    {"pin-reset-in-call", pin_reset_in_call},
    {"meant-reset", meant_reset},
    {"fault-in-call", fault_in_call},
};

int main(int argc, char** argv) {
  arguments = argv;
  argument_count = argc;
  seed = argument(2);
  (void)memset(&kept, 0xA5, sizeof kept);  // RAM at power-on
  (void)boardsmith_port.init(NULL);
  if (setjmp(reset) == 0) {
    for (uint32_t i = 0; i < (sizeof scenes / sizeof scenes[0]); i++) {
      if ((argc > 1) && (strcmp(scenes[i].name, argv[1]) == 0)) {
        scenes[i].play();
      }
    }
  }
  say("ticks", ticks);
  say("unfed", longest);
  uint32_t bytes = 0;
  const uint8_t* record = fault_record(&bytes);
  if (record != NULL) {
    say("reason", record[8]);
    say("function", get(16, 4));
    say("elapsed", (int64_t)get(20, 4));
  }
  return 0;
}
