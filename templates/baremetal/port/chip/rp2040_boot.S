// SPDX-License-Identifier: Apache-2.0
//
// The RP2040's second stage: the first 256 bytes of the flash, which the boot ROM copies to RAM, checks and calls
// (RP2040 datasheet §2.8.1.3.1). It configures the flash for reads in place, four bits at a time and without a command
// per read, and starts the firmware by the vector table after it. For a flash with W25Q16JV's fast read quad I/O and
// the quad enable bit set, which is the factory setting of the Pico's W25Q16JV-IQ; nothing is written to the flash.
//
// With LR 0 it starts the firmware; with any other LR it returns (rp2040.c calls a copy after it has used the flash).
// It runs from any address, and only uses r0 to r3.
  .syntax unified
  .cpu cortex-m0plus
  .thumb

#define VTOR 0xE000ED08
#define PADS_QSPI 0x40020000  // datasheet §2.19.6.4
#define SSI 0x18000000        // datasheet §4.10.13
#define SSI_CTRLR0 (SSI + 0x00)
#define SSI_CTRLR1 (SSI + 0x04)
#define SSI_SSIENR (SSI + 0x08)
#define SSI_SER (SSI + 0x10)
#define SSI_BAUDR (SSI + 0x14)
#define SSI_SR (SSI + 0x28)
#define SSI_DR0 (SSI + 0x60)
#define SSI_RX_SAMPLE_DLY (SSI + 0xF0)
#define SSI_SPI_CTRLR0 (SSI + 0xF4)

#define READ_QUAD_IO 0xEB     // W25Q16JV datasheet §8.2.15
#define MODE_CONTINUOUS 0xA0  // M5-4 = 2: the next read has no command
#define FRAME 0x005F0300      // CTRLR0: SPI_FRF quad, DFS_32 31 (32 bits), TMOD 3 (send address, then receive)
#define ADDRESS (8 << 2)      // SPI_CTRLR0: ADDR_L, 24 address and 8 mode bits in units of 4
#define WAIT (4 << 11)        // SPI_CTRLR0: WAIT_CYCLES, the flash's dummy clocks
#define COMMAND_8 (2 << 8)    // SPI_CTRLR0: INST_L
#define SERIAL_THEN_QUAD 1    // SPI_CTRLR0: TRANS_TYPE
#define ALL_QUAD 2
#define SR_DONE 4             // TFE, and not BUSY

  .section .boardsmith.boot, "ax", %progbits
  .p2align 8
  .global rp2040_boot
  .type rp2040_boot, %function
  .thumb_func
rp2040_boot:
  adr r2, steps
next:
  ldmia r2!, {r0, r1}           // address, value
  cmp r0, #0
  beq finish
  lsrs r3, r0, #1
  bcs await
  str r1, [r0]
  b next
await:                          // odd: waits until TFE and BUSY are as in r1; no limit, as the code is in the flash
  subs r0, #1
again:
  ldr r3, [r0]
  lsls r3, r3, #29              // BUSY is bit 0, TFE bit 2; TFNF is between them
  lsrs r3, r3, #29
  subs r3, #2                   // TFNF is set when TFE is
  cmp r3, r1
  bne again
  b next
finish:
  mov r0, lr
  cmp r0, #0
  bne back
  ldmia r1!, {r0, r2}           // r1 is the vector table, from the last step: SP and the entry
  msr msp, r0
  bx r2
back:
  bx lr

  .p2align 2
steps:
  .word PADS_QSPI + 0x04, 0x21  // SCLK: 8 mA, fast
  .word PADS_QSPI + 0x08, 0x50  // SD0 to SD3: as after a reset, without the Schmitt trigger's delay
  .word PADS_QSPI + 0x0C, 0x50
  .word PADS_QSPI + 0x10, 0x50
  .word PADS_QSPI + 0x14, 0x50
  .word SSI_SSIENR, 0
  .word SSI_SER, 1
  .word SSI_BAUDR, 2            // clk_sys / 2: 62.5 MHz
  .word SSI_RX_SAMPLE_DLY, 1    // sample one clk_sys later, near the end of the bit
  .word SSI_CTRLR0, FRAME
  .word SSI_CTRLR1, 0           // one word
  .word SSI_SPI_CTRLR0, ADDRESS | WAIT | COMMAND_8 | SERIAL_THEN_QUAD
  .word SSI_SSIENR, 1
  .word SSI_DR0, READ_QUAD_IO
  .word SSI_DR0, MODE_CONTINUOUS  // address 0 and the mode; this starts it
  .word SSI_SR + 1, SR_DONE
  .word SSI_SSIENR, 0
  .word SSI_SPI_CTRLR0, (MODE_CONTINUOUS << 24) | ADDRESS | WAIT | ALL_QUAD
  .word SSI_SSIENR, 1
  .word VTOR, 0x10000100
  .word 0, 0x10000100

  .org 252
// CRC-32 of the 252 bytes before: polynomial 0x04C11DB7, from 0xFFFFFFFF, neither reflected nor inverted (datasheet
// §2.8.1.3.1). templates' TestRP2040Boot computes it and prints the correct value.
  .word 0x7CEB9146
  .size rp2040_boot, . - rp2040_boot
