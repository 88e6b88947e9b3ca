// SPDX-License-Identifier: 0BSD
//
// boardsmith's server in this firmware: boardsmith_port (boardsmith/port.h) with the functions of board.h.
#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>

#include "app.h"
#include "board.h"
#include "fault.h"
#include "port.h"

// The server's main (boardsmith/main.c).
int boardsmith_main(void);

_Noreturn void server_run(void) {
  (void)boardsmith_main();
  board_reset();
}

// From the linker script.
extern const uint8_t boardsmith_image_start[], boardsmith_image_end[];
extern uint8_t stack_start[], stack_end[];

// Counts the starts: kept over a reset, so that random numbers differ.
static uint32_t starts __attribute__((section(".boardsmith.noinit")));

static int32_t init(void* ctx) {
  (void)ctx;
  starts++;
  fault_start(-1);
  return 0;
}

static int32_t receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {
  (void)ctx;
  const uint32_t since = clock_ms();
  uint32_t got = uart_read(data);
  while ((got == 0U) && ((timeout_ms == PORT_FOREVER) || ((clock_ms() - since) < timeout_ms))) {
    __asm volatile("wfi");
    got = uart_read(data);
  }
  return (int32_t)got;
}

static int32_t send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  for (uint32_t i = 0; i < size_bytes; i++) {
    if (uart_write(data[i]) != 0) {
      return -1;
    }
  }
  return 0;
}

static int32_t sent(void* ctx) {
  (void)ctx;
  return 0;  // nothing is buffered
}

static uint32_t now_ms(void* ctx) {
  (void)ctx;
  return clock_ms();
}

static uint64_t counts(void* ctx) {
  (void)ctx;
  return clock_counts();
}

static uint32_t counts_hz(void* ctx) {
  (void)ctx;
  return BOARD_HZ;
}

static void align(void* ctx) { (void)ctx; }

static int32_t fill(void* ctx, uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  static uint32_t state;
  state += (starts * 2654435761U) + (uint32_t)clock_counts();
  for (uint32_t i = 0; i < size_bytes; i++) {
    state = (state * 1664525U) + 1013904223U;
    data[i] = (uint8_t)(state >> 24);
  }
  return 0;
}

static uint32_t image_crc(void* ctx, uint32_t crc) {
  (void)ctx;
  return boardsmith_crc32_more(crc, boardsmith_image_start, (size_t)(boardsmith_image_end - boardsmith_image_start));
}

static uint32_t no_id(void* ctx, uint8_t* id, uint32_t max_bytes) {
  (void)ctx;
  (void)id;
  (void)max_bytes;
  return 0;
}

static void platform(void* ctx, port_platform_t* p) {
  (void)ctx;
  p->core_hz = BOARD_HZ;
}

// The record of a fault contains the stack above it.
static void complete(void* ctx, fault_context_t* at) {
  (void)ctx;
  if ((at->sp >= (uintptr_t)stack_start) && (at->sp < (uintptr_t)stack_end)) {
    at->stack = (const uint8_t*)at->sp;
    at->stack_size_bytes = (uint32_t)((uintptr_t)stack_end - at->sp);
  }
}

static void stop(void* ctx, port_stop_t why, uint32_t error) {
  (void)ctx;
  (void)why;
  (void)error;
  fault_expect_reset();
  board_reset();
}

const boardsmith_port_t boardsmith_port = {
    .arch = FAULT_ARCH_CORTEX_M,
    .build_id = boardsmith_build_id,
    .init = init,
    .receive = receive,
    .send = send,
    .flush = sent,
    .now_ms = now_ms,
    .ticks = counts,
    .ticks_hz = counts_hz,
    .ticks_align = align,
    .random = fill,
    .image_crc = image_crc,
    .chip_id = no_id,
    .platform = platform,
    .complete = complete,
    .stop = stop,
};

// ---- Faults and the time budget of a call -------------------------------------------------------------------------

static fault_context_t interrupted(const void* frame) {
  const uint32_t* saved = frame;
  fault_context_t at = {
      .flags = (uint32_t)FAULT_PC_VALID | (uint32_t)FAULT_SP_VALID,
      .pc = saved[6],
      .lr = saved[5],
      .sp = (uintptr_t)&saved[8],
      .status = saved[7],
  };
  complete(NULL, &at);
  return at;
}

_Noreturn void server_fault(const void* frame) {
  enum { HARD_FAULT = 3 };
  fault_context_t at = interrupted(frame);
  const uintptr_t status[] = {REG(0xE000ED28U), REG(0xE000ED2CU), REG(0xE000ED34U), REG(0xE000ED38U)};
  at.extra = status;  // CFSR, HFSR, MMFAR, BFAR
  at.extra_count = sizeof status / sizeof status[0];
  fault_keep(FAULT_HARDWARE, HARD_FAULT, &at);
  board_reset();
}

void server_tick(const void* frame) {
  if (fault_tick(1000U / (uint32_t)TICK_HZ) == FAULT_CALL_LATE) {
    const fault_context_t at = interrupted(frame);
    fault_keep(FAULT_TIMEOUT, fault_budget_ms(), &at);
    board_reset();
  }
}
