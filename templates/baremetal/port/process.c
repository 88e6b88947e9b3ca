// SPDX-License-Identifier: Apache-2.0
//
// The port of a process: standard input and output are the link, the system's clock is the timer.
//
// Exit statuses: 0 the host closed the link or requested the end; 1 the link broke, or a system call failed; 2
// TVMPlatformAbort, with the error on standard error.
//
// If the parent names a file in BOARDSMITH_FAULT_FILE, faults work as on a chip: after a fault, an abort or an exceeded
// time budget, the program writes the record (fault.h) to that file, restarts itself on the same link, reads the record
// back and delivers it to the host. Without the file, faults end the program, and budgets are not enforced.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1  // environ
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <ucontext.h>
#include <unistd.h>

#include "fault.h"
#include "port.h"
#include "process_id.h"
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#include <boardsmith/upload.h>
#endif

enum { EXIT_ABORT = 2, LINK_IN = 0, LINK_OUT = 1 };

#define INPUT_BYTES 65536U
#define OUTPUT_BYTES 65536U

#define HANDLER_STACK_BYTES 65536U
#define BELOW_STACK_BYTES 65536U    // code may access the stack this far below the stack pointer
#define FRAME_MAX_BYTES 0x4000000U  // largest frame below the mapped stack

typedef struct process {
  uint8_t input[INPUT_BYTES];
  uint8_t output[OUTPUT_BYTES];
  uint32_t output_bytes;
  const char* fault_file;  // NULL: none
  const uint8_t* stack_end;
  uintptr_t page_bytes;
  uintptr_t kept_from;               // start of the stack in the record
  sigset_t mask;                     // inherited from the parent
  volatile sig_atomic_t has_served;  // input was received
  uint8_t build_id[BUILD_ID_BYTES];  // 0 without a note
  uint8_t handler_stack[HANDLER_STACK_BYTES] __attribute__((aligned(16)));
} process_t;

static process_t process;

// ---- Restart -----------------------------------------------------------------------------------------------------

// Executes the program again in the same process; returns only on failure. Async-signal-safe.
static void restart(void) {
  static char path[PATH_MAX];
  static const struct itimerval never;
  const ssize_t length = readlink("/proc/self/exe", path, (sizeof path) - 1U);
  if (length > 0) {
    path[length] = '\0';
    char* const argv[] = {path, NULL};
    (void)setitimer(ITIMER_REAL, &never, NULL);  // timer and signal mask would persist
    (void)sigprocmask(SIG_SETMASK, &process.mask, NULL);
    (void)execve(path, argv, environ);
  }
}

// Writes the record into the file; 0, or -1. Async-signal-safe.
static int32_t save_record(void) {
  uint32_t bytes = 0;
  const uint8_t* record = fault_record(&bytes);
  if ((process.fault_file == NULL) || (record == NULL)) {
    return -1;
  }
  const int file = open(process.fault_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) {
    return -1;
  }
  const ssize_t written = write(file, record, bytes);
  const int closed = close(file);
  return ((written == (ssize_t)bytes) && (closed == 0)) ? 0 : -1;
}

// Restores the record from the file and removes the file, so that it is delivered once.
static void load_record(void) {
  static uint8_t record[UINT16_MAX];
  if (process.fault_file == NULL) {
    return;
  }
  const int file = open(process.fault_file, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return;
  }
  const ssize_t got = read(file, record, sizeof record);
  (void)close(file);  // only read from
  (void)unlink(process.fault_file);
  if (got > 0) {
    fault_restore(record, (uint32_t)got);
  }
}

// ---- Faults ------------------------------------------------------------------------------------------------------

// A failed assert, in place of the C library's, whose text only standard error has.
void __assert_fail(const char* expression, const char* file, unsigned line, const char* function);
void __assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
  (void)function;
  (void)fprintf(stderr, "%s:%u: Check failed: %s\n", file, line, expression);
  fault_assertion(file, line, expression);
}

