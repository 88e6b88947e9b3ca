// SPDX-License-Identifier: Apache-2.0
//
// The state at a fault of a Cortex-M, as Zephyr finds it, and executable RAM.
//
// Zephyr clears the fault status registers and keeps no callee-saved registers before it calls the fatal error handler.
// The linker's --wrap=z_arm_fault therefore passes each fault through __wrap_z_arm_fault first. Where a version of
// Zephyr has no such function, the record lacks what it collects.
//
// Sources: ARMv7-M Architecture Reference Manual (DDI 0403E) B1.5.6 (exception frame), B3.2 (system control block),
// B3.5 (memory protection unit); Armv8-M Architecture Reference Manual (DDI 0553) D1.2 (MPU_RBAR).
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os.h"
#include "port.h"

#define REG32(address) (*(volatile uint32_t*)(uintptr_t)(address))
#define CPUID REG32(0xE000ED00U)
#define ICSR REG32(0xE000ED04U)
#define CCR REG32(0xE000ED14U)
#define CFSR REG32(0xE000ED28U)
#define HFSR REG32(0xE000ED2CU)
#define MMFAR REG32(0xE000ED34U)
#define BFAR REG32(0xE000ED38U)
#define CPACR REG32(0xE000ED88U)
#define ICIALLU REG32(0xE000EF50U)
#define FPDSCR REG32(0xE000EF3CU)
#define DCCIMVAC REG32(0xE000EF70U)

#define ICSR_VECTACTIVE 0x1FFU
#define CCR_DCACHE (1U << 16)
#define CCR_ICACHE (1U << 17)
#define CPACR_FPU (0xFU << 20)
#define CFSR_STACKING ((1U << 4) | (1U << 12))  // MSTKERR, STKERR: the exception's own frame could not be written
#define CFSR_STKOF (1U << 20)                   // ARMv8-M: below the limit register

#define FPDSCR_MODES 0x07C80000U  // of new contexts: half precision, NaN, flushing to zero, rounding
#define CONTROL_FPCA (1U << 2)
#define EXC_RETURN_PSP (1U << 2)
#define EXC_RETURN_NO_FPU (1U << 4)
#define XPSR_ALIGNED (1U << 9)  // the frame was preceded by 4 bytes of padding
#define FRAME_BYTES 0x20U
#define FPU_FRAME_BYTES 0x68U
#define EXCEPTIONS 16U  // before the first interrupt

enum { REGS = 13, EXTRA = 5 };

// What the wrapper has seen, in the order that its assembler stores.
typedef struct seen {
  uint32_t r4_to_r11[8];
  uint32_t valid;
  uint32_t status;
  uint32_t hard;
  uint32_t memory_address;
  uint32_t bus_address;
  uint32_t exc_return;
  uint32_t sp;  // of the exception's frame
} seen_t;

extern seen_t boardsmith_arm_seen;  // assembly names it
seen_t boardsmith_arm_seen;

void boardsmith_arm_look(uint32_t msp, uint32_t psp, uint32_t exc_return);
void boardsmith_arm_look(uint32_t msp, uint32_t psp, uint32_t exc_return) {
  seen_t* s = &boardsmith_arm_seen;
#ifdef CONFIG_ARMV7_M_ARMV8_M_MAINLINE
  s->status = CFSR;
  s->hard = HFSR;
  s->memory_address = MMFAR;
  s->bus_address = BFAR;
#endif
  s->exc_return = exc_return;
  s->sp = ((exc_return & EXC_RETURN_PSP) != 0U) ? psp : msp;
  s->valid = 1;
}

void __wrap_z_arm_fault(void);
__attribute__((naked)) void __wrap_z_arm_fault(void) {
  __asm volatile(
      ".syntax unified\n"
      "push {r0-r4, lr}\n"
      "ldr r3, =boardsmith_arm_seen\n"
      "stmia r3!, {r4-r7}\n"
      "mov r0, r8\n"
      "mov r1, r9\n"
      "stmia r3!, {r0, r1}\n"
      "mov r0, r10\n"
      "mov r1, r11\n"
      "stmia r3!, {r0, r1}\n"
      "ldr r0, [sp]\n"
      "ldr r1, [sp, #4]\n"
      "bl boardsmith_arm_look\n"
      "pop {r0-r3}\n"
      "bl __real_z_arm_fault\n"
      "pop {r4, pc}\n");
}

