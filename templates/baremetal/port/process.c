// SPDX-License-Identifier: Apache-2.0
//
// The port of a process: standard input and output are the link, the system's clock is the timer. src/process.h has
// what this port shares with Zephyr's native boards, and describes exit statuses and faults.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1  // environ
#endif
#include "process.h"

#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <tvm/runtime/c_backend_api.h>
#include <unistd.h>

#include "fault.h"
#include "port.h"
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#include <boardsmith/upload.h>
#endif

#define FRAME_MAX_BYTES 0x4000000U  // largest frame below the mapped stack

static uintptr_t page_bytes;

static void process_restore(void) {
  static const struct itimerval never;
  (void)setitimer(ITIMER_REAL, &never, NULL);
  (void)sigprocmask(SIG_SETMASK, &process.mask, NULL);
}

// ---- Faults ------------------------------------------------------------------------------------------------------

// A failed assert, in place of the C library's, whose text only standard error has.
void __assert_fail(const char* expression, const char* file, unsigned line, const char* function);
void __assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
  (void)function;
  (void)fprintf(stderr, "%s:%u: Check failed: %s\n", file, line, expression);
  fault_assertion(file, line, expression);
}

// The beginning of what a check of the compiler passes.
typedef struct process_check {
  const char* file;
  uint32_t line;
  uint32_t column;
} process_check_t;

// Called by operators in place of a conversion to an integer type that does not hold the number.
void __ubsan_handle_float_cast_overflow_abort(const process_check_t* at, uintptr_t number);
void __ubsan_handle_float_cast_overflow_abort(const process_check_t* at, uintptr_t number) {
  (void)number;
  fault_assertion(at->file, at->line, "the number fits the integer type");
}

static const uint8_t* process_stack(uintptr_t sp) {
  uint8_t residency = 0;
  for (uintptr_t at = sp; (sp < process.stack_end) && ((at - sp) < FRAME_MAX_BYTES);
       at = (at | (page_bytes - 1U)) + 1U) {
    if (mincore((void*)(at & ~(page_bytes - 1U)), 1, &residency) == 0) {
      return (const uint8_t*)at;
    }
  }
  return NULL;
}

void fault_alarm(uint32_t ms) {
  const struct itimerval when = {
      .it_interval = {0, 0},
      .it_value = {.tv_sec = (time_t)(ms / 1000U), .tv_usec = (suseconds_t)((ms % 1000U) * 1000U)},
  };
  if (process.fault_file != NULL) {
    (void)setitimer(ITIMER_REAL, &when, NULL);  // cannot fail: valid arguments
  }
}

// ---- Uploaded code ------------------------------------------------------------------------------------------------

#if (BOARDSMITH_UPLOAD_BYTES) > 0
static int executable(void* base, size_t size_bytes, int on) {
  __builtin___clear_cache(base, &((char*)base)[size_bytes]);
  return mprotect(base, size_bytes, PROT_READ | PROT_WRITE | ((on != 0) ? PROT_EXEC : 0));
}

void* boardsmith_upload_symbol(const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == NULL) {  // the linker leaves out a library that the firmware itself does not use
    void* const library = dlopen("libm.so.6", RTLD_LAZY);
    symbol = (library != NULL) ? dlsym(library, name) : NULL;
  }
  return symbol;
}

// Maps the window at the same address in every process if it is free, so that code linked for one fits the next.
static int32_t open_window(void) {
  enum { ALIGNMENT = 64 };
  void* const address = (void*)(uintptr_t)0x40000000U;
  void* const window =
      mmap(address, BOARDSMITH_UPLOAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (window == MAP_FAILED) {
    return -1;
  }
  boardsmith_upload_open(window, BOARDSMITH_UPLOAD_BYTES, ALIGNMENT, executable);
  return 0;
}
#else
static int32_t open_window(void) { return 0; }
#endif

// ---- Start and link ----------------------------------------------------------------------------------------------

static int32_t process_init(void* ctx) {
  process_t* p = ctx;
  const uint8_t local = 0;
  const uint8_t* top = (const uint8_t*)environ;  // lies above main's frame
  p->stack_end = ((uintptr_t)top > (uintptr_t)&local) ? (uintptr_t)top : (uintptr_t)&local;
  p->stack_start = p->stack_end;                  // unknown: the system maps the stack on demand
  page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);  // never fails
  if ((sigprocmask(SIG_SETMASK, NULL, &p->mask) != 0) || (open_window() != 0)) {
    return -1;
  }
  return process_start(p);
}

static int process_wait(uint32_t timeout_ms) {
  struct pollfd link = {.fd = STANDARD_INPUT, .events = POLLIN, .revents = 0};
  return poll(&link, 1, (timeout_ms > (uint32_t)INT_MAX) ? -1 : (int)timeout_ms);
}

// tvm.testing.reset_server(): restarts the program on the same link, like the reset of a board. Does not return.
int process_reset_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                         void* resource_handle);
int process_reset_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                         void* resource_handle) {
  (void)args;  // ignored
  (void)type_codes;
  (void)num_args;
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  process_restart();
  TVMAPISetLastError("the program cannot restart itself");
  return -1;
}
