// SPDX-License-Identifier: Apache-2.0
//
// Exceptions of every Cortex-M that handlers.S passes to C: faults and unexpected interrupts are written to the fault
// record, the tick and other interrupts go to bare.c.
//
// Sources: as core.c, sections of DDI 0403E.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"

#define CFSR REG32(0xE000ED28U)  // B3.2: system control block
#define HFSR REG32(0xE000ED2CU)
#define MMFAR REG32(0xE000ED34U)
#define BFAR REG32(0xE000ED38U)

#define CFSR_STACKING ((1U << 4) | (1U << 12))  // MSTKERR, STKERR: the exception's own frame could not be written
#define CFSR_MMARVALID (1U << 7)
#define CFSR_BFARVALID (1U << 15)
#define CFSR_STKOF (1U << 20)  // ARMv8-M: below the limit register

#define EXCEPTION_NMI 2U

#define PUSH_BYTES 128U  // the most that one instruction or exception writes below SP

// ---- Registers at the exception -------------------------------------------------------------------------------------

// The exception's frame (B1.5.6), without the FPU's registers that may follow.
typedef struct frame {
  uint32_t r0;
  uint32_t r1;
  uint32_t r2;
  uint32_t r3;
  uint32_t r12;
  uint32_t lr;
  uint32_t pc;
  uint32_t xpsr;
} frame_t;

#define FRAME_BYTES 0x20U
#define FPU_FRAME_BYTES 0x68U
#define XPSR_ALIGNED (1U << 9)  // the frame was preceded by 4 bytes of padding
#define EXC_RETURN_NO_FPU (1U << 4)
#define EXC_RETURN_PSP (1U << 2)

// Registers pushed by bare_*_entry.
typedef struct saved {
  uint32_t r8_to_r11[4];
  uint32_t padding;
  uint32_t r4_to_r7[4];
} saved_t;

enum { REGS = 13, EXTRA = 5 };
typedef struct seen {
  fault_context_t at;
  uintptr_t regs[REGS];
  uintptr_t extra[EXTRA];
} seen_t;

static bool within(uint32_t at, uint32_t bytes, const uint8_t* start, const uint8_t* end) {
  const uint32_t low = (uint32_t)(uintptr_t)start;
  const uint32_t high = (uint32_t)(uintptr_t)end;
  return (at >= low) && (at <= high) && (bytes <= (high - at));
}

static uint32_t fault_status(void) {
#if CORTEXM_FULL
  return CFSR;
#else
  return 0;
#endif
}

// One of the two stacks.
typedef struct stack {
  const uint8_t* guard;  // start of the guard below it
  const uint8_t* start;
  const uint8_t* end;
} stack_t;

static stack_t stack_of(uint32_t exc_return) {
  if ((exc_return & EXC_RETURN_PSP) != 0U) {
    return (stack_t){bare_guard_start, bare_stack_start, bare_stack_end};
  }
  return (stack_t){bare_handler_guard_start, bare_handler_stack_start, bare_handler_stack_end};
}

// Returns whether the frame was written, which fails at the end of a stack.
static bool frame_valid(uint32_t frame, const stack_t* s) {
  const uint32_t status = fault_status();
  // With a limit register, the core sets SP to the limit and writes nothing.
  const bool at_limit = ((status & CFSR_STKOF) != 0U) && (frame == (uint32_t)(uintptr_t)s->start);
  return ((frame & 3U) == 0U) && ((status & CFSR_STACKING) == 0U) && !at_limit &&
         within(frame, FRAME_BYTES, s->start, s->end);
}

static uint32_t sp_of(uint32_t msp, uint32_t psp, uint32_t exc_return) {
  return ((exc_return & EXC_RETURN_PSP) != 0U) ? psp : msp;
}