// Takes the registers of an exception's frame.
static void read_frame(os_state_t* state, const uint32_t* frame) {
  for (uint32_t i = 0; i < 4U; i++) {
    state->regs[i] = frame[i];
  }
  state->regs[12] = frame[4];
  state->at.lr = frame[5];
  state->at.pc = frame[6];
  state->at.status = frame[7];
  state->at.flags |= FAULT_PC_VALID;
}

// Returns whether the thread's stack has overflowed, where Zephyr has no guard, or a large frame stepped over it.
static bool is_overflow(const seen_t* s, const os_stack_t* stack) {
  const bool below = ((s->exc_return & EXC_RETURN_PSP) != 0U) && (s->sp < stack->start);
  return ((s->status & CFSR_STKOF) != 0U) ||
         (below && (((s->status & CFSR_STACKING) != 0U) || ((stack->start - s->sp) <= OS_FRAME_MAX_BYTES)));
}

static uint32_t frame_bytes(uint32_t exc_return, uint32_t xpsr) {
  return (((exc_return & EXC_RETURN_NO_FPU) != 0U) ? FRAME_BYTES : FPU_FRAME_BYTES) +
         (((xpsr & XPSR_ALIGNED) != 0U) ? 4U : 0U);
}

static void begin(os_state_t* state, uint32_t exception) {
  *state = (os_state_t){.code = exception};
  state->at.regs = state->regs;
  state->at.reg_count = REGS;
  state->at.extra = state->extra;
  state->at.extra_count = EXTRA;
}

// The thread was interrupted, so that its frame lies at its stack pointer.
static void read_interrupted(os_state_t* state, const os_stack_t* stack) {
  uint32_t psp;
  __asm volatile("mrs %0, psp" : "=r"(psp));
  if ((psp >= stack->start) && ((psp + FRAME_BYTES) <= stack->end)) {
    read_frame(state, (const uint32_t*)(uintptr_t)psp);
    // The lazily stored registers of the FPU may follow: the frame is the shorter one for the search of the callers.
    state->at.sp = psp + FRAME_BYTES;
    state->at.flags |= FAULT_SP_VALID;
    os_keep_stack(&state->at, stack);
  }
}

void os_interrupted_state(os_state_t* state, const os_stack_t* stack) {
  begin(state, 0);
  read_interrupted(state, stack);
}

// Zephyr's frame is a copy of the exception's. It is invalid if that could not be written.
void os_fault_state(os_state_t* state, const os_frame_t* frame, const os_stack_t* stack) {
  const seen_t* s = &boardsmith_arm_seen;
  const uint32_t exception = ICSR & ICSR_VECTACTIVE;
  begin(state, (exception >= EXCEPTIONS) ? (exception - EXCEPTIONS) : exception);
  const bool written = (s->status & (CFSR_STACKING | CFSR_STKOF)) == 0U;
  if (s->valid != 0U) {
    for (uint32_t i = 0; i < 8U; i++) {
      state->regs[4U + i] = s->r4_to_r11[i];
    }
    state->extra[0] = s->status;
    state->extra[1] = s->hard;
    state->extra[2] = s->memory_address;
    state->extra[3] = s->bus_address;
    state->extra[4] = s->exc_return;
    state->at.sp = s->sp;
    state->at.flags |= FAULT_SP_VALID;
    state->overflow = is_overflow(s, stack);
  }
  if ((frame != NULL) && written) {
    read_frame(state, (const uint32_t*)(const void*)&frame->basic);
    if (s->valid != 0U) {
      state->at.sp += frame_bytes(s->exc_return, (uint32_t)state->at.status);
    } else {
      // An oops: the frame is the exception's own.
      state->at.sp = (uintptr_t)&frame->basic + FRAME_BYTES;
      state->at.flags |= FAULT_SP_VALID;
    }
  }
  if ((frame == NULL) && (exception >= EXCEPTIONS)) {
    read_interrupted(state, stack);
  }
  if ((s->valid == 0U) || ((s->exc_return & EXC_RETURN_PSP) != 0U)) {
    os_keep_stack(&state->at, stack);
  }
}

#if defined(CONFIG_CPU_CORTEX_M7) || defined(CONFIG_ARMV8_1_M_MAINLINE)
// Writes the data cache's lines to memory, and drops them (DDI 0403E B2.2.7).
static void clean_data_cache(uint32_t base, uint32_t size_bytes) {
  const uint32_t line_bytes = 32;
  __asm volatile("dsb" ::: "memory");
  for (uint32_t at = base & ~(line_bytes - 1U); ((CCR & CCR_DCACHE) != 0U) && (at < (base + size_bytes));
       at += line_bytes) {
    DCCIMVAC = at;
  }
  __asm volatile("dsb" ::: "memory");
}

