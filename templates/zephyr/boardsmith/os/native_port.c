// SPDX-License-Identifier: Apache-2.0
//
// boardsmith_port on Zephyr's native boards, which are processes of the host: standard input and output are the link,
// the host's clock is the timer, because Zephyr's own stands still while code runs there. Zephyr's UART driver for
// these boards is not used: it has a terminal of its own. src/process.h has what this port shares with the template
// baremetal, and describes exit statuses and faults.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1  // environ, pthread_getattr_np
#endif
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<zephyr/kernel.h>)
#include <zephyr/kernel.h>
#else
#include <kernel.h>
#endif

#include "fault.h"
#include "port.h"
#include "process.h"

enum { SLICE_MS = 1 };

static timer_t alarm_timer;  // of the time budget, for the thread that serves

static void process_restore(void) { (void)pthread_sigmask(SIG_SETMASK, &process.mask, NULL); }

// ---- Faults ------------------------------------------------------------------------------------------------------

static const uint8_t* process_stack(uintptr_t sp) {
  if (sp >= process.stack_end) {
    return NULL;
  }
  return (const uint8_t*)((sp < process.stack_start) ? process.stack_start : sp);
}

void fault_alarm(uint32_t ms) {
  const struct itimerspec when = {
      .it_interval = {0, 0},
      .it_value = {.tv_sec = (time_t)(ms / 1000U), .tv_nsec = (long)(ms % 1000U) * 1000000L},
  };
  if (process.fault_file != NULL) {
    (void)timer_settime(alarm_timer, 0, &when, NULL);  // cannot fail: valid arguments
  }
}

// Creates the timer of budgets. Its signal interrupts the thread that serves, not one of Zephyr's others.
static int32_t create_alarm(void) {
  struct sigevent event;
  (void)memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  return timer_create(CLOCK_MONOTONIC, &event, &alarm_timer);
}

// ---- Start -------------------------------------------------------------------------------------------------------

static int32_t find_stack(process_t* p) {
  pthread_attr_t attributes;
  void* start = NULL;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
    return -1;
  }
  const int error = pthread_attr_getstack(&attributes, &start, &bytes);
  (void)pthread_attr_destroy(&attributes);
  p->stack_start = (uintptr_t)start;
  p->stack_end = p->stack_start + bytes;
  return (error == 0) ? 0 : -1;
}

static int32_t process_init(void* ctx) {
  process_t* p = ctx;
  if ((pthread_sigmask(SIG_SETMASK, NULL, &p->mask) != 0) || (find_stack(p) != 0) || (create_alarm() != 0)) {
    return -1;
  }
  return process_start(p);
}

// Waits for input, at most SLICE_MS at a time: Zephyr's time and its other threads only advance while this one sleeps.
static int process_wait(uint32_t timeout_ms) {
  struct pollfd link = {.fd = STANDARD_INPUT, .events = POLLIN, .revents = 0};
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
