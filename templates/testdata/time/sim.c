// SPDX-License-Identifier: Apache-2.0
//
// The part of the simulated timers (sim.h) that all cores share, and a program that idles and works on a core and
// prints the port's counts, one "name value" a line.
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"

enum { ACCESS_CYCLES = 3, ENTRY_CYCLES = 12 };
#define LOOP_CYCLES ((uint64_t)(BOARDSMITH_TIMER_HZ) / 200000U)

static uint64_t now;  // cycles of the core's clock, awake or asleep
static uint32_t masked = 1;
static int serving;
static uint32_t ticks;
static char** conditions;
static int condition_count;

static struct {
  uint32_t address;
  volatile uint32_t value;
  uint32_t was;
} last;

int sim_is(const char* condition) {
  for (int i = 0; i < condition_count; i++) {
    if (strcmp(conditions[i], condition) == 0) {
      return 1;
    }
  }
  return 0;
}

// ---- Time --------------------------------------------------------------------------------------------------------

static void settle(void) {
  if (last.value != last.was) {
    last.was = last.value;
    model_written(last.address, last.value);
  }
}

static void serve(void) {
  if ((masked == 0U) && (serving == 0) && model_pending()) {
    serving = 1;
    now += ENTRY_CYCLES;
    model_pass(ENTRY_CYCLES, 0);
    model_interrupt();
    settle();
    serving = 0;
  }
}

void sim_pass(uint64_t cycles) {
  settle();
  now += cycles;
  model_pass(cycles, 0);
  serve();
}

// Something else wakes the core too, now and then: a byte that has come.
void sim_sleep(void) {
  static uint64_t wakes;
  settle();
  if (model_pending()) {
    return;
  }
  wakes++;
  const uint64_t byte = 1000U + ((wakes * 7919U) % ((uint64_t)(BOARDSMITH_TIMER_HZ) / 50U));
  const uint64_t timer = model_until_pending();
  const uint64_t cycles = (timer < byte) ? timer : byte;
  now += cycles;
  model_pass(cycles, 1);
}

volatile uint32_t* sim_register(uint32_t address) {
  sim_pass(ACCESS_CYCLES);
  last.address = address;
  last.value = model_read(address);
  last.was = last.value;
  return &last.value;
}

uint32_t cpu_lock(void) {
  const uint32_t before = masked;
  masked = 1;
  return before;
}

void cpu_unlock(uint32_t state) {
  masked = state;
  settle();
  serve();
}

// ---- The rest of the firmware ------------------------------------------------------------------------------------

uint32_t chip_core_hz(void) { return BOARDSMITH_CORE_HZ; }

bool bare_tick(void) {
  ticks++;
  return false;
}

void bare_tick_fault(const fault_context_t* at) {
  (void)at;
  abort();
}

static void complete(void* ctx, fault_context_t* at) {
  (void)ctx;
  (void)at;
}

const boardsmith_port_t boardsmith_port = {.complete = complete};

// As bare.c waits for bytes.
static void idle(uint64_t cycles) {
  const uint64_t since = now;
  while ((now - since) < cycles) {
    const uint32_t state = cpu_lock();
    cpu_idle();
    cpu_unlock(state);
    sim_pass(LOOP_CYCLES);
  }
}

static void work(uint64_t cycles) {
  const uint64_t since = now;
  while ((now - since) < cycles) {
    sim_pass(LOOP_CYCLES);
  }
}

// Runs it and prints the port's count and the actual time, in microseconds.
static void measure(const char* name, void (*what)(uint64_t), uint64_t cycles) {
  cpu_ticks_align();
  const uint64_t from = cpu_ticks();
  const uint64_t since = now;
  what(cycles);
  const uint64_t to = cpu_ticks();
  const uint64_t was = now - since;
  const uint64_t known = (from != UINT64_MAX) && (to != UINT64_MAX);
  (void)printf("%s_us %lld\n", name, known ? (long long)(((to - from) * 1000000U) / cpu_ticks_hz()) : -1LL);
  (void)printf("%s_real_us %llu\n", name, (unsigned long long)((was * 1000000U) / (BOARDSMITH_TIMER_HZ)));
}

int main(int argc, char** argv) {
  conditions = &argv[1];
  condition_count = argc - 1;
  model_start();
  cpu_unlock(0);
  const uint64_t second = BOARDSMITH_TIMER_HZ;
  const uint32_t ticks_before = ticks;
  const uint64_t since = now;
  measure("idle", idle, second);
  measure("work", work, second / 4U);
  measure("moment", work, second / 10000U);
  (void)printf("ticks %lu\n", (unsigned long)(ticks - ticks_before));
  (void)printf("ticks_real %llu\n", (unsigned long long)((now - since) / (second / BARE_TICK_HZ)));
  return 0;
}
