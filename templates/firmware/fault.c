// SPDX-License-Identifier: Apache-2.0
//
// The fault record, the current call and its time budget.
#include "fault.h"

#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/platform.h>

#include "crt_config.h"
#include "port.h"
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#include <boardsmith/upload.h>
#endif

#ifndef BOARDSMITH_WATCHDOG_MS
#define BOARDSMITH_WATCHDOG_MS 0
#endif
#ifndef BOARDSMITH_BUDGET_MS
#define BOARDSMITH_BUDGET_MS 0
#endif

enum {
  MESSAGE_BYTES = 96,
  WORD_BYTES = (int)sizeof(uintptr_t),
  BUILD_BYTES = 8,
  HEAD_BYTES = 32 + (int)BUILD_BYTES,  // before the first word
  TAIL_BYTES = 8,                      // lengths of stack and message, CRC
  RECORD_BYTES = HEAD_BYTES + ((4 + 1 + (int)FAULT_REGS_MAX + 1 + (int)FAULT_EXTRA_MAX) * WORD_BYTES) +
                 (int)(BOARDSMITH_FAULT_STACK_BYTES) + (int)MESSAGE_BYTES + TAIL_BYTES,
  LEAST_BYTES = HEAD_BYTES + (6 * WORD_BYTES) + TAIL_BYTES
};
_Static_assert(RECORD_BYTES <= UINT16_MAX, "the record's length must fit 16 bits");

#define MAGIC 0x544C4642U
#define VERSION 1U
#define DELIVERED 0x454E4F44U
#define STARTED 0x52415453U
#define ACTIVE_MARK 0x534E5552U
#define NO_BUDGET UINT32_MAX
#define BOARD_BUDGET (((BOARDSMITH_BUDGET_MS) != 0) ? (uint32_t)(BOARDSMITH_BUDGET_MS) : NO_BUDGET)

// Data that a reset keeps.
typedef struct kept {
  uint8_t record[RECORD_BYTES];
  uint32_t delivered;  // DELIVERED: the host has received the record; STARTED: the program has started with it
  uint32_t function;   // of the current call, FAULT_FUNCTION_NONE between calls
  uint32_t active;     // ACTIVE_MARK ^ function: a reset would be unexpected
} kept_t;

static kept_t kept __attribute__((section(".boardsmith.noinit"), aligned(32)));

// The current call, or the last one.
typedef struct call_state {
  uint64_t start;                // in ticks
  volatile int32_t in_progress;  // 1 during the call
  volatile uint32_t used_ms;
  volatile uint32_t budget_ms;  // of each call; NO_BUDGET: none
  uint32_t ended;               // number of calls since the start of the program
  int32_t is_logged;            // the record's line was logged, or there was no record
  int32_t has_alarm;            // fault_alarm was requested
  uint32_t text_bytes;          // of a failed check
  char text[MESSAGE_BYTES];
} call_state_t;

static call_state_t call;

__attribute__((weak)) void fault_sync(const void* data, uint32_t size_bytes) {
  (void)data;
  (void)size_bytes;
}

__attribute__((weak)) void fault_alarm(uint32_t ms) { (void)ms; }

__attribute__((weak)) void port_restore(void) {}

// ---- Writing -----------------------------------------------------------------------------------------------------

// Appends bytes to the record, up to its size.
typedef struct writer {
  uint32_t at;
} writer_t;

static void put(writer_t* w, uint64_t value, uint32_t bytes) {
  for (uint32_t i = 0; (i < bytes) && (w->at < (uint32_t)RECORD_BYTES); i++) {
    kept.record[w->at] = (uint8_t)(value >> (8U * i));
    w->at++;
  }
}

static void put_bytes(writer_t* w, const void* data, uint32_t bytes) {
  const uint8_t* from = data;
  for (uint32_t i = 0; i < bytes; i++) {
    put(w, from[i], 1);
  }
}

static void put_words(writer_t* w, const uintptr_t* words, uint32_t count, uint32_t most) {
  const uint32_t n = ((words == NULL) || (count > most)) ? 0U : count;
  put(w, n, (uint32_t)WORD_BYTES);
  for (uint32_t i = 0; i < n; i++) {
    put(w, words[i], (uint32_t)WORD_BYTES);
  }
}

static uint32_t get(uint32_t at, uint32_t bytes) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < bytes; i++) {
    value |= (uint32_t)kept.record[at + i] << (8U * i);
  }
  return value;
}

