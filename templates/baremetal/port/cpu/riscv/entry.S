/* SPDX-License-Identifier: Apache-2.0
 *
 * The first instructions after a reset. A board's own start-up code replaces this file. For RV32 and RV64 in machine
 * mode (privileged architecture 1.10 or later), with or without floating point.
 */
#include "cpu/riscv/riscv.h"

#define MSTATUS_MIE 0x8
#define MSTATUS_FS_INITIAL 0x2000

  .section .boardsmith.vectors, "ax", @progbits
  .globl bare_entry
  .type bare_entry, @function
bare_entry:
  .cfi_startproc
  .cfi_undefined ra
  csrci mstatus, MSTATUS_MIE
  csrw mie, zero
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la t0, bare_trap
  csrw mtvec, t0
  la t0, bare_handler_stack_end
  csrw mscratch, t0
  la sp, bare_stack_end
  la tp, bare_tls_start
  csrr t0, mhartid
  bnez t0, park
#ifdef __riscv_flen
  li t0, MSTATUS_FS_INITIAL
  csrs mstatus, t0
  fscsr zero
#endif
  call chip_early
  call riscv_start
park: /* another hart */
  wfi
  j park
  .cfi_endproc
  .size bare_entry, . - bare_entry