// A reset clears the caches.
void fault_sync(const void* data, uint32_t size_bytes) { clean_data_cache((uint32_t)(uintptr_t)data, size_bytes); }
#endif

void os_core(port_platform_t* p) {
#ifdef CONFIG_CORTEX_M_SYSTICK
  p->core_hz = (uint32_t)sys_clock_hw_cycles_per_sec();
#endif
  p->has_flags = 1;
  p->cpuid = CPUID;
#ifdef CONFIG_ARMV7_M_ARMV8_M_MAINLINE
  p->flags = (((CCR & CCR_ICACHE) != 0U) ? 1U : 0U) | (((CCR & CCR_DCACHE) != 0U) ? 2U : 0U) |
             (((CPACR & CPACR_FPU) != 0U) ? 8U : 0U);
#endif
}

#if (BOARDSMITH_UPLOAD_BYTES) > 0

#define MPU_TYPE REG32(0xE000ED90U)
#define MPU_CTRL REG32(0xE000ED94U)
#define MPU_RNR REG32(0xE000ED98U)
#define MPU_RBAR REG32(0xE000ED9CU)
#define MPU_RASR REG32(0xE000EDA0U)  // ARMv8-M: MPU_RLAR

#define MPU_REGIONS ((MPU_TYPE >> 8) & 0xFFU)

// Sets or clears a region's bit XN if it contains the address.
#if defined(CONFIG_ARMV8_M_MAINLINE) || defined(CONFIG_ARMV8_M_BASELINE)
static void set_executable(uint32_t number, uint32_t address, bool on) {
  MPU_RNR = number;
  const uint32_t base = MPU_RBAR;
  const uint32_t limit = MPU_RASR;
  if (((limit & 1U) != 0U) && (address >= (base & ~0x1FU)) && (address <= (limit | 0x1FU))) {
    MPU_RBAR = on ? (base & ~1U) : (base | 1U);
  }
}
#else
static void set_executable(uint32_t number, uint32_t address, bool on) {
  const uint32_t xn = 1U << 28;
  MPU_RNR = number;
  const uint32_t attributes = MPU_RASR;
  const uint64_t bytes = 2ULL << ((attributes >> 1) & 0x1FU);
  const uint32_t base = MPU_RBAR & ~0x1FU;
  if (((attributes & 1U) != 0U) && (address >= base) && (((uint64_t)address - base) < bytes)) {
    MPU_RASR = on ? (attributes & ~xn) : (attributes | xn);
  }
}
#endif

// Zephyr's region of the RAM stays as it is set here: its kernel only changes the regions of threads. While the window
// is open, all RAM of that region is executable.
int os_executable(void* base, size_t size_bytes, int on) {
  const unsigned int state = irq_lock();
  fault_sync(base, (uint32_t)size_bytes);
#ifdef CONFIG_ARMV7_M_ARMV8_M_MAINLINE
  ICIALLU = 0;  // no effect without an instruction cache
#endif
  for (uint32_t i = 0; i < MPU_REGIONS; i++) {
    set_executable(i, (uint32_t)(uintptr_t)base, on != 0);
  }
  __asm volatile("dsb\n isb" ::: "memory");
  irq_unlock(state);
  return 0;
}

#endif

// ---- After a call ---------------------------------------------------------------------------------------------------

// The floating-point mode is that of new contexts (FPDSCR), unless there is no context. A context belongs to a thread
// of Zephyr's, which therefore stays.
void port_restore(void) {
#ifdef __ARM_FP
  uint32_t control;
  __asm__ volatile("mrs %0, control" : "=r"(control));
  if ((control & CONTROL_FPCA) != 0U) {
    FPDSCR &= ~FPDSCR_MODES;
    __asm__ volatile("vmsr fpscr, %0" ::"r"(FPDSCR) : "memory");
  }
#endif
#ifndef __ARM_ARCH_6M__
#ifndef __ARM_ARCH_8M_BASE__
  __asm__ volatile("msr basepri, %0\n cpsie f" ::"r"(0) : "memory");
#endif
#endif
  __asm__ volatile("cpsie i" ::: "memory");
}
