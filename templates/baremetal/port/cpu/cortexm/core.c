// SPDX-License-Identifier: Apache-2.0
//
// cpu_* of every Cortex-M, from M0 to M55: interrupts, faults into the record, the stack's guard, caches. Time and idling
// are in time.c. No chip is known here.
//
// Sources: ARMv6-M, ARMv7-M and ARMv8-M Architecture Reference Manuals (DDI 0419, 0403, 0553); names of registers as
// there. Sections named below are of DDI 0403E.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"

// ---- Registers ---------------------------------------------------------------------------------------------------

#define NVIC_ISER(n) REG32(0xE000E100U + (4U * (n)))  // B3.4
#define NVIC_ICER(n) REG32(0xE000E180U + (4U * (n)))
#define NVIC_IPR(n) REG32(0xE000E400U + (4U * (n)))
#define CPUID REG32(0xE000ED00U)  // B3.2: system control block
#define AIRCR REG32(0xE000ED0CU)
#define CCR REG32(0xE000ED14U)
#define SHCSR REG32(0xE000ED24U)
#define CFSR REG32(0xE000ED28U)
#define HFSR REG32(0xE000ED2CU)
#define MMFAR REG32(0xE000ED34U)
#define BFAR REG32(0xE000ED38U)
#define CLIDR REG32(0xE000ED78U)  // B4.8: caches
#define CCSIDR REG32(0xE000ED80U)
#define CSSELR REG32(0xE000ED84U)
#define CPACR REG32(0xE000ED88U)
#define ICIALLU REG32(0xE000EF50U)  // B2.2.7
#define DCISW REG32(0xE000EF60U)
#define DCCMVAC REG32(0xE000EF68U)
#define DCCISW REG32(0xE000EF74U)

#define AIRCR_RESET 0x05FA0004U  // VECTKEY, SYSRESETREQ
#define CCR_IC (1U << 17)
#define CCR_DC (1U << 16)
#define SHCSR_FAULTS_ON (0xFU << 16)            // MemManage, BusFault, UsageFault; SecureFault (ARMv8-M)
#define CFSR_STACKING ((1U << 4) | (1U << 12))  // MSTKERR, STKERR: the exception's own frame could not be written
#define CFSR_MMARVALID (1U << 7)
#define CFSR_BFARVALID (1U << 15)
#define CFSR_STKOF (1U << 20)  // ARMv8-M: below the limit register
#define CPACR_FPU (0xFU << 20)

#define EXCEPTION_NMI 2U

// Of priorities at least the upper two bits exist: faults have 0, the tick 0x40 (time.c), all that is external 0xC0.
#define EXTERNAL_PRIORITY 0xC0C0C0C0U

#if defined(__ARM_ARCH_6M__)
#define HAS_FAULT_STATUS 0
#define HAS_CACHES 0
#else
#define HAS_FAULT_STATUS 1
#define HAS_CACHES 1
#endif

#define PUSH_BYTES 128U  // what one instruction or exception writes below SP, at most

extern uint8_t bare_handler_stack_start[];

// ---- Interrupts --------------------------------------------------------------------------------------------------

uint32_t cpu_lock(void) {
  uint32_t state;
  __asm volatile("mrs %0, primask\n cpsid i" : "=r"(state)::"memory");
  return state;
}

void cpu_unlock(uint32_t state) { __asm volatile("msr primask, %0" ::"r"(state) : "memory"); }

void cpu_irq_enable(uint32_t number) {
  // The registers of ARMv6-M take whole words only.
  NVIC_IPR(number / 4U) |= EXTERNAL_PRIORITY & (0xFFU << (8U * (number % 4U)));
  NVIC_ISER(number / 32U) = 1U << (number % 32U);
}

void cpu_irq_disable(uint32_t number) {
  NVIC_ICER(number / 32U) = 1U << (number % 32U);
  barrier();
}

// ---- Caches (B4.8) -----------------------------------------------------------------------------------------------

#if HAS_CACHES
// Does op (DCISW, DCCISW) with every line of the level-1 data cache.
static void data_cache_by_line(volatile uint32_t* op) {
  CSSELR = 0;  // level 1, data
  barrier();
  const uint32_t id = CCSIDR;
  const uint32_t sets = ((id >> 13) & 0x7FFFU) + 1U;
  const uint32_t ways = ((id >> 3) & 0x3FFU) + 1U;
  const uint32_t set_shift = (id & 7U) + 4U;
  const uint32_t way_shift = (ways > 1U) ? (uint32_t)__builtin_clz(ways - 1U) : 0U;
  for (uint32_t set = 0; set < sets; set++) {
    for (uint32_t way = 0; way < ways; way++) {
      *op = (way << way_shift) | (set << set_shift);
    }
  }
  barrier();
}

// Cores without caches read CLIDR as 0. Data first: both start empty of what was there before.
static void caches_on(void) {
  if (((CLIDR & 1U) != 0U) && ((CCR & CCR_IC) == 0U)) {
    ICIALLU = 0;
    barrier();
    CCR |= CCR_IC;
    barrier();
  }
  if (((CLIDR & 2U) != 0U) && ((CCR & CCR_DC) == 0U)) {
    data_cache_by_line(&DCISW);
    CCR |= CCR_DC;
    barrier();
  }
}

void fault_sync(const void* data, uint32_t size_bytes) {
  enum { LINE_BYTES = 32 };
  if ((CCR & CCR_DC) == 0U) {
    return;
  }
  const uint32_t end = (uint32_t)(uintptr_t)data + size_bytes;
  barrier();
  for (uint32_t at = (uint32_t)(uintptr_t)data & ~((uint32_t)LINE_BYTES - 1U); at < end; at += (uint32_t)LINE_BYTES) {
    DCCMVAC = at;
  }
  barrier();
}
#endif