static void look_at(seen_t* seen, const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  const stack_t stack = stack_of(exc_return);
  const uint32_t sp = sp_of(msp, psp, exc_return);
  const bool valid = frame_valid(sp, &stack);
  fault_context_t* at = &seen->at;
  for (uint32_t i = 0; i < 4U; i++) {
    seen->regs[i] = 0;
    seen->regs[4U + i] = saved->r4_to_r7[i];
    seen->regs[8U + i] = saved->r8_to_r11[i];
  }
  *at = (fault_context_t){.flags = FAULT_SP_VALID, .sp = sp, .regs = seen->regs, .reg_count = REGS};
  seen->regs[12] = 0;
  if (valid) {
    const frame_t* frame = (const frame_t*)(uintptr_t)sp;
    seen->regs[0] = frame->r0;
    seen->regs[1] = frame->r1;
    seen->regs[2] = frame->r2;
    seen->regs[3] = frame->r3;
    seen->regs[12] = frame->r12;
    at->flags |= FAULT_PC_VALID;
    at->pc = frame->pc;
    at->lr = frame->lr;
    at->status = frame->xpsr;
    at->sp += ((exc_return & EXC_RETURN_NO_FPU) != 0U) ? FRAME_BYTES : FPU_FRAME_BYTES;
    at->sp += ((frame->xpsr & XPSR_ALIGNED) != 0U) ? 4U : 0U;
  }
  const uint8_t* from = ((uint32_t)at->sp > (uint32_t)(uintptr_t)stack.start) ? (const uint8_t*)at->sp : stack.start;
  if ((uint32_t)(uintptr_t)from < (uint32_t)(uintptr_t)stack.end) {
    at->stack = from;
    at->stack_size_bytes = (uint32_t)(stack.end - from);
  }
  at->extra = seen->extra;
  at->extra_count = EXTRA;
#if CORTEXM_FULL
  seen->extra[0] = CFSR;
  seen->extra[1] = HFSR;
  seen->extra[2] = MMFAR;
  seen->extra[3] = BFAR;
#else
  for (uint32_t i = 0; i < 4U; i++) {
    seen->extra[i] = 0;
  }
#endif
  seen->extra[4] = exc_return;
}

#if CORTEXM_FULL
// Returns whether an access below a stack belongs to a frame that did not fit: it hit the guard, or one push from SP
// could cause it.
static bool outgrew(uint32_t address, uint32_t sp, const stack_t* s) {
  return (address < (uint32_t)(uintptr_t)s->start) &&
         ((address >= (uint32_t)(uintptr_t)s->guard) || ((address < sp) && ((sp - address) <= PUSH_BYTES)));
}
#endif

// Returns whether a fault is an overflow of the stack in use. After a large frame, SP itself is below the stack.
static bool is_overflow(uint32_t sp, const stack_t* s) {
  const uint32_t status = fault_status();
  const uint32_t start = (uint32_t)(uintptr_t)s->start;
  if (((status & CFSR_STKOF) != 0U) || ((sp < start) && ((start - sp) <= BARE_FRAME_MAX_BYTES))) {
    return true;
  }
#if CORTEXM_FULL
  return (((status & CFSR_MMARVALID) != 0U) && outgrew(MMFAR, sp, s)) ||
         (((status & CFSR_BFARVALID) != 0U) && outgrew(BFAR, sp, s));
#else
  return false;
#endif
}

// Called by handlers.S.
void cortexm_fault(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return);
void cortexm_interrupt(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return);
_Noreturn void cortexm_unexpected(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return)
    __attribute__((noinline));
_Noreturn void cortexm_tick_fault(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return);

static uint32_t exception_number(void) {
  uint32_t number;
  __asm volatile("mrs %0, ipsr" : "=r"(number));
  return number & 0x1FFU;
}

void cortexm_fault(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  static uint32_t faults;
  seen_t seen;
  faults++;
  if (faults > 1U) {
    cpu_reset();  // a fault while recording a fault
  }
  look_at(&seen, saved, msp, psp, exc_return);
  cortexm_time_at_fault();
  const uint32_t number = exception_number();
  const stack_t stack = stack_of(exc_return);
  fault_reason_t reason = is_overflow(sp_of(msp, psp, exc_return), &stack) ? FAULT_STACK : FAULT_HARDWARE;
  if ((number == EXCEPTION_NMI) && (chip_nmi_is_watchdog() != 0)) {
    reason = FAULT_WATCHDOG;
  }
  bare_fault(reason, number, &seen.at);
}

// Not inlined, so that expected interrupts do not need its stack frame.
void cortexm_unexpected(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  seen_t seen;
  look_at(&seen, saved, msp, psp, exc_return);
  bare_fault(FAULT_INTERRUPT, exception_number() - 16U, &seen.at);
}

void cortexm_interrupt(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  if (bare_irq(exception_number() - 16U) != 0) {
    (void)cpu_lock();  // does not return: prevents the tick from using stack on top of it
    cortexm_unexpected(saved, msp, psp, exc_return);
  }
}

void cortexm_tick_fault(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  seen_t seen;
  look_at(&seen, saved, msp, psp, exc_return);
  bare_tick_fault(&seen.at);
}
