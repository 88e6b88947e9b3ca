// SPDX-License-Identifier: Apache-2.0
//
// boardsmith_port on Zephyr's native boards, which are processes of the host: standard input and output are the link,
// the host's clock is the timer, because Zephyr's own stands still while code runs there. Zephyr's UART driver for
// these boards is not used: it has a terminal of its own.
//
// Exit statuses: 0 the host closed the link or requested the end; 1 the link broke, or a system call failed; 2
// TVMPlatformAbort, with the error on standard error.
//
// If the parent names a file in BOARDSMITH_FAULT_FILE, faults work as on a chip: after a fault, an abort or an exceeded
// time budget, the program writes the record (fault.h) to that file, restarts itself on the same link, reads the record
// back and delivers it to the host. Without the file, faults end the program, and budgets are not enforced.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1  // environ, pthread_getattr_np
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <tvm/runtime/crt/error_codes.h>
#include <ucontext.h>
#include <unistd.h>

#if __has_include(<zephyr/kernel.h>)
#include <zephyr/kernel.h>
#else
#include <kernel.h>
#endif

#include "fault.h"
#include "port.h"
#include "process_id.h"

enum { EXIT_ABORT = 2, LINK_IN = 0, STANDARD_OUTPUT = 1, STANDARD_ERROR = 2, SLICE_MS = 1 };

#define INPUT_BYTES 65536U
#define OUTPUT_BYTES 65536U
#define HANDLER_STACK_BYTES 65536U
#define BELOW_STACK_BYTES 65536U  // code may access the stack this far below the stack pointer

typedef struct native {
  uint8_t input[INPUT_BYTES];
  uint8_t output[OUTPUT_BYTES];
  uint32_t output_bytes;
  int link_out;            // the parent's standard output; the program's is standard error, where Zephyr prints
  const char* fault_file;  // NULL: none
  uintptr_t stack_start;   // of the server's thread
  uintptr_t stack_end;
  uintptr_t kept_from;               // start of the stack in the record
  sigset_t mask;                     // inherited from the parent
  timer_t alarm;                     // of the time budget, for the server's thread
  volatile sig_atomic_t has_served;  // input was received
  uint8_t build_id[BUILD_ID_BYTES];  // 0 without a note
  uint8_t handler_stack[HANDLER_STACK_BYTES] __attribute__((aligned(16)));
} native_t;

static native_t native;

// ---- Restart -----------------------------------------------------------------------------------------------------

// Executes the program again in the same process; returns only on failure. Async-signal-safe.
static void restart(void) {
  static char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, (sizeof path) - 1U);
  if (length > 0) {
    path[length] = '\0';
    char* const argv[] = {path, NULL};
    (void)pthread_sigmask(SIG_SETMASK, &native.mask, NULL);
    (void)dup2(native.link_out, (int)STANDARD_OUTPUT);
    (void)execve(path, argv, environ);
  }
}