// Returns the length of the record, 0 if it is invalid.
static uint32_t record_bytes(void) {
  const uint32_t length = get(6, 2);
  if ((get(0, 4) != MAGIC) || (get(4, 2) != VERSION) || (length < (uint32_t)LEAST_BYTES) ||
      (length > (uint32_t)RECORD_BYTES)) {
    return 0;
  }
  return (get(length - 4U, 4) == boardsmith_crc32(kept.record, (size_t)length - 4U)) ? length : 0U;
}

static bool is_pending(void) { return (kept.delivered != DELIVERED) && (record_bytes() != 0U); }

static bool is_active(void) { return kept.active == (ACTIVE_MARK ^ kept.function); }

static void mark_active(uint32_t function) {
  kept.function = function;
  kept.active = ACTIVE_MARK ^ function;
  fault_sync(&kept.function, 8);
}

// Returns the duration of the current call, 0 if unknown, as for a call from before a reset.
static uint64_t elapsed_ticks(void) {
  const uint64_t now = boardsmith_port.ticks(boardsmith_port.ctx);
  const bool valid = (call.in_progress != 0) && (now != UINT64_MAX) && (call.start != UINT64_MAX);
  return valid ? (now - call.start) : 0U;
}

static void write_record(fault_reason_t reason, uint32_t code, const fault_context_t* at) {
  writer_t w = {0};
  const uint32_t message_bytes = (reason == FAULT_CHECK) ? call.text_bytes : 0U;
  const uint32_t size_bytes = (at->stack == NULL) ? 0U : at->stack_size_bytes;
  const uint32_t stack_bytes =
      (size_bytes < (uint32_t)(BOARDSMITH_FAULT_STACK_BYTES)) ? size_bytes : (uint32_t)(BOARDSMITH_FAULT_STACK_BYTES);
  put(&w, MAGIC, 4);
  put(&w, VERSION, 2);
  put(&w, 0, 2);  // the length, set below
  put(&w, (uint32_t)reason, 1);
  put(&w, (uint32_t)WORD_BYTES, 1);
  put(&w, (uint32_t)boardsmith_port.arch, 1);
  put(&w, at->flags, 1);
  put(&w, code, 4);
  put(&w, is_active() ? kept.function : FAULT_FUNCTION_NONE, 4);
  put(&w, elapsed_ticks(), 8);
  put(&w, boardsmith_port.ticks_hz(boardsmith_port.ctx), 4);
  put_bytes(&w, boardsmith_port.build_id, (uint32_t)BUILD_BYTES);
  put(&w, at->pc, (uint32_t)WORD_BYTES);
  put(&w, at->lr, (uint32_t)WORD_BYTES);
  put(&w, at->sp, (uint32_t)WORD_BYTES);
  put(&w, at->status, (uint32_t)WORD_BYTES);
  put_words(&w, at->regs, at->reg_count, (uint32_t)FAULT_REGS_MAX);
  put_words(&w, at->extra, at->extra_count, (uint32_t)FAULT_EXTRA_MAX);
  put(&w, stack_bytes, 2);
  put(&w, message_bytes, 2);
  put_bytes(&w, at->stack, stack_bytes);
  put_bytes(&w, call.text, message_bytes);
  kept.record[6] = (uint8_t)(w.at + 4U);
  kept.record[7] = (uint8_t)((w.at + 4U) >> 8);
  put(&w, boardsmith_crc32(kept.record, w.at), 4);
  kept.delivered = 0;
}

void fault_keep(fault_reason_t reason, uint32_t code, const fault_context_t* at) {
  static const fault_context_t unknown;
  if (!is_pending()) {
    write_record(reason, code, (at != NULL) ? at : &unknown);
  }
  kept.active = 0;
  fault_sync(&kept, (uint32_t)sizeof kept);
}

// ---- Over a reset ------------------------------------------------------------------------------------------------

const uint8_t* fault_record(uint32_t* length_bytes) {
  *length_bytes = is_pending() ? record_bytes() : 0U;
  return (*length_bytes != 0U) ? kept.record : NULL;
}

void fault_restore(const uint8_t* record, uint32_t length_bytes) {
  if (length_bytes <= (uint32_t)RECORD_BYTES) {
    (void)memcpy(kept.record, record, length_bytes);
    kept.delivered = 0;
  }
}

