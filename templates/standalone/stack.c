// SPDX-License-Identifier: Apache-2.0
//
// Measures the stack (stack.h). The port's complete, which finds the stack for a fault record, reports where it is.
#include "stack.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fault.h"
#include "port.h"

#define PATTERN 0xA5C3E187U

// What is left out below the stack pointer, for the frame of stack_paint. It counts as used.
#define MARGIN_BYTES 64U

typedef struct painted {
  volatile uint32_t* start;
  volatile uint32_t* painted_end;
  uintptr_t end;
} painted_t;

static painted_t stack;

// Returns the stack from sp up; its size is 0 if the port finds no stack around sp.
static fault_context_t from(uintptr_t sp) {
  fault_context_t at;
  (void)memset(&at, 0, sizeof at);
  at.flags = (uint32_t)FAULT_SP_VALID;
  at.sp = sp;
  boardsmith_port.complete(boardsmith_port.ctx, &at);
  if (at.stack == NULL) {
    at.stack_size_bytes = 0;
  }
  return at;
}

// Finds the stack around sp. It has a frame of its own, so that the frame of stack_paint is small.
__attribute__((noinline)) static void find(uintptr_t sp) {
  const fault_context_t above = from(sp);
  if ((above.stack_size_bytes == 0U) || ((BOARDSMITH_STACK_BYTES) == 0)) {
    return;
  }
  const uintptr_t end = (uintptr_t)above.stack + above.stack_size_bytes;
  const fault_context_t below = from(end - (uintptr_t)(BOARDSMITH_STACK_BYTES));
  if ((below.stack_size_bytes <= above.stack_size_bytes) || (((uintptr_t)below.stack + MARGIN_BYTES) >= sp)) {
    return;
  }
  stack.start = (volatile uint32_t*)(((uintptr_t)below.stack + 3U) & ~(uintptr_t)3U);
  stack.painted_end = (volatile uint32_t*)((sp - MARGIN_BYTES) & ~(uintptr_t)3U);
  stack.end = end;
}

// The lowest word is left out: an operating system may check a mark there, as Zephyr with CONFIG_STACK_SENTINEL.
static volatile uint32_t* first_painted(void) { return (stack.start == NULL) ? NULL : &stack.start[1]; }

__attribute__((noinline)) void stack_paint(void) {
  volatile uint8_t local = 0;
  find((uintptr_t)&local);
  volatile uint32_t* word = first_painted();
  while (word < stack.painted_end) {
    *word = PATTERN;
    word++;
  }
}

uint32_t stack_used(uint32_t* size_bytes) {
  volatile uint32_t* word = first_painted();
  while ((word < stack.painted_end) && (*word == PATTERN)) {
    word++;
  }
  *size_bytes = (uint32_t)(stack.end - (uintptr_t)stack.start);
  return (uint32_t)(stack.end - (uintptr_t)word);
}
