// SPDX-License-Identifier: Apache-2.0
//
// The state at a fault of a RISC-V, as Zephyr finds it. Its frame has the registers that a call may change; the others
// are recorded as 0.
//
// Source: "The RISC-V Instruction Set Manual, Volume II: Privileged Architecture", 20211203, chapter 3.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os.h"
#include "port.h"

#define READ_CSR(name)                                 \
  ({                                                   \
    uintptr_t value_;                                  \
    __asm__ volatile("csrr %0, " name : "=r"(value_)); \
    value_;                                            \
  })

#define CAUSE_INTERRUPT ((uintptr_t)1U << (__riscv_xlen - 1))
#define MSTATUS_FS ((uintptr_t)3U << 13)
enum { REGS = 31, EXTRA = 2 };

#define LOCAL_INTERRUPT 0x80000000U  // in the record, the number of an interrupt that has no external number

static void begin(os_state_t* state) {
  const uintptr_t cause = READ_CSR("mcause");
  const uint32_t number = (uint32_t)(cause & ~CAUSE_INTERRUPT);
  *state = (os_state_t){.code = ((cause & CAUSE_INTERRUPT) != 0U) ? (number | LOCAL_INTERRUPT) : number};
  state->at.regs = state->regs;
  state->at.reg_count = REGS;
  state->at.extra = state->extra;
  state->at.extra_count = EXTRA;
  state->at.status = cause;
  state->extra[0] = READ_CSR("mtval");
  state->extra[1] = READ_CSR("mstatus");
}

static void set_x(os_state_t* state, uint32_t number, uintptr_t value) { state->regs[number - 1U] = value; }

static void read_frame(os_state_t* state, const os_frame_t* frame) {
  set_x(state, 1, frame->ra);
  set_x(state, 5, frame->t0);
  set_x(state, 6, frame->t1);
  set_x(state, 7, frame->t2);
  set_x(state, 10, frame->a0);
  set_x(state, 11, frame->a1);
  set_x(state, 12, frame->a2);
  set_x(state, 13, frame->a3);
  set_x(state, 14, frame->a4);
  set_x(state, 15, frame->a5);
#ifndef CONFIG_RISCV_ISA_RV32E
  set_x(state, 16, frame->a6);
  set_x(state, 17, frame->a7);
  set_x(state, 28, frame->t3);
  set_x(state, 29, frame->t4);
  set_x(state, 30, frame->t5);
  set_x(state, 31, frame->t6);
#endif
  set_x(state, 2, (uintptr_t)frame + sizeof(*frame));
  state->at.lr = frame->ra;
  state->at.sp = (uintptr_t)frame + sizeof(*frame);
  state->at.pc = frame->mepc;
  state->extra[1] = frame->mstatus;
  state->at.flags = FAULT_PC_VALID | FAULT_SP_VALID;
}

// Without a frame only the instruction is known: Zephyr passes none to a timer's handler, or for an interrupt that
// nothing handles.
static void read_position(os_state_t* state) {
  state->at.pc = READ_CSR("mepc");
  state->at.flags = FAULT_PC_VALID;
}

// Zephyr's stack of interrupts, which its own header declares with a type of its kernel.
extern const uint8_t interrupt_stack[CONFIG_ISR_STACK_SIZE] __asm__("z_interrupt_stacks");

static bool is_interrupts(uintptr_t sp) {
  return (sp >= (uintptr_t)interrupt_stack) && (sp <= ((uintptr_t)interrupt_stack + sizeof(interrupt_stack)));
}

void os_fault_state(os_state_t* state, const os_frame_t* frame, const os_stack_t* stack) {
  begin(state);
  if (frame != NULL) {
    read_frame(state, frame);
    if (is_interrupts(state->at.sp)) {
      return;
    }
    state->overflow = (state->at.sp < stack->start) && ((stack->start - state->at.sp) <= OS_FRAME_MAX_BYTES);
  } else {
    read_position(state);
  }
  os_keep_stack(&state->at, stack);
}

void os_interrupted_state(os_state_t* state, const os_stack_t* stack) {
  (void)stack;
  begin(state);
  read_position(state);
}

void os_core(port_platform_t* p) { p->cpuid = (uint32_t)READ_CSR("marchid"); }

#if (BOARDSMITH_UPLOAD_BYTES) > 0
int os_executable(void* base, size_t size_bytes, int on) {
  (void)base;
  (void)size_bytes;
  (void)on;  // machine mode executes any RAM
  __asm__ volatile("fence.i" ::: "memory");
  return 0;
}
#endif

// ---- After a call ---------------------------------------------------------------------------------------------------

void port_restore(void) {
#ifdef __riscv_flen
  if ((READ_CSR("mstatus") & MSTATUS_FS) != 0U) {
    __asm__ volatile("fscsr zero" ::: "memory");
  }
#endif
  __asm__ volatile("csrsi mstatus, 8" ::: "memory");  // MIE
}