// Returns whether the watchdog caused the reset. If the chip does not report the cause, a call in progress is the
// evidence: between calls the power may have failed.
static bool watchdog_reset(int32_t watchdog) {
  const bool guarded = (BOARDSMITH_WATCHDOG_MS) > 0;
  return is_active() && ((watchdog > 0) || ((watchdog < 0) && guarded && (kept.function != FAULT_FUNCTION_NONE)));
}

void fault_start(int32_t watchdog) {
  if (!is_pending()) {
    kept.delivered = DELIVERED;
    if (watchdog_reset(watchdog)) {
      fault_keep(FAULT_WATCHDOG, 0, NULL);
    }
  }
  mark_active(FAULT_FUNCTION_NONE);
  fault_sync(&kept, (uint32_t)sizeof kept);
  call.budget_ms = BOARD_BUDGET;
}

static int32_t send_text(const char* text, uint32_t bytes) {
  return boardsmith_port.send(boardsmith_port.ctx, (const uint8_t*)text, bytes);
}

// Sends nothing more after an error: the transmitter accepts no byte.
void fault_repeat(void) {
  static const char begin[] = "\n#fault ";
  const bool again = kept.delivered == STARTED;
  if (!is_pending()) {
    return;
  }
  kept.delivered = STARTED;
  fault_sync(&kept.delivered, 4);

  const uint32_t bytes = again ? record_bytes() : 0U;
  int32_t error = again ? send_text(begin, (uint32_t)((sizeof begin) - 1U)) : -1;
  for (uint32_t i = 0; (i < bytes) && (error == 0); i++) {
    static const char digits[] = "0123456789abcdef";
    const char hex[] = {digits[kept.record[i] >> 4], digits[kept.record[i] & 15U]};
    error = send_text(hex, (uint32_t)sizeof hex);
  }
  if (error == 0) {
    (void)send_text("\n", 1);
  }
}

void fault_expect_reset(void) {
  kept.active = 0;
  fault_sync(&kept, (uint32_t)sizeof kept);
}

// ---- The current call --------------------------------------------------------------------------------------------

void boardsmith_call_begins(TVMFunctionHandle f) {
  call.start = boardsmith_port.ticks(boardsmith_port.ctx);
  call.used_ms = 0;  // before a tick counts
  call.text_bytes = 0;
  call.in_progress = 1;
  mark_active((uint32_t)(uintptr_t)f);
  fault_budget_begins();
}

void fault_budget_begins(void) {
  call.used_ms = 0;
  if (call.budget_ms != NO_BUDGET) {
    call.has_alarm = 1;
    fault_alarm(call.budget_ms);
  }
}

void boardsmith_call_ends(void) {
  call.in_progress = 0;  // first: a tick that was masked comes at once
  port_restore();
  call.ended++;
  if (call.has_alarm != 0) {
    call.has_alarm = 0;
    fault_alarm(0);
  }
  mark_active(FAULT_FUNCTION_NONE);
}

static bool is_failed_check(const char* text, size_t size_bytes) {
  static const char words[] = ": Check failed: ";
  const size_t bytes = (sizeof words) - 1U;
  for (size_t i = 0; (i + bytes) <= size_bytes; i++) {
    if (memcmp(&text[i], words, bytes) == 0) {
      return true;
    }
  }
  return false;
}

// Keeps the lines that CHECK and its variants log before they abort: the failed check, and an optional message.
void boardsmith_logged(const char* text, size_t size_bytes) {
  if (is_failed_check(text, size_bytes)) {
    call.text_bytes = 0;
  } else if (call.text_bytes == 0U) {
    return;
  } else if (call.text_bytes < (uint32_t)MESSAGE_BYTES) {
    call.text[call.text_bytes] = ' ';
    call.text_bytes++;
  }
  for (size_t i = 0; (i < size_bytes) && (call.text_bytes < (uint32_t)MESSAGE_BYTES); i++) {
    call.text[call.text_bytes] = text[i];
    call.text_bytes++;
  }
}

fault_call_t fault_tick(uint32_t ms) {
  if (call.in_progress == 0) {
    return FAULT_CALL_NONE;
  }
  const uint32_t used_ms = call.used_ms + ms;
  call.used_ms = used_ms;
  return (used_ms > call.budget_ms) ? FAULT_CALL_LATE : FAULT_CALL;  // >, because the first tick may come early
}

