// SPDX-License-Identifier: Apache-2.0
//
// Declarations shared by the files of this folder, for every Cortex-M.
#ifndef BOARDSMITH_CORTEXM_H_
#define BOARDSMITH_CORTEXM_H_

// The alignment of the vector table: the next power of two above its size (ARMv7-M ARM B3.2.5).
#if (CHIP_IRQS) > 240
#define CORTEXM_VECTORS_LOG2 11
#elif (CHIP_IRQS) > 112
#define CORTEXM_VECTORS_LOG2 10
#elif (CHIP_IRQS) > 48
#define CORTEXM_VECTORS_LOG2 9
#else
#define CORTEXM_VECTORS_LOG2 8
#endif

#ifndef __ASSEMBLER__
#include <stdbool.h>
#include <stdint.h>

// 1 on ARMv7-M and ARMv8-M, which have fault status registers, configurable faults and perhaps caches; 0 on ARMv6-M.
#if defined(__ARM_ARCH_6M__)
#define CORTEXM_FULL 0
#else
#define CORTEXM_FULL 1
#endif

// Completes all earlier effects: on memory, on the system control space, on the instructions that follow.
static inline void barrier(void) { __asm volatile("dsb\n isb" ::: "memory"); }

// Sleeps until an interrupt is pending, masked or not.
static inline void wait_for_interrupt(void) { __asm volatile("dsb\n wfi\n isb" ::: "memory"); }

// ---- time.c ---------------------------------------------------------------------------------------------------------

// Starts the tick, and the counter behind cpu_ticks.
void cortexm_time_on(void);

// Called by the tick's interrupt. Returns true if there is a fault to report.
bool cortexm_tick(void);

// Called by a fault: if it delayed a tick, further ticks may be missing.
void cortexm_time_at_fault(void);

// ---- caches.c, for cores with CORTEXM_FULL --------------------------------------------------------------------------

// Enables the caches that the core has, after invalidating them.
void cortexm_caches_on(void);

// Writes back and invalidates the data cache if it is on.
void cortexm_caches_clean(void);

// Returns BARE_FLAG_ICACHE and BARE_FLAG_DCACHE for the caches that are on.
uint32_t cortexm_caches_flags(void);

// Invalidates the instruction cache if the core has one. Only with BOARDSMITH_UPLOAD_BYTES
// or BOARDSMITH_COPIED_REGIONS.
void cortexm_caches_code(void);

// ---- mpu_v7.c, mpu_v8.c ---------------------------------------------------------------------------------------------

// Configures the memory protection unit: code becomes read-only, RAM not executable, and the guards inaccessible. The
// first 256 bytes become inaccessible if the board's memory map has nothing in them, else read-only. Weak default in
// core.c, for cores without such a unit: no effect.
void cortexm_protect(void);

// Makes the upload window executable (on is 1) or not (0). Weak default in upload.c: no effect.
void cortexm_window(int32_t on);

// From the linker script: the guards of BARE_GUARD_BYTES below each stack, and the lower end of the handlers' stack.
extern uint8_t bare_guard_start[];
extern uint8_t bare_handler_guard_start[];
extern uint8_t bare_handler_stack_start[];

#endif  // __ASSEMBLER__
#endif  // BOARDSMITH_CORTEXM_H_
