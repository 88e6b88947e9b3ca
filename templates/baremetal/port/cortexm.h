// SPDX-License-Identifier: Apache-2.0
//
// What cortexm.c and cortexm_time.c owe each other, of every Cortex-M.
#ifndef BOARDSMITH_CORTEXM_H_
#define BOARDSMITH_CORTEXM_H_

// All before it has had its effect: on memory, on the system control space, on the instructions that follow.
static inline void barrier(void) { __asm volatile("dsb\n isb" ::: "memory"); }

// Sleeps until an interrupt is pending, masked or not.
static inline void wait_for_interrupt(void) { __asm volatile("dsb\n wfi\n isb" ::: "memory"); }

// ---- What cortexm_time.c gives -----------------------------------------------------------------------------------

// Starts the tick, and the counter behind cpu_ticks.
void cortexm_time_on(void);

// From the tick's interrupt, first.
void cortexm_time_tick(void);

// A fault came: a tick that it kept out may not be the only one that is missing.
void cortexm_time_at_fault(void);

#endif  // BOARDSMITH_CORTEXM_H_