// Returns the first mapped byte at or after address; NULL if it is further than a frame. Async-signal-safe.
static const uint8_t* mapped_from(const process_t* p, uintptr_t address) {
  uint8_t residency = 0;
  for (uintptr_t at = address; (at - address) < FRAME_MAX_BYTES; at = (at | (p->page_bytes - 1U)) + 1U) {
    if (mincore((void*)(at & ~(p->page_bytes - 1U)), 1, &residency) == 0) {
      return (const uint8_t*)at;
    }
  }
  return NULL;
}

// Stores the mapped stack from sp up, and the load address of the image.
static void process_complete(void* ctx, fault_context_t* at) {
  process_t* p = ctx;
  const uintptr_t end = (uintptr_t)p->stack_end;
  at->status = (uintptr_t)__ehdr_start;
  if ((at->sp != 0U) && (at->sp < end)) {
    at->stack = mapped_from(p, at->sp);
  }
  if (at->stack != NULL) {
    const uintptr_t size_bytes = end - (uintptr_t)at->stack;
    at->stack_size_bytes = (size_bytes < UINT32_MAX) ? (uint32_t)size_bytes : UINT32_MAX;
    p->kept_from = (uintptr_t)at->stack;
    at->extra = &p->kept_from;
    at->extra_count = 1;
  }
}

// Returns the state at a signal; empty on other systems than those below.
static fault_context_t interrupted(const void* system_context) {
  fault_context_t at = {.flags = 0};
#if defined(__linux__) && defined(__x86_64__)
  const mcontext_t* m = &((const ucontext_t*)system_context)->uc_mcontext;
  at.pc = (uintptr_t)m->gregs[REG_RIP];
  at.sp = (uintptr_t)m->gregs[REG_RSP];
  at.flags = FAULT_PC_VALID | FAULT_SP_VALID;
#elif defined(__linux__) && defined(__aarch64__)
  const mcontext_t* m = &((const ucontext_t*)system_context)->uc_mcontext;
  at.pc = (uintptr_t)m->pc;
  at.sp = (uintptr_t)m->sp;
  at.lr = (uintptr_t)m->regs[30];
  at.flags = FAULT_PC_VALID | FAULT_SP_VALID;
#else
  (void)system_context;
#endif
  process_complete(&process, &at);
  return at;
}

// Returns whether a fault is a stack overflow: an access to unmapped memory between the stack pointer and the stack's
// end.
static int32_t is_overflow(int number, const siginfo_t* info, const fault_context_t* at) {
  const uintptr_t address = (uintptr_t)info->si_addr;
  return ((number == SIGSEGV) || (number == SIGBUS)) && (at->stack != NULL) &&
         (address >= (at->sp - BELOW_STACK_BYTES)) && (address < (uintptr_t)process.stack_end);
}

// Ends the process by the signal, as without a handler.
static void die(int number) {
  (void)signal(number, SIG_DFL);
  (void)sigprocmask(SIG_SETMASK, &process.mask, NULL);
  (void)raise(number);
}

static void on_fault(int number, siginfo_t* info, void* system_context) {
  const fault_context_t at = interrupted(system_context);
  const fault_reason_t reason = is_overflow(number, info, &at) ? FAULT_STACK : FAULT_HARDWARE;
  if (number == SIGABRT) {
    fault_keep(FAULT_CHECK, (uint32_t)kTvmErrorPlatformCheckFailure, &at);
  } else {
    fault_keep(reason, (uint32_t)number, &at);
  }
  if ((process.has_served != 0) && (save_record() == 0)) {
    restart();
  }
  die(number);
}