_Noreturn void cpu_reset(void) {
  (void)cpu_lock();
#if HAS_CACHES
  if ((CCR & CCR_DC) != 0U) {
    data_cache_by_line(&DCCISW);
  }
#endif
  barrier();
  AIRCR = AIRCR_RESET;
  barrier();
  for (;;) {
    // It comes within a few cycles.
  }
}

// ---- Faults ------------------------------------------------------------------------------------------------------

// The exception's frame (B1.5.6), without the FPU's registers behind it.
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
#define XPSR_ALIGNED (1U << 9)  // 4 more bytes were skipped
#define EXC_RETURN_NO_FPU (1U << 4)
#define EXC_RETURN_PSP (1U << 2)

// What bare_*_entry pushed.
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
#if HAS_FAULT_STATUS
  return CFSR;
#else
  return 0;
#endif
}

// One of the two stacks.
typedef struct stack {
  const uint8_t* guard;  // where the guard below it starts
  const uint8_t* start;
  const uint8_t* end;
} stack_t;

static stack_t stack_of(uint32_t exc_return) {
  if ((exc_return & EXC_RETURN_PSP) != 0U) {
    return (stack_t){bare_guard_start, bare_stack_start, bare_stack_end};
  }
  return (stack_t){bare_handler_guard_start, bare_handler_stack_start, bare_handler_stack_end};
}

// Whether the frame was really written: not if the stack was at its end.
static bool frame_valid(uint32_t frame, const stack_t* s) {
  const uint32_t status = fault_status();
  // With a limit register the core leaves SP at the limit and writes nothing.
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
#if HAS_FAULT_STATUS
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

#if HAS_FAULT_STATUS
// Whether an access below a stack is a frame's that did not fit: it met the guard, or is what one push from where SP
// still stands could write.
static bool outgrew(uint32_t address, uint32_t sp, const stack_t* s) {
  return (address < (uint32_t)(uintptr_t)s->start) &&
         ((address >= (uint32_t)(uintptr_t)s->guard) || ((address < sp) && ((sp - address) <= PUSH_BYTES)));
}
#endif

// Whether a fault is the overflow of the stack that it came from. SP itself is below the stack after a large frame.
static bool is_overflow(uint32_t sp, const stack_t* s) {
  const uint32_t status = fault_status();
  const uint32_t start = (uint32_t)(uintptr_t)s->start;
  if (((status & CFSR_STKOF) != 0U) || ((sp < start) && ((start - sp) <= BARE_FRAME_MAX_BYTES))) {
    return true;
  }
#if HAS_FAULT_STATUS
  return (((status & CFSR_MMARVALID) != 0U) && outgrew(MMFAR, sp, s)) ||
         (((status & CFSR_BFARVALID) != 0U) && outgrew(BFAR, sp, s));
#else
  return false;
#endif
}

// Called by entry.S.
void cortexm_fault(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return);
void cortexm_tick(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return);
void cortexm_interrupt(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return);
_Noreturn void cortexm_unexpected(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return)
    __attribute__((noinline));

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
    cpu_reset();  // a fault while keeping one
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

// A function of its own, so that an interrupt that is expected does without its frame.
void cortexm_unexpected(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  seen_t seen;
  look_at(&seen, saved, msp, psp, exc_return);
  bare_fault(FAULT_INTERRUPT, exception_number() - 16U, &seen.at);
}

void cortexm_interrupt(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  if (bare_irq(exception_number() - 16U) != 0) {
    (void)cpu_lock();  // it does not return: the tick needs no room on top of it
    cortexm_unexpected(saved, msp, psp, exc_return);
  }
}

// ---- The tick ----------------------------------------------------------------------------------------------------

void cortexm_tick(const saved_t* saved, uint32_t msp, uint32_t psp, uint32_t exc_return) {
  seen_t seen;
  cortexm_time_tick();
  look_at(&seen, saved, msp, psp, exc_return);
  bare_tick(&seen.at);
}

// ---- Start -------------------------------------------------------------------------------------------------------

__attribute__((weak)) void cortexm_protect(void) {}

static void limits_on(void) {
#if defined(__ARM_ARCH_8M_MAIN__)
  __asm volatile("msr psplim, %0\n msr msplim, %1" ::"r"(bare_stack_start), "r"(bare_handler_stack_start));
#endif
}

void cpu_init(void) {
  limits_on();
  cortexm_protect();
#if HAS_FAULT_STATUS
  SHCSR |= SHCSR_FAULTS_ON;
  caches_on();
#endif
  cortexm_time_on();
}

void cpu_platform(struct bare_platform* p) {
  p->cpuid = CPUID;
#if HAS_CACHES
  const uint32_t ccr = CCR;
  p->flags |= ((ccr & CCR_IC) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;
  p->flags |= ((ccr & CCR_DC) != 0U) ? (uint32_t)BARE_FLAG_DCACHE : 0U;
  p->flags |= ((CPACR & CPACR_FPU) == CPACR_FPU) ? (uint32_t)BARE_FLAG_FPU : 0U;
#endif
}

// Objects made by LLVM name this unwinder in their tables, which nothing here reads. That it is defined keeps the
// compiler's own out of the image, and with it all that unwinds (Exception Handling ABI for the Arm Architecture).
void __aeabi_unwind_cpp_pr0(void);
void __aeabi_unwind_cpp_pr0(void) {}
