// SPDX-License-Identifier: Apache-2.0
//
// The entries of a Cortex-M's exceptions, which call C. Only ARMv6-M's instructions, so that one file serves all cores.
  .syntax unified
  .thumb

// A fault does not return. A fault in a handler uses the thread's stack, from its top and without a limit, because the
// handlers' stack may be exhausted. A fault in the thread uses the handlers' stack, which is empty then.
  .macro FAULT_STACK
  lsrs r0, r3, #4               // EXC_RETURN's bit 3: from the thread
  bcs 1f
  ldr r0, =bare_stack_end
#ifdef __ARM_ARCH_8M_MAIN__
  mov r12, #0
  msr msplim, r12
#endif
  msr msp, r0
1:
  .endm

// The tick interrupts measurements: its handler saves no registers but those of a call, except to report a fault.
  .macro TICK
  push {r3, lr}                 // r3 keeps the stack aligned
  bl cortexm_tick
  cmp r0, #0
  bne 1f
  dsb                           // see below
  pop {r3, pc}
1:
  pop {r2, r3}
  mov lr, r3
  .endm

// The C functions' arguments are the address of the saved r8 to r11 and r4 to r7 on the handlers' stack, the earlier
// MSP and PSP, and EXC_RETURN. The other registers are in the frame that the core has written at MSP or PSP.
//
// The barrier completes a handler's writes to peripherals before it returns. Without it, a fast core (Cortex-M7) takes
// the interrupt that was just cleared once more, and a Cortex-M4 may use the wrong vector (Arm's erratum 838869). Every
// handler has more than two instructions, as required by its erratum 776924 (VDIV and VSQRT with very short handlers).
  .macro ENTRY name, function, first, stack
  .section .text.\name, "ax", %progbits
  .global \name
  .type \name, %function
  .thumb_func
\name:
  .cfi_startproc
  .cfi_undefined lr
  \first
  mrs r1, msp
  mrs r2, psp
  mov r3, lr
  \stack
  push {r3-r7, lr}              // r3 keeps the stack aligned
  mov r4, r8
  mov r5, r9
  mov r6, r10
  mov r7, r11
  push {r4-r7}
  mov r0, sp
  bl \function
  dsb                           // see above
  add sp, #16                   // r8 to r11 are unchanged: C preserves them
  pop {r3-r7, pc}
  .cfi_endproc
  .size \name, . - \name
  .ltorg
  .endm

  ENTRY bare_fault_entry, cortexm_fault, , FAULT_STACK
  ENTRY bare_tick_entry, cortexm_tick_fault, TICK
  ENTRY bare_interrupt_entry, cortexm_interrupt