static void on_alarm(int number, siginfo_t* info, void* system_context) {
  (void)info;
  if (fault_budget_used(fault_budget_ms() + 1U) == 0) {
    return;  // the call has just ended
  }
  const fault_context_t at = interrupted(system_context);
  fault_keep(FAULT_TIMEOUT, fault_budget_ms(), &at);
  if (save_record() == 0) {
    restart();
  }
  die(number);
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

static int32_t handle(int number, int flags, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action;
  (void)memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | flags;
  (void)sigemptyset(&action.sa_mask);
  return (sigaction(number, &action, NULL) == 0) ? 0 : -1;
}

static int32_t handle_faults(void) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  const stack_t stack = {.ss_sp = process.handler_stack, .ss_flags = 0, .ss_size = sizeof process.handler_stack};
  if (sigaltstack(&stack, NULL) != 0) {
    return -1;
  }
  for (size_t i = 0; i < (sizeof faults / sizeof faults[0]); i++) {
    if (handle(faults[i], (int)SA_RESETHAND, on_fault) != 0) {  // a fault in the handler ends the process
      return -1;
    }
  }
  return handle(SIGALRM, SA_RESTART, on_alarm);
}

// ---- Uploaded code ------------------------------------------------------------------------------------------------

#if (BOARDSMITH_UPLOAD_BYTES) > 0
static int executable(void* base, size_t size_bytes, int on) {
  __builtin___clear_cache(base, &((char*)base)[size_bytes]);
  return mprotect(base, size_bytes, PROT_READ | PROT_WRITE | ((on != 0) ? PROT_EXEC : 0));
}

void* boardsmith_upload_symbol(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {  // the linker leaves out a library that the firmware itself does not use
    void* const library = dlopen("libm.so.6", RTLD_LAZY);
    found = (library != NULL) ? dlsym(library, name) : NULL;
  }
  return found;
}

// Maps the window at the same address in every process if it is free, so that code linked for one fits the next.
static int32_t open_window(void) {
  enum { ALIGNMENT = 64 };
  void* const wanted = (void*)(uintptr_t)0x40000000U;
  void* const window =
      mmap(wanted, BOARDSMITH_UPLOAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (window == MAP_FAILED) {
    return -1;
  }
  boardsmith_upload_open(window, BOARDSMITH_UPLOAD_BYTES, ALIGNMENT, executable);
  return 0;
}
#else
static int32_t open_window(void) { return 0; }
#endif

static int32_t process_init(void* ctx) {
  process_t* p = ctx;
  const char* file = getenv("BOARDSMITH_FAULT_FILE");
  const uint8_t here = 0;
  process_id(p->build_id);
  const uint8_t* top = (const uint8_t*)environ;  // lies above main's frame
  p->stack_end = ((uintptr_t)top > (uintptr_t)&here) ? top : &here;
  p->page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);  // never fails
  if ((sigprocmask(SIG_SETMASK, NULL, &p->mask) != 0) ||
      (signal(SIGPIPE, SIG_IGN) == SIG_ERR) ||  // a closed link is an error of write, not a signal
      (open_window() != 0)) {
    return -1;
  }
  if ((file != NULL) && (file[0] != '\0')) {
    p->fault_file = file;
    load_record();
  }
  fault_start(0);
  return (p->fault_file != NULL) ? handle_faults() : 0;
}

// ---- The link ----------------------------------------------------------------------------------------------------

static int32_t process_receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {
  process_t* p = ctx;
  struct pollfd link = {.fd = LINK_IN, .events = POLLIN, .revents = 0};
  const int ready = poll(&link, 1, (timeout_ms > (uint32_t)INT_MAX) ? -1 : (int)timeout_ms);
  if (ready <= 0) {
    return ((ready == 0) || (errno == EINTR)) ? 0 : PORT_CLOSED;
  }
  const ssize_t got = read(LINK_IN, p->input, INPUT_BYTES);
  if (got < 0) {
    return ((errno == EINTR) || (errno == EAGAIN)) ? 0 : PORT_CLOSED;
  }
  p->has_served = 1;
  *data = p->input;
  return (got == 0) ? PORT_CLOSED : (int32_t)got;
}

