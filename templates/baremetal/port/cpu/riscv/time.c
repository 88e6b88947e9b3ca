// SPDX-License-Identifier: Apache-2.0
//
// Time and idling of RISC-V in machine mode. They are in one file because a counter that stops in sleep gives wrong
// times.
//
// mtime, which never stops, is the tick and wakes the core. The counter of cpu_ticks is mcycle if it has the rate of
// the board file, else mtime. Some cores stop mcycle in WFI (the privileged architecture, section 3.1.10, allows it):
// then the core does not sleep. Both are measured at the start.
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
#define WAIT_STEPS 1000000U                                // for a change of a clock

#define CALIBRATION_COUNTS (((uint32_t)(MTIME_HZ) + 999U) / 1000U)  // of mtime: a millisecond
#define CALIBRATION_OFF 50U                                         // tolerance: a 50th

_Static_assert((MTIME_HZ) >= (10U * BARE_TICK_HZ), "MTIME_HZ: too low for ticks of a hundredth of a second");

static struct {
  uint64_t due;       // mtime of the next tick
  uint64_t counted;   // mtime of the last counted tick
  uint32_t carry;     // counts of mtime between two ticks, from cpu_ticks_align
  bool counts_mtime;  // cpu_ticks is mtime, because mcycle has another rate than in the board file
  bool sleeps;        // cpu_idle sleeps, because cpu_ticks continues
} timer;

// ---- Counters ----------------------------------------------------------------------------------------------------

static uint64_t mtime(void) {
#if __riscv_xlen == 64
  return *(volatile uint64_t*)(uintptr_t)MTIME;
#else
  uint32_t high = REG32(MTIME + 4U);
  uint32_t low = REG32(MTIME);
  const uint32_t second = REG32(MTIME + 4U);
  if (second != high) {  // the low half wrapped in between: it does not wrap again for minutes
    high = second;
    low = REG32(MTIME);
  }
  return ((uint64_t)high << 32) | low;
#endif
}

static void set_mtimecmp(uint64_t at) {
#if __riscv_xlen == 64
  *(volatile uint64_t*)(uintptr_t)MTIMECMP = at;
#else
  REG32(MTIMECMP + 4U) = UINT32_MAX;  // prevents an interrupt by a half-written value
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
  const uint32_t second = READ_CSR("mcycleh");
  if (second != high) {
    high = second;
    low = READ_CSR("mcycle");
  }
  return ((uint64_t)high << 32) | low;
#endif
}

// Waits until mtime reaches at; returns mtime. Gives up if it stops.
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

// The same, asleep. wait_mtime has checked that mtime counts.
static uint64_t sleep_mtime(uint64_t at) {
  set_mtimecmp(at);
  while (mtime() < at) {
    wait_for_interrupt();
  }
  return mtime();
}

// Returns whether mcycle has the rate BOARDSMITH_TIMER_HZ, compared with mtime for a millisecond in the function wait.
// False if the core stops it, always or in sleep, or if an emulator returns the host's counter.
static bool mcycle_has_rate(uint64_t (*wait)(uint64_t at)) {
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

// Several may be due: time continues while interrupts are masked.
bool riscv_time_tick(void) {
  const uint64_t now = mtime();
  bool fault = false;
  while ((timer.due <= now) && !fault) {
    timer.counted = timer.due;
    timer.due += TICK_COUNTS;
    set_mtimecmp(timer.due);
    fault = bare_tick();
  }
  return fault;
}

void cpu_ticks_align(void) {
  const uint32_t state = cpu_lock();
  const uint64_t now = wait_mtime(mtime() + 1U);
  uint64_t open = (now - timer.counted) + timer.carry;
  tick_restart(now);
  for (; open >= TICK_COUNTS; open -= TICK_COUNTS) {
    if (bare_tick()) {
      bare_tick_fault(NULL);
    }
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
  timer.counts_mtime = !mcycle_has_rate(wait_mtime);
  timer.sleeps = timer.counts_mtime || mcycle_has_rate(sleep_mtime);
  tick_restart(mtime());
}
