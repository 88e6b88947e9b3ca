// SPDX-License-Identifier: 0BSD
//
// The vector table and what runs before main, in the style of a vendor's start-up file. What differs for boardsmith:
// the handlers of faults, tick and interrupts are those of boardsmith's port, thread code has a stack of its own (PSP),
// and bare_start calls constructors and main. docs/chip.md lists these rules.
#include <stdint.h>
#include <string.h>

#include "acme_m4.h"
#include "bare.h"

extern uint8_t _sdata[], _edata[], _sbss[], _ebss[], _estack[];
extern const uint8_t _sidata[];

void Reset_Handler(void);
void bare_entry(void) __attribute__((alias("Reset_Handler")));  // the name that boardsmith's tools know
void bare_fault_entry(void);
void bare_tick_entry(void);
void bare_interrupt_entry(void);

typedef void (*vector_t)(void);
extern const vector_t bare_vectors[16 + CHIP_IRQS];

__attribute__((section(".boardsmith.vectors"), used, aligned(256))) const vector_t bare_vectors[16 + CHIP_IRQS] = {
    [0] = (vector_t)(uintptr_t)_estack,
    [1] = Reset_Handler,
    [2 ... 14] = bare_fault_entry,  // NMI, HardFault and all others that are not expected
    [15] = bare_tick_entry,         // SysTick
    [16 ... 15 + CHIP_IRQS] = bare_interrupt_entry,
};

__attribute__((used)) static _Noreturn void start(void) {
  SCB_VTOR = (uint32_t)(uintptr_t)bare_vectors;  // the boot loader's until now
  SystemInit();
  (void)memcpy(_sdata, _sidata, (uintptr_t)_edata - (uintptr_t)_sdata);
  (void)memset(_sbss, 0, (uintptr_t)_ebss - (uintptr_t)_sbss);
  SystemCoreClockUpdate();
  bare_start();
}

// Handlers keep the main stack, thread code gets the process stack, below which there is a guard.
__attribute__((naked)) void Reset_Handler(void) {
  __asm volatile(
      "cpsid i\n"
      "ldr r0, =bare_handler_stack_end\n"
      "msr msp, r0\n"
      "ldr r0, =bare_stack_end\n"
      "msr psp, r0\n"
      "movs r0, #2\n"
      "msr control, r0\n"
      "isb\n"
      "b start\n"
      ".ltorg\n" ::
          : "memory");
}
