// SPDX-License-Identifier: Apache-2.0
//
// The fault record, in RAM that a reset keeps until the host requests it; the function and time budget of the current
// call. On a fault, a port calls fault_keep and then resets. After the restart, the host gets the record
// (`boardsmith.fault`). Independent of chip and core: the port passes the state.
//
// The record's layout, field by field: "The fault record" in boardsmith's docs/formats/boardsmith.md.
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

// The record's values, with their codes and registers: boardsmith.md.
typedef enum fault_reason {
  FAULT_HARDWARE = 1,
  FAULT_CHECK = 2,
  FAULT_STACK = 3,
  FAULT_TIMEOUT = 4,
  FAULT_WATCHDOG = 5,
  FAULT_INTERRUPT = 6,
} fault_reason_t;

typedef enum fault_arch {
  FAULT_ARCH_CORTEX_M = 1,
  FAULT_ARCH_RISCV = 2,
  FAULT_ARCH_PROCESS = 3,
} fault_arch_t;

enum { FAULT_PC_VALID = 1, FAULT_SP_VALID = 2 };
enum { FAULT_REGS_MAX = 31, FAULT_EXTRA_MAX = 5 };

// The state at a fault. Its pointers are only read during the call.
typedef struct fault_context {
  uint32_t flags;             // FAULT_PC_VALID, FAULT_SP_VALID
  uintptr_t pc;               // of the instruction, or the call's return address
  uintptr_t lr;               // the return address register
  uintptr_t sp;               // before the exception
  uintptr_t status;           // xPSR, mcause, a process's load address
  const uintptr_t* regs;      // may be NULL
  uint32_t reg_count;         // at most FAULT_REGS_MAX
  const uintptr_t* extra;     // the record's second list of words; order: boardsmith.md
  uint32_t extra_count;       // at most FAULT_EXTRA_MAX
  const uint8_t* stack;       // the stack to record, lowest address first; NULL: none
  uint32_t stack_size_bytes;  // its size; at most BOARDSMITH_FAULT_STACK_BYTES are recorded
} fault_context_t;

// Function handles for "none" and for a run of an AOT executor.
#define FAULT_FUNCTION_NONE UINT32_MAX
#define FAULT_FUNCTION_AOT_RUN (UINT32_MAX - 1U)

// Writes the record; at may be NULL. The text of a failed check is what the current call logged, at most 96 bytes. A
// record that the host has not received yet is kept instead, because the first fault is the cause of later ones. May be
// called from any context with about 250 bytes of free stack.
void fault_keep(fault_reason_t reason, uint32_t code, const fault_context_t* at);

// Returns the record's bytes, or NULL without a record, for a port that must save it because a restart clears RAM (a
// process).
const uint8_t* fault_record(uint32_t* length_bytes);

// Restores the bytes that fault_record returned before the restart. Call before fault_start.
void fault_restore(const uint8_t* record, uint32_t length_bytes);

// Call once at the start, before any call runs. Drops an invalid record (RAM at power-on). If the watchdog caused the
// reset, makes a record with the call's function and an unknown duration. watchdog: 1 yes, 0 no, -1 unknown (then yes
// if a call was in progress).
void fault_start(int32_t watchdog);

// Sends the record as a line of text (boardsmith.md) if the program has started before with the same one: it may fault
// at each start, before a host can request the record. Call as early as the port can send, before other code may fault.
void fault_repeat(void);

// Call before an intended reset, which then leaves no record.
void fault_expect_reset(void);

typedef enum fault_call {
  FAULT_CALL_NONE = 0,  // no call is in progress
  FAULT_CALL = 1,
  FAULT_CALL_LATE = 2,  // the current call has exceeded its budget
} fault_call_t;

// Called by the tick with the elapsed milliseconds, which count as used by the current call.
fault_call_t fault_tick(uint32_t ms);

// Returns the current call's budget in ms, set by the session's host, else the board's own; UINT32_MAX: no budget.
uint32_t fault_budget_ms(void);

// Counts the current call's budget from now. A timed call has the whole one for each of its samples.
void fault_budget_begins(void);

// A failed assert: TVMPlatformAbort with the place and the condition as the text of the failed check. Does not return.
_Noreturn void fault_assertion(const char* file, unsigned line, const char* expression);

// Call after each reply. Logs one line about a record to a host that made its first call without requesting the record.
void fault_log(void);

// Defined by a port without a tick: requests a check of the budget after ms; 0 cancels the request. Weak default: no
// effect.
void fault_alarm(uint32_t ms);

// Defined by a port with a write-back cache that a reset clears: writes the bytes to RAM. Weak default: no effect.
void fault_sync(const void* data, uint32_t size_bytes);

// boardsmith.fault([received]) -> bytes (the record) or null, and boardsmith.budget(ms) -> null.
int fault_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                 void* resource_handle);
int fault_budget_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                        void* resource_handle);

#endif  // BOARDSMITH_FAULT_H_
