// SPDX-License-Identifier: Apache-2.0
//
// Time of RISC-V in machine mode, and what the core does while it waits: one decision, because a counter that stands
// still in sleep tells a wrong time.
//
// mtime is the tick and what wakes the core; it always goes on. The counter behind cpu_ticks is mcycle where it counts
// what the board file says, else mtime. Some cores stop mcycle in WFI (the privileged architecture, section 3.1.10, leaves
// it to them): then the core waits awake. Both are measured at the start.
//
// Sources: as core.c.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bare.h"
#include "cpu/riscv/riscv.h"

#define MTIMECMP ((CLINT_BASE) + 0x4000U)
#define MTIME ((CLINT_BASE) + 0xbff8U)

#define MIE_MTIE ((uintptr_t)1U << 7)

#define TICK_COUNTS ((uint32_t)(MTIME_HZ) / BARE_TICK_HZ)  // of mtime
#define WAIT_STEPS 1000000U                                // for something that a clock does

#define CALIBRATION_COUNTS (((uint32_t)(MTIME_HZ) + 999U) / 1000U)  // of mtime: a millisecond
#define CALIBRATION_OFF 50U                                         // by at most a 50th

static struct {
  uint64_t due;       // mtime when the next tick is
  uint64_t counted;   // mtime up to which ticks have been counted
  uint32_t carry;     // counts of mtime that cpu_ticks_align found between two ticks
  bool counts_mtime;  // cpu_ticks is mtime, because mcycle is not what the board file says
  bool sleeps;        // cpu_idle sleeps: cpu_ticks goes on in it
} timer;

// ---- Counters ----------------------------------------------------------------------------------------------------

static uint64_t mtime(void) {
#if __riscv_xlen == 64
  return *(volatile uint64_t*)(uintptr_t)MTIME;
#else
  uint32_t high = REG32(MTIME + 4U);
  uint32_t low = REG32(MTIME);
  const uint32_t again = REG32(MTIME + 4U);
  if (again != high) {  // the low half wrapped in between: it is small now, and stays so for minutes
    high = again;
    low = REG32(MTIME);
  }
  return ((uint64_t)high << 32) | low;
#endif
}

static void set_mtimecmp(uint64_t at) {
#if __riscv_xlen == 64
  *(volatile uint64_t*)(uintptr_t)MTIMECMP = at;
#else
  REG32(MTIMECMP + 4U) = UINT32_MAX;  // no interrupt by half of a new value
  REG32(MTIMECMP) = (uint32_t)at;
  REG32(MTIMECMP + 4U) = (uint32_t)(at >> 32);
#endif
}

static uint64_t mcycle(void) {
#if __riscv_xlen == 64
  return READ_CSR("mcycle");
#else
  uint32_t high = READ_CSR("mcycleh");
  uint32_t low = READ_CSR("mcycle");
  const uint32_t again = READ_CSR("mcycleh");
  if (again != high) {
    high = again;
    low = READ_CSR("mcycle");
  }
  return ((uint64_t)high << 32) | low;
#endif
}

// Waits until mtime reaches at; returns what it is then. Gives up if it stands still.
static uint64_t wait_mtime(uint64_t at) {
  uint64_t now = mtime();
  uint64_t before = now;
  for (uint32_t still = 0; (now < at) && (still < WAIT_STEPS); still++) {
    now = mtime();
    if (now != before) {
      before = now;
      still = 0;
    }
  }
  return now;
}

// The same asleep. mtime counts, as wait_mtime has found.
static uint64_t sleep_mtime(uint64_t at) {
  set_mtimecmp(at);
  while (mtime() < at) {
    wait_for_interrupt();
  }
  return mtime();
}

// Whether mcycle counts BOARDSMITH_TIMER_HZ, measured against mtime for a millisecond, which wait waits for. It does not
// where a core keeps it still, always or in sleep, and in an emulator that gives the host's counter instead of a virtual
// one.
static bool mcycle_is_right(uint64_t (*wait)(uint64_t at)) {
  const uint64_t edge = wait_mtime(mtime() + 1U);
  const uint64_t from = mcycle();
  const uint64_t end = wait(edge + CALIBRATION_COUNTS);
  const uint64_t passed = mcycle() - from;
  if ((end < (edge + CALIBRATION_COUNTS)) || (passed > UINT32_MAX)) {
    return false;
  }
  const uint64_t counted = passed * (uint32_t)(MTIME_HZ);
  const uint64_t right = (end - edge) * (uint32_t)(BOARDSMITH_TIMER_HZ);
  const uint64_t margin = right / CALIBRATION_OFF;
  return (counted >= (right - margin)) && (counted <= (right + margin));
}

uint64_t cpu_ticks(void) { return timer.counts_mtime ? mtime() : mcycle(); }

uint32_t cpu_ticks_hz(void) { return timer.counts_mtime ? (uint32_t)(MTIME_HZ) : (uint32_t)(BOARDSMITH_TIMER_HZ); }

// ---- The tick ----------------------------------------------------------------------------------------------------

static void tick_restart(uint64_t now) {
  timer.counted = now;
  timer.due = now + TICK_COUNTS;
  set_mtimecmp(timer.due);
}

// All that was due is counted: time does not stand still while interrupts are masked.
void riscv_time_tick(const fault_context_t* at) {
  const uint64_t now = mtime();
  while (timer.due <= now) {
    timer.counted = timer.due;
    timer.due += TICK_COUNTS;
    set_mtimecmp(timer.due);
    bare_tick(at);
  }
}

void cpu_ticks_align(void) {
  const uint32_t state = cpu_lock();
  const uint64_t now = wait_mtime(mtime() + 1U);
  uint64_t open = (now - timer.counted) + timer.carry;
  tick_restart(now);
  for (; open >= TICK_COUNTS; open -= TICK_COUNTS) {
    bare_tick(NULL);
  }
  timer.carry = (uint32_t)open;
  cpu_unlock(state);
}

void cpu_idle(void) {
  if (timer.sleeps) {
    wait_for_interrupt();
  }
}

void riscv_time_on(void) {
  SET_CSR("mie", MIE_MTIE);
  timer.counts_mtime = !mcycle_is_right(wait_mtime);
  timer.sleeps = timer.counts_mtime || mcycle_is_right(sleep_mtime);
  tick_restart(mtime());
}
