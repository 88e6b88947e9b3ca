// SPDX-License-Identifier: Apache-2.0
//
// The common part of the ports of processes (process.c of the template baremetal, os/native_port.c of zephyr): link,
// clock, random numbers, faults and end. The port includes this file once and defines the functions declared below.
//
// Exit statuses: 0 the host closed the link or requested the end; 1 the link broke, or a system call failed; 2
// TVMPlatformAbort, with the error on standard error.
//
// If the parent names a file in BOARDSMITH_FAULT_FILE, faults work as on a chip: after a fault, an abort or an exceeded
// time budget, the program writes the record (fault.h) to that file, restarts itself on the same link, reads the record
// back and delivers it to the host. A program that has received nothing yet ends instead, and leaves the record in the
// file. Without the file, faults end the program, and budgets are not enforced.
#ifndef BOARDSMITH_PROCESS_H_
#define BOARDSMITH_PROCESS_H_

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
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <tvm/runtime/crt/error_codes.h>
#include <ucontext.h>
#include <unistd.h>

#include "fault.h"
#include "port.h"
#include "process_id.h"

enum { EXIT_ABORT = 2, STANDARD_INPUT = 0, STANDARD_OUTPUT = 1, STANDARD_ERROR = 2 };

#define INPUT_BYTES 65536U
#define OUTPUT_BYTES 65536U
#define HANDLER_STACK_BYTES 65536U
#define BELOW_STACK_BYTES 65536U  // code may access the stack this far below the stack pointer

typedef struct process {
  uint8_t input[INPUT_BYTES];
  uint8_t output[OUTPUT_BYTES];
  uint32_t output_bytes;
  int link_out;            // the link's output, to which nothing else prints; its input is standard input
  const char* fault_file;  // NULL: none
  uintptr_t stack_start;   // of the thread that serves; stack_end if unknown
  uintptr_t stack_end;
  uintptr_t kept_from;               // start of the stack in the record
  sigset_t mask;                     // inherited from the parent
  mode_t file_mask;                  // the same
  int folder;                        // the working folder, which is the same
  volatile sig_atomic_t has_served;  // input was received
  uint8_t build_id[BUILD_ID_BYTES];  // 0 without a note
  uint8_t handler_stack[HANDLER_STACK_BYTES] __attribute__((aligned(16)));
} process_t;

static process_t process;

// ---- Defined by the port -----------------------------------------------------------------------------------------

// Sets the stack and the mask, then calls process_start.
static int32_t process_init(void* ctx);

// Returns the lowest readable byte of the stack at or above sp; NULL: sp is in another stack. Async-signal-safe.
static const uint8_t* process_stack(uintptr_t sp);

// Restores the signal mask, and ends timers. Async-signal-safe.
static void process_restore(void);

// Waits for input like poll: returns 1 with input, 0 after timeout_ms, negative on errors.
static int process_wait(uint32_t timeout_ms);

// ---- After a call ------------------------------------------------------------------------------------------------

// Restores what exec keeps, too. Async-signal-safe.
void port_restore(void) {
#if defined(__x86_64__)
  const uint32_t sse_mode = 0x1F80;  // the mode at the start of a process
  __asm__ volatile("cld\n fninit\n ldmxcsr %0" ::"m"(sse_mode) : "memory");
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, xzr" ::: "memory");
#endif
  (void)umask(process.file_mask);
  const int restored = fchdir(process.folder);
  (void)restored;  // it fails if the folder was removed
  process_restore();
}

// ---- Restart -----------------------------------------------------------------------------------------------------

// Executes the program again in the same process; returns only on failure. Async-signal-safe.
static void process_restart(void) {
  static char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, (sizeof path) - 1U);
  if (length > 0) {
    path[length] = '\0';
    char* const argv[] = {path, NULL};
    port_restore();
    (void)dup2(process.link_out, (int)STANDARD_OUTPUT);
    (void)execve(path, argv, environ);
  }
}

