// SPDX-License-Identifier: Apache-2.0
//
// What core.c, time.c and mpu_v*.c owe each other, of every Cortex-M.
#ifndef BOARDSMITH_CORTEXM_H_
#define BOARDSMITH_CORTEXM_H_

#include <stdint.h>

// All before it has had its effect: on memory, on the system control space, on the instructions that follow.
static inline void barrier(void) { __asm volatile("dsb\n isb" ::: "memory"); }

// Sleeps until an interrupt is pending, masked or not.
static inline void wait_for_interrupt(void) { __asm volatile("dsb\n wfi\n isb" ::: "memory"); }

// ---- What time.c gives ---------------------------------------------------------------------------------------------

// Starts the tick, and the counter behind cpu_ticks.
void cortexm_time_on(void);

// From the tick's interrupt, first.
void cortexm_time_tick(void);

// A fault came: a tick that it kept out may not be the only one that is missing.
void cortexm_time_at_fault(void);

// ---- What mpu_v7.c or mpu_v8.c gives -------------------------------------------------------------------------------

// Where the core has a memory protection unit, from now on code is read-only, RAM is not executable, the guards are not
// there, and the first 256 bytes are not there if the board's memory map has nothing in them, else read-only. Weak
// default in core.c, for cores without such a unit: nothing. A window of RAM that may be executed for a while is
// one more region, between the areas and the guards (ARMv7-M), or one that its area is cut in two around (ARMv8-M).
void cortexm_protect(void);

// From the linker script: BARE_GUARD_BYTES below each stack.
extern uint8_t bare_guard_start[];
extern uint8_t bare_handler_guard_start[];

#endif  // BOARDSMITH_CORTEXM_H_