uint32_t fault_budget_ms(void) { return call.budget_ms; }

void boardsmith_session_begins(void) {
  call.budget_ms = BOARD_BUDGET;
#if (BOARDSMITH_UPLOAD_BYTES) > 0
  boardsmith_upload_session_begins();
#endif
}

// ---- A failed check ----------------------------------------------------------------------------------------------

// Records an abort. caller is the return address and sp the stack pointer at the call. pc is set inside the call, so
// that it resolves to the call's line.
static void keep_abort(tvm_crt_error_t error, uintptr_t caller, const uint8_t* sp) {
  const uintptr_t pc = (caller & ~(uintptr_t)1U) - 2U;
  fault_context_t at = {.flags = FAULT_PC_VALID | FAULT_SP_VALID, .pc = pc, .lr = caller, .sp = (uintptr_t)sp};
  boardsmith_port.complete(boardsmith_port.ctx, &at);
  fault_keep(FAULT_CHECK, (uint32_t)error, &at);
}

// Records and logs the error, then lets the port reset or end.
void TVMPlatformAbort(tvm_crt_error_t error) {
  static bool is_aborting;
  if (!is_aborting) {  // else an abort during the first one
    is_aborting = true;
    keep_abort(error, (uintptr_t)__builtin_return_address(0), __builtin_dwarf_cfa());
    LOG_ERROR("aborted: error 0x%x", (unsigned)error);
    (void)boardsmith_port.flush(boardsmith_port.ctx);  // a broken link cannot be reported
  }
  boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_ABORT, (uint32_t)error);
  for (;;) {
    // A port's stop does not return.
  }
}

// Appends to the text of a failed check.
static void append(const char* text) {
  for (size_t i = 0; (text[i] != '\0') && (call.text_bytes < (uint32_t)MESSAGE_BYTES); i++) {
    call.text[call.text_bytes] = text[i];
    call.text_bytes++;
  }
}

void fault_assertion(const char* file, unsigned line, const char* expression) {
  char digits[11];  // of 32 bits, and the end
  size_t at = (sizeof digits) - 1U;
  unsigned left = line;
  digits[at] = '\0';
  do {
    at--;
    digits[at] = "0123456789"[left % 10U];
    left /= 10U;
  } while ((left != 0U) && (at > 0U));
  call.text_bytes = 0;
  append(file);
  append(":");
  append(&digits[at]);
  append(": Check failed: ");
  append(expression);
  TVMPlatformAbort(kTvmErrorPlatformCheckFailure);
}

// ---- For the host ------------------------------------------------------------------------------------------------

void fault_log(void) {
  if ((call.is_logged != 0) || (call.ended == 0U)) {
    return;
  }
  call.is_logged = 1;
  if (is_pending()) {
    TVMLogf("fault before this session: reason %u, code 0x%x, function 0x%x, pc 0x%x", (unsigned)kept.record[8],
            (unsigned)get(12, 4), (unsigned)get(16, 4), (unsigned)get((uint32_t)HEAD_BYTES, 4));
  }
}

int fault_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                 void* resource_handle) {
  static TVMByteArray result;
  (void)resource_handle;
  if (num_args > 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if ((num_args == 1) && (type_codes[0] != kTVMArgInt)) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  *out_type = kTVMNullptr;
  out_value->v_handle = NULL;
  if (is_pending()) {
    const uint32_t bytes = record_bytes();
    const bool received = (num_args == 1) && ((uint32_t)args[0].v_int64 == get(bytes - 4U, 4));
    if (!received) {
      result.data = (const char*)kept.record;
      result.size = bytes;
      out_value->v_handle = &result;
      *out_type = kTVMBytes;
    }
    if (received || (num_args == 0)) {
      kept.delivered = DELIVERED;
      fault_sync(&kept.delivered, 4);
    }
  }
  return 0;
}

int fault_budget_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                        void* resource_handle) {
  (void)resource_handle;
  if (num_args != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (type_codes[0] != (int)kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if ((args[0].v_int64 < 0) || (args[0].v_int64 > (int64_t)(UINT32_MAX / 2U))) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  call.budget_ms = (args[0].v_int64 != 0) ? (uint32_t)args[0].v_int64 : BOARD_BUDGET;
  out_value->v_handle = NULL;
  *out_type = kTVMNullptr;
  return 0;
}
