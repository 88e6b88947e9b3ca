/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry and exit of every trap, and the restart. For RV32 and RV64 in machine mode (privileged architecture 1.10 or
 * later), with or without floating point.
 *
 * mscratch holds the end of the handlers' stack while the thread runs, and 0 while a handler runs. This identifies a
 * trap inside a handler, and no trap writes to the interrupted stack, which may have overflowed.
 */
#include "cpu/riscv/riscv.h"

#if __riscv_xlen == 64
#define SREG sd
#define LREG ld
#define WORD 8
#else
#define SREG sw
#define LREG lw
#define WORD 4
#endif

#ifndef __riscv_flen
#define FP_BYTES 0
#elif __riscv_flen == 64
#define FSREG fsd
#define FLREG fld
#define FP_BYTES (22 * 8)
#else
#define FSREG fsw
#define FLREG flw
#define FP_BYTES (24 * 4)
#endif

#define FRAME_BYTES (FRAME_WORDS * WORD)
#define FP(n) (FRAME_BYTES + (n) * (__riscv_flen / 8))
#define X(n) (((n) - 1) * WORD)

#define MSTATUS_MIE 0x8
#define MSTATUS_FS_INITIAL 0x2000

/* Applies OP to the registers x5 to x31 and their words in the frame (x1 to x4 are handled separately). */
.macro all_x op
  .irp n, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  \op x\n, X(\n)(sp)
  .endr
.endm

#if FP_BYTES > 0
/* Applies OP to the floating-point registers that a C function may change: ft0-7, fa0-7, ft8-11. */
.macro all_f op
  .set i, 0
  .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31
  \op f\n, FP(i)(sp)
  .set i, i + 1
  .endr
.endm
#endif

  .text
  .globl riscv_restart
  .type riscv_restart, @function
riscv_restart:
  csrci mstatus, MSTATUS_MIE
  la t0, bare_entry
  jr t0
  .size riscv_restart, . - riscv_restart

  .balign 4
  .globl bare_trap
  .type bare_trap, @function
bare_trap:
  csrrw sp, mscratch, sp
  bnez sp, from_thread
  la sp, bare_handler_stack_end /* a trap in a handler does not return: drop its frames */
from_thread:
  addi sp, sp, -(FRAME_BYTES + FP_BYTES)
  SREG x1, X(1)(sp)
  SREG x3, X(3)(sp)
  SREG x4, X(4)(sp)
  all_x SREG
  csrrw t0, mscratch, zero
  SREG t0, X(2)(sp)
  csrr t0, mepc
  SREG t0, (FRAME_PC * WORD)(sp)
  csrr t0, mcause
  SREG t0, (FRAME_CAUSE * WORD)(sp)
  csrr t0, mtval
  SREG t0, (FRAME_VALUE * WORD)(sp)
  csrr t0, mstatus
  SREG t0, (FRAME_STATUS * WORD)(sp)
#if FP_BYTES > 0
  li t0, MSTATUS_FS_INITIAL /* the interrupted code may have disabled floating point */
  csrs mstatus, t0
  all_f FSREG
  frcsr t0
  sw t0, FP(20)(sp)
#endif
  .option push
  .option norelax
  la gp, __global_pointer$ /* the interrupted code may have changed gp and tp */
  .option pop
  la tp, bare_tls_start
  mv a0, sp
  call riscv_trap
#if FP_BYTES > 0
  lw t0, FP(20)(sp)
  fscsr t0
  all_f FLREG
#endif
  LREG t0, (FRAME_STATUS * WORD)(sp)
  csrw mstatus, t0
  LREG t0, (FRAME_PC * WORD)(sp)
  csrw mepc, t0
  addi t0, sp, FRAME_BYTES + FP_BYTES
  csrw mscratch, t0
  LREG x1, X(1)(sp)
  LREG x3, X(3)(sp)
  LREG x4, X(4)(sp)
  all_x LREG
  LREG sp, X(2)(sp)
  mret
  .size bare_trap, . - bare_trap