// Writes the record into the file; 0, or -1. Async-signal-safe.
static int32_t process_save(void) {
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
static void process_load(void) {
  static uint8_t record[UINT16_MAX];
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

// Stores the stack from sp up, and the load address of the image.
static void process_complete(void* ctx, fault_context_t* at) {
  process_t* p = ctx;
  at->status = (uintptr_t)__ehdr_start;
  at->stack = (at->sp != 0U) ? process_stack(at->sp) : NULL;
  if (at->stack != NULL) {
    const uintptr_t size_bytes = p->stack_end - (uintptr_t)at->stack;
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

// Returns whether a fault is a stack overflow: an access near the stack pointer, where the stack may be unmapped.
static int32_t is_overflow(int number, const siginfo_t* info, const fault_context_t* at) {
  const uintptr_t address = (uintptr_t)info->si_addr;
  return ((number == SIGSEGV) || (number == SIGBUS)) && (at->stack != NULL) &&
         (address >= (at->sp - BELOW_STACK_BYTES)) && (address < process.stack_start);
}

// Ends the process by the signal, as without a handler.
static void die(int number) {
  (void)signal(number, SIG_DFL);
  process_restore();
  (void)raise(number);
}

static void on_fault(int number, siginfo_t* info, void* system_context) {
  const fault_context_t at = interrupted(system_context);
  const fault_reason_t reason = (is_overflow(number, info, &at) != 0) ? FAULT_STACK : FAULT_HARDWARE;
  if (number == SIGABRT) {
    fault_keep(FAULT_CHECK, (uint32_t)kTvmErrorPlatformCheckFailure, &at);
  } else {
    fault_keep(reason, (uint32_t)number, &at);
  }
  if ((process_save() == 0) && (process.has_served != 0)) {
    process_restart();
  }
  die(number);
}

static void on_alarm(int number, siginfo_t* info, void* system_context) {
  (void)info;
  if (fault_tick(fault_budget_ms() + 1U) != FAULT_CALL_LATE) {
    return;  // the call has just ended
  }
  const fault_context_t at = interrupted(system_context);
  fault_keep(FAULT_TIMEOUT, fault_budget_ms(), &at);
  if (process_save() == 0) {
    process_restart();
  }
  die(number);
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

// Reads the build id, and makes lines that are printed go to standard error. If the parent named a file, loads the
// record in it and handles faults. Returns 0, or -1 if a system call fails.
static int32_t process_start(process_t* p) {
  const char* file = getenv("BOARDSMITH_FAULT_FILE");
  process_id(p->build_id);
  p->file_mask = umask(0);
  (void)umask(p->file_mask);
  p->folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // negative if there is none to restore
  p->link_out = fcntl((int)STANDARD_OUTPUT, F_DUPFD_CLOEXEC, 3);
  if ((p->link_out < 0) || (dup2((int)STANDARD_ERROR, (int)STANDARD_OUTPUT) < 0) ||
      (setvbuf(stdout, NULL, _IOLBF, 0) != 0)) {
    return -1;
  }
  if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) {  // a closed link is an error of write, not a signal
    return -1;
  }
  if ((file != NULL) && (file[0] != '\0')) {
    p->fault_file = file;
    process_load();
  }
  fault_start(0);
  return (p->fault_file != NULL) ? handle_faults() : 0;
}

// ---- The link ----------------------------------------------------------------------------------------------------

static int32_t process_receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {
  process_t* p = ctx;
  const int ready = process_wait(timeout_ms);
  if (ready <= 0) {
    return ((ready == 0) || (errno == EINTR)) ? 0 : PORT_CLOSED;
  }
  const ssize_t got = read(STANDARD_INPUT, p->input, INPUT_BYTES);
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
    const ssize_t sent = write(p->link_out, &p->output[done], p->output_bytes - done);
    if (sent > 0) {
      done += (uint32_t)sent;
    } else if ((sent < 0) && (errno == EAGAIN)) {  // the link is non-blocking: wait for space
      struct pollfd link = {.fd = p->link_out, .events = POLLOUT, .revents = 0};
      (void)poll(&link, 1, -1);
    } else if ((sent >= 0) || (errno != EINTR)) {
      p->output_bytes = 0;
      return -1;
    }  // else interrupted by a signal: again
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
  uint32_t done = 0;
  while (done < size_bytes) {
    const ssize_t got = getrandom(&data[done], size_bytes - done, 0);
    if ((got < 0) && (errno != EINTR)) {
      return -1;
    }
    done += (got > 0) ? (uint32_t)got : 0U;
  }
  return 0;
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

static void process_stop(void* ctx, port_stop_t reason, uint32_t error) {
  (void)ctx;
  if ((reason == PORT_STOP_CLOSED) || (reason == PORT_STOP_SHUTDOWN)) {
    _exit(EXIT_SUCCESS);
  }
  if (reason == PORT_STOP_ABORT) {
    (void)fprintf(stderr, "firmware: aborted: error 0x%x\n", (unsigned)error);
    if ((process_save() == 0) && (process.has_served != 0)) {
      process_restart();
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

#endif  // BOARDSMITH_PROCESS_H_
