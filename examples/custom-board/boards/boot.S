// SPDX-License-Identifier: 0BSD
//
// A stand-in for MCUboot, at the start of the memory: it starts the image at IMAGE if that has a header of MCUboot and,
// behind the image, its list of hash and signature. It verifies neither. To make boot.hex:
//   arm-none-eabi-gcc -nostdlib -Ttext=0 -Wl,-e,start -o boot.elf boot.S
//   arm-none-eabi-objcopy -O ihex boot.elf boot.hex
#ifndef IMAGE
#define IMAGE 0x8000
#endif
#define MAGIC 0x96f3b83d        // first word of the header
#define TLV_MAGIC 0x6907        // first half-word behind the image

  .syntax unified
  .cpu cortex-m0
  .thumb
  .text
  .word 0x20000400              // not used: nothing is pushed
  .word start
  .word stop                    // NMI
  .word stop                    // HardFault

  .global start
  .type start, %function
start:
  ldr r0, =IMAGE
  ldr r1, [r0]
  ldr r2, =MAGIC
  cmp r1, r2
  bne stop
  ldrh r1, [r0, #8]             // the header's size
  adds r1, r1, r0               // the vector table follows
  ldr r2, [r0, #12]             // the image's size
  adds r2, r2, r1
  ldrh r2, [r2]
  ldr r3, =TLV_MAGIC
  cmp r2, r3
  bne stop
  ldr r2, =0xE000ED08           // VTOR
  str r1, [r2]
  ldr r2, [r1]
  msr msp, r2
  ldr r2, [r1, #4]
  bx r2

  .type stop, %function
stop:
  b stop
  .ltorg
