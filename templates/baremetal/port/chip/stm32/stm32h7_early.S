// SPDX-License-Identifier: Apache-2.0
//
// chip_early (bare.h) of the STM32H743: confirms the supply. RAM is not writable before (RM0433 §6.4.1, system supply
// startup; §6.8.4 for PWR_CR3). This is not in C, because a compiler may use the stack: without optimisation, a loop
// variable on the stack never counted.
  .syntax unified
  .thumb

#define PWR_CSR1 0x58024804       // RM0433 §6.8
#define PWR_CR3 0x5802480C
#define PWR_CSR1_ACTVOSRDY_POS 13
#define PWR_CR3_LDOEN 2
#define PWR_CR3_SUPPLY 7          // SCUEN, LDOEN, BYPASS
#define TURNS 200000              // milliseconds at 64 MHz; microseconds are needed

  .section .text.chip_early, "ax", %progbits
  .global chip_early
  .type chip_early, %function
  .thumb_func
chip_early:
  .cfi_startproc
  ldr r0, =PWR_CR3
  ldr r1, [r0]
  movs r2, #PWR_CR3_SUPPLY
  bics r1, r2
  movs r2, #PWR_CR3_LDOEN
  orrs r1, r2
  str r1, [r0]                  // only effective once after power-on
  ldr r0, =PWR_CSR1
  ldr r2, =TURNS
1:
  ldr r1, [r0]
  lsls r1, r1, #(31 - PWR_CSR1_ACTVOSRDY_POS)
  bmi 2f
  subs r2, #1
  bne 1b                        // gives up at the limit
2:
  ldr r0, =stm32h7_powered
  bx r0
  .cfi_endproc
  .size chip_early, . - chip_early
  .ltorg
