// SPDX-License-Identifier: Apache-2.0
//
// Declarations shared by the files of this folder, and their requirements for a RISC-V chip besides bare.h: one hart in
// machine mode, with a CLINT (mtime, mtimecmp) and a PLIC as in the SiFive manuals and the RISC-V platform
// specifications. Cores with a CLIC or another interrupt controller need another CPU file.
//
// A board file's `defines`:
//   CLINT_BASE      core-local interruptor: mtimecmp of hart 0 at +0x4000, mtime at +0xbff8
//   MTIME_HZ        counts of mtime per second
//   PLIC_BASE       interrupt controller
//   PLIC_CONTEXT    the PLIC's context of hart 0 in machine mode, default 0
//   BARE_GUARD_BYTES  size of the guard below the stack, a power of two, at least 16; 0 (default): none, an overflow is
//                     then detected at the next tick or fault
#ifndef BOARDSMITH_RISCV_H_
#define BOARDSMITH_RISCV_H_

// Offsets in a saved frame, in words: x1 to x31, then these.
#define FRAME_PC 31
#define FRAME_CAUSE 32
#define FRAME_VALUE 33
#define FRAME_STATUS 34
#define FRAME_WORDS 36  // a multiple of 16 bytes

#ifndef __ASSEMBLER__

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"

#define READ_CSR(name)                                 \
  __extension__({                                      \
    uintptr_t value_;                                  \
    __asm__ volatile("csrr %0, " name : "=r"(value_)); \
    value_;                                            \
  })
#define WRITE_CSR(name, value) __asm__ volatile("csrw " name ", %0" ::"r"((uintptr_t)(value)) : "memory")
#define SET_CSR(name, bits) __asm__ volatile("csrs " name ", %0" ::"r"((uintptr_t)(bits)) : "memory")

// Sleeps until an interrupt is pending that mie enables, masked or not.
static inline void wait_for_interrupt(void) { __asm__ volatile("wfi" ::: "memory"); }

// State at a trap. Written by bare_trap (trap.S), which also saves the floating-point registers.
typedef struct riscv_frame {
  uintptr_t x[31];   // x1 to x31
  uintptr_t pc;      // mepc
  uintptr_t cause;   // mcause
  uintptr_t value;   // mtval
  uintptr_t status;  // mstatus
  uintptr_t unused;
} riscv_frame_t;

_Static_assert(sizeof(riscv_frame_t) == FRAME_WORDS * sizeof(uintptr_t), "must match the frame of trap.S");

// Resets the chip. If it returns, because a reset is impossible or delayed, the firmware restarts at bare_entry. Weak
// default: returns at once.
void chip_reset(void);

#if (BOARDSMITH_UPLOAD_BYTES) > 0
// The errno of uploaded code's C library, which lies at the thread pointer. The linker script places this variable
// there; contract.ld checks that.
extern _Thread_local uint8_t cpu_uploaded_errno[16];
#endif

// Called by entry.S: sets up .data and .bss, then calls main. Called by bare_trap: handles every trap.
_Noreturn void riscv_start(void);
void riscv_trap(const riscv_frame_t* frame);

// Restarts at bare_entry, with interrupts masked.
_Noreturn void riscv_restart(void);

// ---- time.c --------------------------------------------------------------------------------------------------------

// Starts the tick, enables its interrupt, and selects the counter of cpu_ticks. Interrupts are masked.
void riscv_time_on(void);

// Called by every interrupt, with interrupts masked: counts all due ticks. Returns true if bare_tick does.
bool riscv_time_tick(void);

#endif  // __ASSEMBLER__

#endif  // BOARDSMITH_RISCV_H_
