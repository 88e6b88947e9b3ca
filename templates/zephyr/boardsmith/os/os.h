// SPDX-License-Identifier: Apache-2.0
//
// Between zephyr_port.c and the files for an architecture (fatal_arm.c, fatal_riscv.c, fatal_other.c).
#ifndef BOARDSMITH_OS_H_
#define BOARDSMITH_OS_H_

#include <stdint.h>

#include "fault.h"
#include "zephyr_api.h"

// Zephyr 3.7 renamed the type of the exception's frame.
#if KERNEL_VERSION_NUMBER >= 0x30700
typedef struct arch_esf os_frame_t;
#else
typedef z_arch_esf_t os_frame_t;
#endif

#define OS_FRAME_MAX_BYTES 0x100000U  // a stack pointer further below its stack is not caused by a frame

// The state at a fault, with the arrays that it points to.
typedef struct os_state {
  fault_context_t at;
  uintptr_t regs[FAULT_REGS_MAX];
  uintptr_t extra[FAULT_EXTRA_MAX];
  uint32_t code;     // of the record: the exception's number
  int32_t overflow;  // the stack has overflowed, whatever reason Zephyr found
} os_state_t;

// The thread's stack that the server and the operators run on; all 0 at a fault in another thread.
typedef struct os_stack {
  uintptr_t start;
  uintptr_t end;
} os_stack_t;

// Fills in the state at a fault. frame is Zephyr's; NULL: none.
void os_fault_state(os_state_t* state, const os_frame_t* frame, const os_stack_t* stack);

// Fills in the state that a timer's interrupt has interrupted, as far as the architecture shows it.
void os_interrupted_state(os_state_t* state, const os_stack_t* stack);

// Sets the part of the stack to record, from at->sp up, if that lies in the stack or just below it.
void os_keep_stack(fault_context_t* at, const os_stack_t* stack);

// Sets the core's flags and identification register in the report of boardsmith.platform.
struct port_platform;
void os_core(struct port_platform* p);

#if (BOARDSMITH_UPLOAD_BYTES) > 0
// Makes writes to the upload window visible to instruction fetches, and the window executable (on is 1) or not (0).
int os_executable(void* base, size_t size_bytes, int on);
#endif

#endif  // BOARDSMITH_OS_H_
