// SPDX-License-Identifier: Apache-2.0
//
// Start of a Cortex-M: the vector table and the entry after a reset. A board's own start-up code replaces this file.
// Only ARMv6-M's instructions, so that one file serves all cores.
#include "bare_model.h"
#include "crt_config.h"
#include "cpu/cortexm/cortexm.h"

  .syntax unified
  .thumb

// ---- Vectors -----------------------------------------------------------------------------------------------------

  .section .boardsmith.vectors, "a", %progbits
  .p2align CORTEXM_VECTORS_LOG2
  .global bare_vectors
bare_vectors:
  .word bare_handler_stack_end
  .word bare_entry
    // NMI, HardFault, MemManage, BusFault, UsageFault, SecureFault, SVCall, DebugMonitor, PendSV, and reserved ones
  .rept 13
  .word bare_fault_entry

  .endr
  .word bare_tick_entry
  .rept CHIP_IRQS
  .word bare_interrupt_entry
  .endr

// ---- Reset -------------------------------------------------------------------------------------------------------

  .section .text.bare_entry, "ax", %progbits
  .global bare_entry
  .type bare_entry, %function
  .thumb_func
bare_entry:
  .cfi_startproc
  .cfi_undefined lr             // no caller
  cpsid i
#ifdef __ARM_ARCH_8M_MAIN__
  movs r0, #0                   // clear limits left by a boot loader
  msr msplim, r0
  msr psplim, r0
#endif
  ldr r0, =bare_handler_stack_end
  msr msp, r0
  ldr r0, =bare_stack_end
  msr psp, r0
  movs r0, #2                   // thread code on PSP, privileged; handlers stay on MSP
  msr control, r0
  isb
  ldr r0, =0xE000ED08           // VTOR, which a boot loader may have changed; M0 has none and ignores it
  ldr r1, =bare_vectors
  str r1, [r0]
#ifdef __ARM_FP
  ldr r0, =0xE000ED88           // CPACR: full access to CP10 and CP11, before any C
  ldr r1, [r0]
  ldr r2, =0x00F00000
  orrs r1, r2
  str r1, [r0]
  dsb
  isb
#endif
  bl chip_early

  ldr r5, =bare_model
  ldr r0, =bare_data_start      // multiples of 8 bytes
  ldr r1, [r5, #(4 * BARE_MODEL_DATA_END)]
  ldr r2, [r5, #(4 * BARE_MODEL_DATA_LOAD)]
  cmp r0, r2
  beq clear                     // the load address is the run address
copy:
  cmp r0, r1
  bhs clear
  ldmia r2!, {r3, r4}
  stmia r0!, {r3, r4}
  b copy
clear:
  ldr r0, =bare_bss_start
  ldr r1, =bare_bss_end
  movs r2, #0
  movs r3, #0
1:
  cmp r0, r1
  bhs 2f
  stmia r0!, {r2, r3}
  b 1b
2:
  ldr r0, [r5, #(4 * BARE_MODEL_BSS_START)]
  ldr r1, [r5, #(4 * BARE_MODEL_BSS_END)]
3:
  cmp r0, r1
  bhs 4f
  stmia r0!, {r2, r3}
  b 3b
4:
  bl bare_start
  .cfi_endproc
  .size bare_entry, . - bare_entry
  .ltorg
