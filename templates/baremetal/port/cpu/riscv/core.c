// SPDX-License-Identifier: Apache-2.0
//
// The CPU part of a port (bare.h) for RISC-V in machine mode: start, traps, stack guard by physical memory protection.
// Time and idling are in time.c.
//
// Register names and numbers: "The RISC-V Instruction Set Manual, Volume II: Privileged Architecture", 20211203,
// chapter 3; CLINT and PLIC: "SiFive FE310-G000 Manual" v3p2, chapters 9 and 10, which virt of QEMU follows. Supports
// neither supervisor mode nor a second hart, which entry.S parks.
#include "cpu/riscv/riscv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bare.h"
#include "bare_model.h"
#include "port.h"

#ifndef PLIC_CONTEXT
#define PLIC_CONTEXT 0
#endif
#ifndef BARE_GUARD_BYTES
#define BARE_GUARD_BYTES 0
#endif
_Static_assert(((BARE_GUARD_BYTES) == 0) ||
                   (((BARE_GUARD_BYTES) >= 16) && (((BARE_GUARD_BYTES) & ((BARE_GUARD_BYTES)-1)) == 0)),
               "BARE_GUARD_BYTES: not 0, or a power of two of at least 16: a guard is a region");

#define PLIC_PRIORITY(id) ((PLIC_BASE) + (4U * (id)))
#define PLIC_ENABLE(id) ((PLIC_BASE) + 0x2000U + (0x80U * (PLIC_CONTEXT)) + (4U * ((id) / 32U)))
#define PLIC_THRESHOLD ((PLIC_BASE) + 0x200000U + (0x1000U * (PLIC_CONTEXT)))
#define PLIC_CLAIM (PLIC_THRESHOLD + 4U)

#define MSTATUS_MIE ((uintptr_t)1U << 3)
#define MSTATUS_FS ((uintptr_t)3U << 13)
#define MIE_MEIE ((uintptr_t)1U << 11)
#define MISA_F ((uintptr_t)1U << ('F' - 'A'))

#define CAUSE_INTERRUPT ((uintptr_t)1U << (__riscv_xlen - 1))  // mcause: the trap is an interrupt
enum {
  IRQ_TIMER = 7,
  IRQ_EXTERNAL = 11,
};
// Set in the number of an unexpected local interrupt, as in mcause, to distinguish it from the PLIC's.
#define LOCAL_INTERRUPT 0x80000000U

// pmpcfg fields (§3.7.1).
enum { PMP_R = 1, PMP_X = 4, PMP_TOR = 8, PMP_LOCK = 0x80 };
#define PMP_ALIGN ((uintptr_t)4096U)

#define CLAIMS_MAX 16U  // external interrupts handled in one trap

// From the linker script, besides those in bare.h.
extern uint8_t bare_guard_start[];
extern const uint8_t bare_code_limit[];
extern uint8_t bare_handler_stack_start[];

// ---- Interrupts --------------------------------------------------------------------------------------------------

// The state is 0 if interrupts were not masked.
uint32_t cpu_lock(void) {
  uintptr_t before;
  __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(before)::"memory");
  return ((before & MSTATUS_MIE) != 0U) ? 0U : 1U;
}

void cpu_unlock(uint32_t state) {
  if (state == 0U) {
    SET_CSR("mstatus", MSTATUS_MIE);
  }
}

void port_restore(void) {
#ifdef __riscv_flen
  __asm__ volatile("fscsr zero" ::: "memory");
#endif
  SET_CSR("mstatus", MSTATUS_MIE);
}

void cpu_irq_enable(uint32_t number) {
  REG32(PLIC_ENABLE(number)) |= 1U << (number % 32U);
  REG32(PLIC_PRIORITY(number)) = 1U;
}

// Sets the priority to 0, which never interrupts. Clearing the enable bit would be wrong: the PLIC then ignores the
// completion, and the interrupt stays in service.
void cpu_irq_disable(uint32_t number) { REG32(PLIC_PRIORITY(number)) = 0U; }

// ---- Faults ------------------------------------------------------------------------------------------------------

static bool in(uintptr_t address, const uint8_t* start, const uint8_t* end) {
  return (address >= (uintptr_t)start) && (address < (uintptr_t)end);
}

// Stores the part of the stack to record: from sp up, or all of it if sp is below its lower end.
static void find_stack(fault_context_t* at) {
  const uint8_t* low = bare_stack_start;
  const uint8_t* end = bare_stack_end;
  if (in(at->sp, bare_handler_stack_start, bare_handler_stack_end)) {
    low = bare_handler_stack_start;
    end = bare_handler_stack_end;
  }
  if ((at->sp >= (uintptr_t)end) || ((at->sp & 3U) != 0U)) {
    return;
  }
  at->flags |= FAULT_SP_VALID;
  at->stack = (at->sp < (uintptr_t)low) ? low : (const uint8_t*)at->sp;
  at->stack_size_bytes = (uint32_t)(end - at->stack);
}

// Returns whether the thread's stack has overflowed, from sp at the trap; also if a large frame stepped over the guard.
static bool overflowed(uintptr_t sp) {
  return (sp < (uintptr_t)bare_stack_start) && (((uintptr_t)bare_stack_start - sp) <= BARE_FRAME_MAX_BYTES);
}

static bool is_stack_fault(const riscv_frame_t* f) {
  const bool touches = (f->cause == 5U) || (f->cause == 7U);  // load and store access faults
  return overflowed(f->x[1]) || (touches && in(f->value, bare_guard_start, bare_stack_start));
}

// ---- Traps -------------------------------------------------------------------------------------------------------

// The state at a trap, built only for a fault record: the tick interrupts measurements.
typedef struct trapped {
  fault_context_t at;
  uintptr_t extra[2];
} trapped_t;

