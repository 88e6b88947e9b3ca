// SPDX-License-Identifier: Apache-2.0
//
// Time and idling of every Cortex-M. They are in one file because a counter that stops in sleep gives wrong times.
//
// SysTick is the tick and the counter of cpu_ticks, and it wakes the core. It counts the core's clock, also in sleep,
// except on chips that stop that clock in WFI (CPU_SLEEP_STOPS_TICK), where the core does not sleep. The DWT's cycle
// counter is not used: it stops while a Cortex-M7 sleeps, and on other cores that depends on the chip or on a connected
// debugger.
//
// Sources: as core.c, sections of DDI 0403E. CYCCNT stops in WFI: RM0433 §7 (CSleep stops the CPU's clock), and
// observed on STM32F7 and H7.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"
#include "port.h"

#define SYST_CSR REG32(0xE000E010U)  // B3.3: SysTick
#define SYST_RVR REG32(0xE000E014U)
#define SYST_CVR REG32(0xE000E018U)
#define ICSR REG32(0xE000ED04U)  // B3.2: system control block
#define SHPR3 REG32(0xE000ED20U)

#define SYST_CSR_ON 7U  // ENABLE, TICKINT, CLKSOURCE: the core's clock
#define ICSR_PENDSTCLR (1U << 25)
#define ICSR_PENDSTSET (1U << 26)
#define TICK_PRIORITY 0x40000000U  // below faults, above external interrupts

#ifndef CPU_SLEEP_STOPS_TICK
#define CPU_SLEEP_STOPS_TICK 0
#endif

#define SYST_COUNTS_MAX 0x1000000U
_Static_assert((((uint32_t)(BOARDSMITH_CORE_HZ) / BARE_TICK_HZ) >= 1000U) &&
                   (((uint32_t)(BOARDSMITH_CORE_HZ) / BARE_TICK_HZ) <= SYST_COUNTS_MAX),
               "core_hz: out of range: SysTick counts a hundredth of a second in 24 bits");

// ---- State -------------------------------------------------------------------------------------------------------

typedef struct cortexm_timer {
  uint64_t counts;         // up to the last edge
  uint32_t period;         // counts in a tick
  uint32_t late_below;     // SYST_CVR in a handler that runs late
  uint32_t part;           // of a tick that cpu_ticks_align cut off, in counts
  volatile uint32_t late;  // an edge was handled so late that others may be missing
} cortexm_timer_t;

static cortexm_timer_t timer;

// ---- Idling ------------------------------------------------------------------------------------------------------

void cpu_idle(void) {
#if (CPU_SLEEP_STOPS_TICK) == 0
  wait_for_interrupt();
#endif
}

// ---- Time --------------------------------------------------------------------------------------------------------

// Returns the counts since the last edge that the handler has counted.
static uint32_t since_edge(void) {
  uint32_t left = SYST_CVR;
  const uint32_t missed = ((ICSR & ICSR_PENDSTSET) != 0U) ? timer.period : 0U;
  if (missed != 0U) {
    left = SYST_CVR;  // the first read may precede the edge
  }
  return ((timer.period - 1U) - left) + missed;
}

// Waits until SysTick has loaded its first value: a few cycles, except in an emulator without a steady clock.
static void wait_for_edge(void) {
  for (uint32_t i = 0; (SYST_CVR == 0U) && (i < 1000000U); i++) {
  }
}

void cortexm_time_on(void) {
  timer.period = chip_core_hz() / BARE_TICK_HZ;
  timer.late_below = (timer.period - 1U) - (timer.period / 64U);
  SHPR3 = (SHPR3 & 0x00FFFFFFU) | TICK_PRIORITY;
  SYST_RVR = timer.period - 1U;
  SYST_CVR = 0;
  SYST_CSR = SYST_CSR_ON;
  wait_for_edge();
}

uint64_t cpu_ticks(void) {
  const uint32_t state = cpu_lock();
  uint64_t counts = UINT64_MAX;
  const uint32_t on = SYST_CSR & SYST_CSR_ON;
  if ((on == SYST_CSR_ON) && (SYST_RVR == (timer.period - 1U)) && (timer.late == 0U)) {
    counts = timer.counts + since_edge();
  }
  cpu_unlock(state);
  return counts;
}

uint32_t cpu_ticks_hz(void) { return chip_core_hz(); }

// Also advances the time budget and the watchdog: many short measurements, each of which restarts the tick, would
// otherwise prevent it.
void cpu_ticks_align(void) {
  const uintptr_t caller = (uintptr_t)__builtin_return_address(0) & ~(uintptr_t)1U;
  const uint32_t state = cpu_lock();
  const uint32_t past = since_edge();
  ICSR = ICSR_PENDSTCLR;  // included in past
  timer.counts += past;
  timer.late = 0;
  timer.part += past;
  while (timer.part >= timer.period) {
    timer.part -= timer.period;
    if (bare_tick()) {
      fault_context_t at = {.flags = FAULT_PC_VALID | FAULT_SP_VALID, .pc = caller - 2U, .lr = caller};
      at.sp = (uintptr_t)__builtin_dwarf_cfa();
      boardsmith_port.complete(boardsmith_port.ctx, &at);
      bare_tick_fault(&at);
    }
  }
  SYST_CVR = 0;
  wait_for_edge();
  cpu_unlock(state);
}

// Only one edge can be pending, so the number of edges is unknown: counts one, and sets late if it runs more than a
// 64th of a tick after the edge. Correct code masks interrupts for a shorter time.
bool cortexm_tick(void) {
  timer.counts += timer.period;
  if (SYST_CVR < timer.late_below) {
    timer.late = 1;
  }
  return bare_tick();
}

void cortexm_time_at_fault(void) {
  if ((ICSR & ICSR_PENDSTSET) != 0U) {
    timer.late = 1;  // the tick was delayed for an unknown time
  }
}