static int32_t process_flush(void* ctx) {
  process_t* p = ctx;
  uint32_t done = 0;
  while (done < p->output_bytes) {
    const ssize_t sent = write(LINK_OUT, &p->output[done], p->output_bytes - done);
    if (sent > 0) {
      done += (uint32_t)sent;
    } else if ((sent < 0) && (errno == EAGAIN)) {  // the link is non-blocking: wait for space
      struct pollfd link = {.fd = LINK_OUT, .events = POLLOUT, .revents = 0};
      (void)poll(&link, 1, -1);
    } else if ((sent >= 0) || (errno != EINTR)) {
      p->output_bytes = 0;
      return -1;
    } else {
      // Interrupted by a signal: try again.
    }
  }
  p->output_bytes = 0;
  return 0;
}

static int32_t process_send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  process_t* p = ctx;
  uint32_t done = 0;
  while (done < size_bytes) {
    const uint32_t room = OUTPUT_BYTES - p->output_bytes;
    const uint32_t rest = size_bytes - done;
    const uint32_t part = (rest < room) ? rest : room;
    (void)memcpy(&p->output[p->output_bytes], &data[done], part);
    p->output_bytes += part;
    done += part;
    if ((p->output_bytes == OUTPUT_BYTES) && (process_flush(p) != 0)) {
      return -1;
    }
  }
  return 0;
}

// ---- Time, random numbers, stop ----------------------------------------------------------------------------------

// Returns nanoseconds of a monotonic clock.
static uint64_t process_ticks(void* ctx) {
  struct timespec t;
  (void)ctx;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);  // cannot fail with this clock
  return ((uint64_t)t.tv_sec * 1000000000U) + (uint64_t)t.tv_nsec;
}

static uint32_t process_ticks_hz(void* ctx) {
  (void)ctx;
  return 1000000000U;
}

static void process_ticks_align(void* ctx) { (void)ctx; }  // needs no alignment

static uint32_t process_now_ms(void* ctx) { return (uint32_t)(process_ticks(ctx) / 1000000U); }

static int32_t process_random(void* ctx, uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  const int source = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (source < 0) {
    return -1;
  }
  uint32_t done = 0;
  while (done < size_bytes) {
    const ssize_t got = read(source, &data[done], size_bytes - done);
    if ((got <= 0) && ((got == 0) || (errno != EINTR))) {
      break;
    }
    done += (got > 0) ? (uint32_t)got : 0U;
  }
  (void)close(source);  // only read from
  return (done == size_bytes) ? 0 : -1;
}

static uint32_t process_image_crc(void* ctx, uint32_t crc) {
  (void)ctx;
  (void)crc;
  return 0;  // not in flash
}

static uint32_t process_chip_id(void* ctx, uint8_t* id, uint32_t max_bytes) {
  (void)ctx;
  (void)id;
  (void)max_bytes;
  return 0;  // a process has none
}

static void process_platform(void* ctx, port_platform_t* p) {
  (void)ctx;
  (void)p;  // unknown: managed by the operating system
}

static void process_stop(void* ctx, port_stop_t why, uint32_t error) {
  (void)ctx;
  if ((why == PORT_STOP_CLOSED) || (why == PORT_STOP_SHUTDOWN)) {
    _exit(EXIT_SUCCESS);
  }
  if (why == PORT_STOP_ABORT) {
    (void)fprintf(stderr, "firmware: aborted: error 0x%x\n", (unsigned)error);
    if ((process.has_served != 0) && (save_record() == 0)) {
      restart();
    }
    _exit(EXIT_ABORT);
  }
  (void)fprintf(stderr, "firmware: the link broke\n");
  _exit(EXIT_FAILURE);
}

const boardsmith_port_t boardsmith_port = {
    .ctx = &process,
    .arch = FAULT_ARCH_PROCESS,
    .build_id = process.build_id,
    .init = process_init,
    .receive = process_receive,
    .send = process_send,
    .flush = process_flush,
    .now_ms = process_now_ms,
    .ticks = process_ticks,
    .ticks_hz = process_ticks_hz,
    .ticks_align = process_ticks_align,
    .random = process_random,
    .image_crc = process_image_crc,
    .chip_id = process_chip_id,
    .platform = process_platform,
    .complete = process_complete,
    .stop = process_stop,
};

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
  restart();
  TVMAPISetLastError("the program cannot restart itself");
  return -1;
}
