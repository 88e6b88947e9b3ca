// SPDX-License-Identifier: Apache-2.0
//
// The runtime's platform functions, based on the port and one arena.
#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>

#include "about.h"
#include "crt_config.h"
#include "fault.h"
#include "port.h"
#include "samples.h"

// Computers with a large arena have vector instructions that need 64-byte alignment; large pages are acceptable there.
#if (BOARDSMITH_ARENA_BYTES) >= 1048576
#define ARENA_ALIGN 64
#define PAGE_BYTES_LOG2 12U
#else
#define ARENA_ALIGN 16
#define PAGE_BYTES_LOG2 8U
#endif

static uint8_t arena[BOARDSMITH_ARENA_BYTES] __attribute__((aligned(ARENA_ALIGN), section(".bss.boardsmith_arena")));
static MemoryManagerInterface* memory;
static uint64_t timer_start;
static bool timer_runs;

tvm_crt_error_t TVMPlatformInitialize(void) {
  if (boardsmith_port.init(boardsmith_port.ctx) != 0) {
    return kTvmErrorPlatformCheckFailure;
  }
  return PageMemoryManagerCreate(&memory, arena, sizeof arena, PAGE_BYTES_LOG2);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  return memory->Allocate(memory, num_bytes, dev, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) { return memory->Free(memory, ptr, dev); }

uint32_t platform_arena_used(void) { return (uint32_t)PageMemoryManagerPeak(memory); }

tvm_crt_error_t TVMPlatformTimerStart(void) {
  if (timer_runs) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = true;
  fault_budget_begins();
  boardsmith_port.ticks_align(boardsmith_port.ctx);
  samples_start();
  port_measure(1);
  timer_start = boardsmith_port.ticks(boardsmith_port.ctx);
  return kTvmErrorNoError;
}

// A counter that stopped or lost counts is a bad state too: an error is better than a wrong time.
tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_seconds) {
  const uint64_t now = boardsmith_port.ticks(boardsmith_port.ctx);
  port_measure(0);
  samples_stop();
  if (!timer_runs) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = false;
  if ((timer_start == UINT64_MAX) || (now == UINT64_MAX) || (now < timer_start)) {
    TVMAPISetLastError("time unknown: the timer stopped, or interrupts were masked over its tick");
    return kTvmErrorPlatformTimerBadState;
  }
  *elapsed_seconds = boardsmith_seconds(now - timer_start, boardsmith_port.ticks_hz(boardsmith_port.ctx));
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* buffer, size_t num_bytes) {
  return (boardsmith_port.random(boardsmith_port.ctx, buffer, (uint32_t)num_bytes) == 0)
             ? kTvmErrorNoError
             : kTvmErrorFunctionCallNotImplemented;
}

uint32_t boardsmith_now_ms(void) { return boardsmith_port.now_ms(boardsmith_port.ctx); }
