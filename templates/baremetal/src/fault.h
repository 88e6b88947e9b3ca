// SPDX-License-Identifier: Apache-2.0
//
// What is kept of a fault until the host asks: one record in RAM that a reset leaves alone, the function that runs,
// and its time budget. Ports call fault_keep when something went wrong and then reset; the next start finds the record
// and gives it to the host (`boardsmith.fault`). This part knows no chip and no core: a port hands it what it saw.
//
// The record's layout, field by field: "The fault record" in boardsmith's SPEC.md.
#ifndef BOARDSMITH_FAULT_H_
#define BOARDSMITH_FAULT_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#include "crt_config.h"

#ifndef BOARDSMITH_FAULT_STACK_BYTES
#if UINTPTR_MAX > 0xFFFFFFFFU
#define BOARDSMITH_FAULT_STACK_BYTES 4096
#else
#define BOARDSMITH_FAULT_STACK_BYTES 512
#endif
#endif

typedef enum fault_reason {
  FAULT_HARDWARE = 1,   // code: the exception's number (Cortex-M), mcause (RISC-V), the signal (process)
  FAULT_CHECK = 2,      // TVMPlatformAbort; code: the tvm_crt_error_t
  FAULT_STACK = 3,      // stack overflow; code as for FAULT_HARDWARE, 0: the handlers', found later
  FAULT_TIMEOUT = 4,    // the time budget; code: the budget in ms
  FAULT_WATCHDOG = 5,   // found after a reset by the watchdog: what ran is known, where it stood is not
  FAULT_INTERRUPT = 6,  // an interrupt that nothing handles; code: its number, from 0 for the first external one
} fault_reason_t;

// Which core's registers the record holds.
typedef enum fault_arch {
  FAULT_ARCH_CORTEX_M = 1,  // regs: r0 to r12
  FAULT_ARCH_RISCV = 2,     // regs: x1 to x31
  FAULT_ARCH_PROCESS = 3,   // regs: none
} fault_arch_t;

enum { FAULT_PC_VALID = 1, FAULT_SP_VALID = 2 };
enum { FAULT_REGS_MAX = 31, FAULT_EXTRA_MAX = 5 };

// What a port saw. Everything it points to is only read while the call runs.
typedef struct fault_context {
  uint32_t flags;             // FAULT_PC_VALID, FAULT_SP_VALID
  uintptr_t pc;               // of the instruction, or of the call's return
  uintptr_t lr;               // the return address register
  uintptr_t sp;               // before the exception
  uintptr_t status;           // xPSR, mcause, a process's load address
  const uintptr_t* regs;      // may be NULL
  uint32_t reg_count;         // at most FAULT_REGS_MAX
  const uintptr_t* extra;     // the record's second list of words, whose order SPEC.md has for each architecture
  uint32_t extra_count;       // at most FAULT_EXTRA_MAX
  const uint8_t* stack;       // what to keep of the stack, lowest address first; NULL: none
  uint32_t stack_size_bytes;  // how much there is; BOARDSMITH_FAULT_STACK_BYTES of it are kept
} fault_context_t;

// The function handle that stands for "none" and for a run of an AOT executor.
#define FAULT_FUNCTION_NONE UINT32_MAX
#define FAULT_FUNCTION_AOT_RUN (UINT32_MAX - 1U)

// Writes the record; at may be NULL. The text of a failed check is what the running call logged of it, at most 96 bytes.
// A record that the host has not yet had is kept instead: the first fault is the cause of the next. From any context, as
// long as the caller has about 250 bytes of stack.
void fault_keep(fault_reason_t reason, uint32_t code, const fault_context_t* at);

// The record as it is to be kept over a reset where RAM is not (a process): its bytes, or NULL without one.
const uint8_t* fault_record(uint32_t* length_bytes);

// Puts back what fault_record gave before the reset; before fault_start.
void fault_restore(const uint8_t* record, uint32_t length_bytes);

// At a start, once, before any call runs: drops what is no record (RAM at power-on), and if the watchdog caused the
// reset makes a record of what ran; how long is not known then. watchdog: 1 yes, 0 no, -1 the chip does not say (then:
// if a call ran).
void fault_start(int32_t watchdog);

// The reset that follows is meant: nothing that runs is to be told of as the watchdog's victim.
void fault_reset_is_meant(void);

// From the tick with the milliseconds that passed: 1 if the running call has used up its budget, else 0.
int32_t fault_budget_used(uint32_t ms);

// The running call's budget in ms, 0 without one: what the session's host has set, else the board's own.
uint32_t fault_budget_ms(void);

// 1 while a call runs, else 0. Inside its budget, if asked after fault_budget_used. From the tick.
int32_t fault_call_runs(void);

// After a reply went out: tells a host that has made its first call without asking for the record, by one line of log.
void fault_tell(void);

// Given by a port without a tick: calls for what bare_tick does after ms have passed; 0: not any more. Weak default:
// nothing.
void fault_alarm(uint32_t ms);

// Given by a port whose RAM is behind a cache that a reset empties: makes sure that the bytes are in RAM. Weak default:
// nothing.
void fault_sync(const void* data, uint32_t size_bytes);

// boardsmith.fault() -> bytes (the record) or null, and boardsmith.budget(ms) -> null.
int fault_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                 void* resource_handle);
int fault_budget_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                        void* resource_handle);

#endif  // BOARDSMITH_FAULT_H_
