// SPDX-License-Identifier: Apache-2.0
//
// cpu_* of every Cortex-M, from M0 to M55: interrupts, start and reset. Independent of the chip. Faults are in
// faults.c, caches in caches.c, time and idling in time.c, memory protection in mpu_v7.c and mpu_v8.c.
//
// Sources: ARMv6-M, ARMv7-M and ARMv8-M Architecture Reference Manuals (DDI 0419, 0403, 0553), with their register
// names. Sections named below are of DDI 0403E.
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"
#include "cpu/cortexm/mpu.h"
#include "port.h"

#define NVIC_ISER(n) REG32(0xE000E100U + (4U * (n)))  // B3.4
#define NVIC_ICER(n) REG32(0xE000E180U + (4U * (n)))
#define NVIC_IPR(n) REG32(0xE000E400U + (4U * (n)))
#define CPUID REG32(0xE000ED00U)  // B3.2: system control block
#define AIRCR REG32(0xE000ED0CU)
#define SHCSR REG32(0xE000ED24U)
#define CPACR REG32(0xE000ED88U)
#define FPDSCR REG32(0xE000EF3CU)  // B3.2: floating-point extension

#define AIRCR_RESET 0x05FA0004U       // VECTKEY, SYSRESETREQ
#define SHCSR_FAULTS_ON (0xFU << 16)  // MemManage, BusFault, UsageFault; SecureFault (ARMv8-M)
#define CPACR_FPU (0xFU << 20)
#define FPDSCR_MODES 0x07C80000U  // of new contexts: half precision, NaN, flushing to zero, rounding

// Every core has at least the upper two bits of a priority: faults have 0, the tick 0x40 (time.c), external interrupts
// 0xC0.
#define EXTERNAL_PRIORITY 0xC0C0C0C0U

// ---- Checks of the board file --------------------------------------------------------------------------------------

// The most external interrupts that an interrupt controller has (B3.4; DDI 0419 B3.4; DDI 0553 B12.1).
#if defined(__ARM_ARCH_6M__)
#define IRQS_MAX 32
#elif defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__)
#define IRQS_MAX 240
#else
#define IRQS_MAX 480
#endif
_Static_assert(((CHIP_IRQS) > 0) && ((CHIP_IRQS) <= IRQS_MAX), "CHIP_IRQS: no such core has so many interrupts");

// The vectors are the first of the code, or follow a header.
#ifndef BARE_HEADER_BYTES
#define BARE_HEADER_BYTES 0
#endif
#define VECTORS ((0U BOARDSMITH_REGIONS(CODE_ORIGIN)) + (BARE_HEADER_BYTES))
_Static_assert((VECTORS % (1U << CORTEXM_VECTORS_LOG2)) == 0U,
               "memory: the origin of the code, with BARE_HEADER_BYTES, is not aligned as a vector table must be");

// Chips have their flash at 0 again, so its first bytes are also vectors at 0.
#if defined(CPU_NO_VTOR) && ((CPU_NO_VTOR) != 0)
_Static_assert((VECTORS & 0x00FFFFFFU) == 0U,
               "memory: this core has no VTOR: its vectors are at 0, not behind a boot loader. If that passes "
               "interrupts on, the board file sets CPU_NO_VTOR to 0");
#endif

// ---- Interrupts -----------------------------------------------------------------------------------------------------

uint32_t cpu_lock(void) {
  uint32_t state;
  __asm volatile("mrs %0, primask\n cpsid i" : "=r"(state)::"memory");
  return state;
}

void cpu_unlock(uint32_t state) { __asm volatile("msr primask, %0" ::"r"(state) : "memory"); }

// CONTROL is again as entry.S has set it. Without its FPCA, the next floating-point instruction begins a new context,
// with the mode in FPDSCR (B1.5.7): that of a reset.
void port_restore(void) {
#ifdef __ARM_FP
  FPDSCR &= ~FPDSCR_MODES;
#endif
  const uint32_t thread_on_psp = 2;
  __asm volatile("msr control, %0\n isb" ::"r"(thread_on_psp) : "memory");
#if CORTEXM_FULL
  __asm volatile("msr basepri, %0\n cpsie f" ::"r"(0) : "memory");
#endif
  __asm volatile("cpsie i" ::: "memory");
}

void cpu_irq_enable(uint32_t number) {
  // ARMv6-M only supports word accesses to these registers.
  NVIC_IPR(number / 4U) |= EXTERNAL_PRIORITY & (0xFFU << (8U * (number % 4U)));
  NVIC_ISER(number / 32U) = 1U << (number % 32U);
}

void cpu_irq_disable(uint32_t number) {
  NVIC_ICER(number / 32U) = 1U << (number % 32U);
  barrier();
}

// ---- Start and reset ------------------------------------------------------------------------------------------------

__attribute__((weak)) void cortexm_protect(void) {}

static void limits_on(void) {
#if defined(__ARM_ARCH_8M_MAIN__)
  __asm volatile("msr psplim, %0\n msr msplim, %1" ::"r"(bare_stack_start), "r"(bare_handler_stack_start));
#endif
}

void cpu_init(void) {
  limits_on();
  cortexm_protect();
#if CORTEXM_FULL
  SHCSR |= SHCSR_FAULTS_ON;
  cortexm_caches_on();
#endif
  cortexm_time_on();
}

_Noreturn void cpu_reset(void) {
  (void)cpu_lock();
#if CORTEXM_FULL
  cortexm_caches_clean();
#endif
  barrier();
  AIRCR = AIRCR_RESET;
  barrier();
  for (;;) {
    // The reset follows within a few cycles.
  }
}

void cpu_platform(struct bare_platform* p) {
  p->cpuid = CPUID;
#if CORTEXM_FULL
  p->flags |= cortexm_caches_flags();
  p->flags |= ((CPACR & CPACR_FPU) == CPACR_FPU) ? (uint32_t)BARE_FLAG_FPU : 0U;
#endif
}

// Objects made by LLVM refer to this unwinder in tables that are never read. Defining it keeps the compiler's unwinding
// code out of the image (Exception Handling ABI for the Arm Architecture).
void __aeabi_unwind_cpp_pr0(void);
void __aeabi_unwind_cpp_pr0(void) {}