static void look_at(trapped_t* seen, const riscv_frame_t* frame) {
  seen->extra[0] = frame->value;
  seen->extra[1] = frame->status;
  seen->at = (fault_context_t){
      .flags = FAULT_PC_VALID,
      .pc = frame->pc,
      .lr = frame->x[0],
      .sp = frame->x[1],
      .status = frame->cause,
      .regs = frame->x,
      .reg_count = 31,
      .extra = seen->extra,
      .extra_count = 2,
  };
  find_stack(&seen->at);
}

// Not inlined, like the next, so that expected interrupts do not need its stack frame.
_Noreturn static void __attribute__((noinline))
report(fault_reason_t reason, uint32_t code, const riscv_frame_t* frame) {
  trapped_t seen;
  look_at(&seen, frame);
  bare_fault(reason, code, &seen.at);
}

_Noreturn static void __attribute__((noinline)) report_tick(const riscv_frame_t* frame) {
  trapped_t seen;
  look_at(&seen, frame);
  bare_tick_fault(&seen.at);
}

static void external(const riscv_frame_t* frame) {
  for (uint32_t i = 0; i < CLAIMS_MAX; i++) {
    const uint32_t number = REG32(PLIC_CLAIM);
    if (number == 0U) {  // no more
      return;
    }
    if (bare_irq(number) != 0) {
      report(FAULT_INTERRUPT, number, frame);
    }
    REG32(PLIC_CLAIM) = number;
  }
}

static void interrupted(const riscv_frame_t* frame) {
  const uintptr_t number = frame->cause & ~CAUSE_INTERRUPT;
  if (overflowed(frame->x[1])) {
    report(FAULT_STACK, (uint32_t)number | LOCAL_INTERRUPT, frame);
  }
  if ((number != (uintptr_t)IRQ_TIMER) && (number != (uintptr_t)IRQ_EXTERNAL)) {
    report(FAULT_INTERRUPT, (uint32_t)number | LOCAL_INTERRUPT, frame);
  }
  if (riscv_time_tick()) {  // always first, so that other interrupts cannot prevent the tick
    report_tick(frame);
  }
  if (number == (uintptr_t)IRQ_EXTERNAL) {
    external(frame);
  }
}

void riscv_trap(const riscv_frame_t* frame) {
  static bool failing;  // a fault is being recorded
  if ((frame->cause & CAUSE_INTERRUPT) != 0U) {
    interrupted(frame);
    return;
  }
  if (failing) {  // a fault while recording a fault
    cpu_reset();
  }
  failing = true;
  report(is_stack_fault(frame) ? FAULT_STACK : FAULT_HARDWARE, (uint32_t)frame->cause, frame);
}

// ---- Start and reset ---------------------------------------------------------------------------------------------

static void clear(uint32_t* from, const uint32_t* end) {
  for (; from < end; from++) {
    *from = 0;
  }
}

// Copies .data, clears .bss and starts the program. Uses no variables before that.
void riscv_start(void) {
  const uint32_t* from = bare_model.data_load;
  for (uint32_t* to = bare_data_start; to < bare_model.data_end; to++) {
    *to = *from;
    from++;
  }
  clear(bare_bss_start, bare_bss_end);
  clear(bare_model.bss_start, bare_model.bss_end);
  __asm__ volatile("fence.i" ::: "memory");  // code may have been copied
  bare_start();
}

__attribute__((weak)) void chip_reset(void) {}

void cpu_reset(void) {
  (void)cpu_lock();
  chip_reset();
  riscv_restart();
}

#if BARE_GUARD_BYTES > 0
// Returns the start of the forbidden area below the stack. If the code's memory ends there, its part after the image is
// included.
static uintptr_t forbidden_start(void) {
  if ((uintptr_t)bare_code_limit != (uintptr_t)bare_guard_start) {
    return (uintptr_t)bare_guard_start;
  }
  return ((uintptr_t)bare_model.image_end + (PMP_ALIGN - 1U)) & ~(PMP_ALIGN - 1U);
}
#endif

// Write-protects code and constants (whole pages of 4 KiB) and forbids the guard. Both rules are locked, because only
// locked rules apply in machine mode; they stay until a reset. A restart without a reset sets the same rules.
static void protect(void) {
  const uintptr_t code = (uintptr_t)bare_image_start;
  const uintptr_t code_end = (uintptr_t)bare_model.image_end & ~(PMP_ALIGN - 1U);
  uintptr_t config = 0;
  if (code_end > code) {
    WRITE_CSR("pmpaddr0", code >> 2);
    WRITE_CSR("pmpaddr1", code_end >> 2);
    config = (uintptr_t)(PMP_LOCK | PMP_TOR | PMP_R | PMP_X) << 8;
  }
#if BARE_GUARD_BYTES > 0
  WRITE_CSR("pmpaddr2", forbidden_start() >> 2);
  WRITE_CSR("pmpaddr3", (uintptr_t)bare_stack_start >> 2);
  config |= (uintptr_t)(PMP_LOCK | PMP_TOR) << 24;
#endif
  WRITE_CSR("pmpcfg0", config);
}

void cpu_init(void) {
  protect();
  riscv_time_on();
  REG32(PLIC_THRESHOLD) = 0U;
  SET_CSR("mie", MIE_MEIE);
}

void cpu_platform(struct bare_platform* p) {
  if (((READ_CSR("misa") & MISA_F) != 0U) && ((READ_CSR("mstatus") & MSTATUS_FS) != 0U)) {
    p->flags |= (uint32_t)BARE_FLAG_FPU;
  }
  p->cpuid = (uint32_t)READ_CSR("marchid");
}