// Writes the record into the file; 0, or -1. Async-signal-safe.
static int32_t save_record(void) {
  uint32_t bytes = 0;
  const uint8_t* record = fault_record(&bytes);
  if ((native.fault_file == NULL) || (record == NULL)) {
    return -1;
  }
  const int file = open(native.fault_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
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
  const int file = open(native.fault_file, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return;
  }
  const ssize_t got = read(file, record, sizeof record);
  (void)close(file);  // only read from
  (void)unlink(native.fault_file);
  if (got > 0) {
    fault_restore(record, (uint32_t)got);
  }
}

// ---- Faults ------------------------------------------------------------------------------------------------------

// Stores the stack from sp up, and the load address of the image.
static void native_complete(void* ctx, fault_context_t* at) {
  native_t* n = ctx;
  at->status = (uintptr_t)__ehdr_start;
  if ((at->sp >= n->stack_start) && (at->sp < n->stack_end)) {
    at->stack = (const uint8_t*)at->sp;
  } else if ((at->sp < n->stack_start) && (at->sp != 0U)) {
    at->stack = (const uint8_t*)n->stack_start;
  } else {
    return;  // another thread's stack
  }
  at->stack_size_bytes = (uint32_t)(n->stack_end - (uintptr_t)at->stack);
  n->kept_from = (uintptr_t)at->stack;
  at->extra = &n->kept_from;
  at->extra_count = 1;
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
  native_complete(&native, &at);
  return at;
}

// Returns whether a fault is a stack overflow: an access below the stack, near the stack pointer.
static int32_t is_overflow(int number, const siginfo_t* info, const fault_context_t* at) {
  const uintptr_t address = (uintptr_t)info->si_addr;
  return ((number == SIGSEGV) || (number == SIGBUS)) && (at->stack != NULL) && (address < native.stack_start) &&
         ((address + BELOW_STACK_BYTES) >= at->sp);
}

// Ends the process by the signal, as without a handler.
static void die(int number) {
  (void)signal(number, SIG_DFL);
  (void)pthread_sigmask(SIG_SETMASK, &native.mask, NULL);
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
  if ((native.has_served != 0) && (save_record() == 0)) {
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
  const struct itimerspec when = {
      .it_interval = {0, 0},
      .it_value = {.tv_sec = (time_t)(ms / 1000U), .tv_nsec = (long)(ms % 1000U) * 1000000L},
  };
  if (native.fault_file != NULL) {
    (void)timer_settime(native.alarm, 0, &when, NULL);  // cannot fail: valid arguments
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

// The alarm interrupts the server's thread, not one of Zephyr's others.
static int32_t handle_faults(void) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  const stack_t stack = {.ss_sp = native.handler_stack, .ss_flags = 0, .ss_size = sizeof native.handler_stack};
  struct sigevent event;
  (void)memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  if ((sigaltstack(&stack, NULL) != 0) || (timer_create(CLOCK_MONOTONIC, &event, &native.alarm) != 0)) {
    return -1;
  }
  for (size_t i = 0; i < (sizeof faults / sizeof faults[0]); i++) {
    if (handle(faults[i], (int)SA_RESETHAND, on_fault) != 0) {  // a fault in the handler ends the process
      return -1;
    }
  }
  return handle(SIGALRM, SA_RESTART, on_alarm);
}

// ---- Start -------------------------------------------------------------------------------------------------------

static int32_t find_stack(native_t* n) {
  pthread_attr_t attributes;
  void* start = NULL;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
    return -1;
  }
  const int error = pthread_attr_getstack(&attributes, &start, &bytes);
  (void)pthread_attr_destroy(&attributes);
  n->stack_start = (uintptr_t)start;
  n->stack_end = n->stack_start + bytes;
  return (error == 0) ? 0 : -1;
}

static int32_t native_init(void* ctx) {
  native_t* n = ctx;
  const char* file = getenv("BOARDSMITH_FAULT_FILE");
  process_id(n->build_id);
  if ((pthread_sigmask(SIG_SETMASK, NULL, &n->mask) != 0) ||
      (signal(SIGPIPE, SIG_IGN) == SIG_ERR) ||  // a closed link is an error of write, not a signal
      (find_stack(n) != 0)) {
    return -1;
  }
  n->link_out = fcntl((int)STANDARD_OUTPUT, F_DUPFD_CLOEXEC, 3);
  if ((n->link_out < 0) || (dup2((int)STANDARD_ERROR, (int)STANDARD_OUTPUT) < 0)) {
    return -1;
  }
  if ((file != NULL) && (file[0] != '\0')) {
    n->fault_file = file;
    load_record();
  }
  fault_start(0);
  return (n->fault_file != NULL) ? handle_faults() : 0;
}

// ---- The link ----------------------------------------------------------------------------------------------------

// Waits for input, at most SLICE_MS at a time: Zephyr's time and its other threads only advance while this one sleeps.
static int native_wait(uint32_t timeout_ms) {
  struct pollfd link = {.fd = LINK_IN, .events = POLLIN, .revents = 0};
  uint32_t waited = 0;
  for (;;) {
    const int ready = poll(&link, 1, (int)SLICE_MS);
    if ((ready != 0) || ((timeout_ms != PORT_FOREVER) && (waited >= timeout_ms))) {
      return ready;
    }
    waited += (uint32_t)SLICE_MS;
    (void)k_sleep(K_TICKS(1));
  }
}

static int32_t native_receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {
  native_t* n = ctx;
  const int ready = native_wait(timeout_ms);
  if (ready <= 0) {
    return ((ready == 0) || (errno == EINTR)) ? 0 : PORT_CLOSED;
  }
  const ssize_t got = read(LINK_IN, n->input, INPUT_BYTES);
  if (got < 0) {
    return ((errno == EINTR) || (errno == EAGAIN)) ? 0 : PORT_CLOSED;
  }
  n->has_served = 1;
  *data = n->input;
  return (got == 0) ? PORT_CLOSED : (int32_t)got;
}

static int32_t native_flush(void* ctx) {
  native_t* n = ctx;
  uint32_t done = 0;
  while (done < n->output_bytes) {
    const ssize_t sent = write(n->link_out, &n->output[done], n->output_bytes - done);
    if (sent > 0) {
      done += (uint32_t)sent;
    } else if ((sent < 0) && (errno == EAGAIN)) {  // the link is non-blocking: wait for space
      struct pollfd link = {.fd = n->link_out, .events = POLLOUT, .revents = 0};
      (void)poll(&link, 1, -1);
    } else if ((sent >= 0) || (errno != EINTR)) {
      n->output_bytes = 0;
      return -1;
    } else {
      // Interrupted by a signal: try again.
    }
  }
  n->output_bytes = 0;
  return 0;
}

static int32_t native_send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  native_t* n = ctx;
  uint32_t done = 0;
  while (done < size_bytes) {
    const uint32_t room = OUTPUT_BYTES - n->output_bytes;
    const uint32_t rest = size_bytes - done;
    const uint32_t part = (rest < room) ? rest : room;
    (void)memcpy(&n->output[n->output_bytes], &data[done], part);
    n->output_bytes += part;
    done += part;
    if ((n->output_bytes == OUTPUT_BYTES) && (native_flush(n) != 0)) {
      return -1;
    }
  }
  return 0;
}

// ---- Time, random numbers, stop ----------------------------------------------------------------------------------

// Returns nanoseconds of a monotonic clock.
static uint64_t native_ticks(void* ctx) {
  struct timespec t;
  (void)ctx;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);  // cannot fail with this clock
  return ((uint64_t)t.tv_sec * 1000000000U) + (uint64_t)t.tv_nsec;
}

