// SPDX-License-Identifier: Apache-2.0
//
// The port of a process: standard input and output are the link, the system's clock is the timer.
//
// Exit statuses: 0 the host closed the link or asked for the end; 1 the link broke, or the system lacks something;
// 2 TVMPlatformAbort, with the error on standard error.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1  // environ
#endif
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
#include <time.h>
#include <tvm/runtime/c_backend_api.h>
#include <unistd.h>

#include "port.h"

enum { EXIT_ABORT = 2, LINK_IN = 0, LINK_OUT = 1 };

#define INPUT_BYTES 65536U
#define OUTPUT_BYTES 65536U

typedef struct process {
  uint8_t input[INPUT_BYTES];
  uint8_t output[OUTPUT_BYTES];
  uint32_t output_bytes;
} process_t;

static process_t process;

static int32_t process_init(void* ctx) {
  (void)ctx;
  return (signal(SIGPIPE, SIG_IGN) == SIG_ERR) ? -1 : 0;  // a host that went away is an error of write, not a death
}

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
    } else if ((sent < 0) && (errno == EAGAIN)) {  // the host made it non-blocking: wait for room
      struct pollfd link = {.fd = LINK_OUT, .events = POLLOUT, .revents = 0};
      (void)poll(&link, 1, -1);
    } else if ((sent >= 0) || (errno != EINTR)) {
      p->output_bytes = 0;
      return -1;
    } else {
      // Interrupted: again.
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

// Nanoseconds of a clock that only runs forward.
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

static void process_ticks_align(void* ctx) { (void)ctx; }  // it needs none

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

static uint32_t process_image_crc(void* ctx) {
  (void)ctx;
  return 0;  // no flash holds it
}

static uint32_t process_chip_id(void* ctx, uint8_t* id, uint32_t max_bytes) {
  (void)ctx;
  (void)id;
  (void)max_bytes;
  return 0;  // a process has none
}

static void process_platform(void* ctx, port_platform_t* p) {
  (void)ctx;
  (void)p;  // the operating system's affair
}

static void process_stop(void* ctx, port_stop_t why, uint32_t error) {
  (void)ctx;
  if ((why == PORT_STOP_CLOSED) || (why == PORT_STOP_SHUTDOWN)) {
    _exit(EXIT_SUCCESS);
  }
  if (why == PORT_STOP_ABORT) {
    (void)fprintf(stderr, "firmware: aborted: error 0x%x\n", (unsigned)error);
    _exit(EXIT_ABORT);
  }
  (void)fprintf(stderr, "firmware: the link broke\n");
  _exit(EXIT_FAILURE);
}

const boardsmith_port_t boardsmith_port = {
    .ctx = &process,
    .arch = FAULT_ARCH_PROCESS,
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
    .stop = process_stop,
};

// tvm.testing.reset_server(): starts the program anew on the same link, as a reset does to a board. Does not return.
int process_reset_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                         void* resource_handle);
int process_reset_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                         void* resource_handle) {
  char path[PATH_MAX];
  (void)args;  // it takes none, and ignores any
  (void)type_codes;
  (void)num_args;
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  const ssize_t length = readlink("/proc/self/exe", path, (sizeof path) - 1U);
  if (length > 0) {
    path[length] = '\0';
    char* const argv[] = {path, NULL};
    (void)execve(path, argv, environ);
  }
  TVMAPISetLastError("the program cannot start itself again");
  return -1;
}