static uint32_t native_ticks_hz(void* ctx) {
  (void)ctx;
  return 1000000000U;
}

static void native_ticks_align(void* ctx) { (void)ctx; }  // needs no alignment

static uint32_t native_now_ms(void* ctx) { return (uint32_t)(native_ticks(ctx) / 1000000U); }

static int32_t native_random(void* ctx, uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  return (getrandom(data, size_bytes, 0) == (ssize_t)size_bytes) ? 0 : -1;  // at most 256 bytes are not interrupted
}

static uint32_t native_image_crc(void* ctx, uint32_t crc) {
  (void)ctx;
  (void)crc;
  return 0;  // not in flash
}

static uint32_t native_chip_id(void* ctx, uint8_t* id, uint32_t max_bytes) {
  (void)ctx;
  (void)id;
  (void)max_bytes;
  return 0;  // a process has none
}

static void native_platform(void* ctx, port_platform_t* p) {
  (void)ctx;
  (void)p;  // unknown: managed by the operating system
}

static void native_stop(void* ctx, port_stop_t why, uint32_t error) {
  (void)ctx;
  if ((why == PORT_STOP_CLOSED) || (why == PORT_STOP_SHUTDOWN)) {
    _exit(EXIT_SUCCESS);
  }
  if (why == PORT_STOP_ABORT) {
    (void)fprintf(stderr, "firmware: aborted: error 0x%x\n", (unsigned)error);
    if ((native.has_served != 0) && (save_record() == 0)) {
      restart();
    }
    _exit(EXIT_ABORT);
  }
  (void)fprintf(stderr, "firmware: the link broke\n");
  _exit(EXIT_FAILURE);
}

const boardsmith_port_t boardsmith_port = {
    .ctx = &native,
    .arch = FAULT_ARCH_PROCESS,
    .build_id = native.build_id,
    .init = native_init,
    .receive = native_receive,
    .send = native_send,
    .flush = native_flush,
    .now_ms = native_now_ms,
    .ticks = native_ticks,
    .ticks_hz = native_ticks_hz,
    .ticks_align = native_ticks_align,
    .random = native_random,
    .image_crc = native_image_crc,
    .chip_id = native_chip_id,
    .platform = native_platform,
    .complete = native_complete,
    .stop = native_stop,
};
