// SPDX-License-Identifier: Apache-2.0
//
// Functions that do to memory what is allowed in some places only, for any core.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "crt_config.h"

#define PACKED(name)                                                                                             \
  int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle); \
  int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle)

// Returns a number.
#define RETURN(value)                      \
  do {                                     \
    (void)args;                            \
    (void)type_codes;                      \
    (void)num_args;                        \
    (void)resource_handle;                 \
    out_value->v_int64 = (int64_t)(value); \
    *out_type = kTVMArgInt;                \
    return 0;                              \
  } while (0)

PACKED(memory_read) { RETURN(*(volatile uint32_t*)(uintptr_t)args[0].v_int64); }

// Writes 0, and waits for it.
PACKED(memory_write) {
  *(volatile uint32_t*)(uintptr_t)args[0].v_int64 = 0;
#if defined(__arm__)
  __asm volatile("dsb\n isb");
#endif
  RETURN(0);
}

// Where a constant of the image lies.
PACKED(memory_constant) {
  static const uint32_t constant[4] = {1, 2, 3, 4};
  RETURN((uintptr_t)&constant[0]);
}

// Returns from code that it has written to a variable.
PACKED(memory_run) {
  static uint32_t code[4] __attribute__((aligned(16)));
#if defined(__arm__)
  code[0] = 0xBF004770U;  // bx lr
  __asm volatile("dsb\n isb");
  ((void (*)(void))((uintptr_t)code | 1U))();
#elif defined(__riscv)
  code[0] = 0x00008067U;  // ret
  __asm volatile("fence.i" ::: "memory");
  ((void (*)(void))(uintptr_t)code)();
#else
  code[0] = 0xC3C3C3C3U;  // x86: ret
  ((void (*)(void))(uintptr_t)code)();
#endif
  RETURN(code[0]);
}

static __attribute__((noinline, noclone)) uint32_t frames(uint32_t bytes, uint32_t depth) {
  volatile uint8_t room[bytes];
  room[depth % bytes] = 1;
  const uint32_t below = (depth == 0U) ? 0U : frames(bytes, depth - 1U);
  return below + room[(depth + 1U) % bytes];
}

// Has frames of so many bytes, so many of them, of which each touches two bytes, and returns.
PACKED(memory_frames) { RETURN(frames((uint32_t)args[0].v_int64, (uint32_t)args[1].v_int64)); }

#if defined(__arm__) || defined(__riscv)
extern uint8_t bare_handler_mark[];
extern uint8_t bare_handler_stack_start[];
extern uint8_t bare_handler_stack_end[];

// Does what handlers do that need a little more stack than there is, and waits for somebody to see it.
PACKED(memory_mark) {
  (void)memset(bare_handler_mark, 0, 16);
  for (volatile uint32_t i = 0; i < 50000000U; i++) {
  }
  RETURN(0);
}

// Fills the handlers' stack, which the thread may.
PACKED(memory_fill) {
  (void)memset(bare_handler_stack_start, 0xA5, (size_t)(bare_handler_stack_end - bare_handler_stack_start));
  RETURN(0);
}

// How many bytes of it have been used since.
PACKED(memory_used) {
  const uint8_t* at = bare_handler_stack_start;
  while ((at < bare_handler_stack_end) && (*at == 0xA5U)) {
    at++;
  }
  RETURN(bare_handler_stack_end - at);
}
#else
PACKED(memory_mark) { RETURN(0); }
PACKED(memory_fill) { RETURN(0); }
PACKED(memory_used) { RETURN(0); }
#endif

#if defined(__arm__) && (__ARM_ARCH >= 7) && (BOARDSMITH_STACK_BYTES > 8192)
#define IRQ 9U  // that nothing handles

static volatile uint32_t counter;

static __attribute__((noinline, noclone)) uint32_t deeper(uint32_t depth) {
  volatile uint32_t room[16];
  room[depth % 16U] = depth;
  counter++;
  const uint32_t below = (depth == UINT32_MAX) ? 0U : deeper(depth + 1U);
  return below + room[(depth + 1U) % 16U];
}

static void handler(void) { counter = deeper(0); }

// An interrupt's handler that needs more stack than there is.
PACKED(memory_handlers) {
  static uint32_t vectors[256] __attribute__((aligned(1024)));
  (void)memcpy(vectors, *(void**)0xE000ED08U, (16U + (CHIP_IRQS)) * 4U);
  vectors[16U + IRQ] = (uint32_t)(uintptr_t)handler;
  *(volatile uint32_t*)0xE000ED08U = (uint32_t)(uintptr_t)vectors;  // VTOR
  __asm volatile("dsb\n isb" ::: "memory");
  *(volatile uint32_t*)0xE000E100U = 1U << IRQ;  // NVIC_ISER: enable
  *(volatile uint32_t*)0xE000E200U = 1U << IRQ;  // NVIC_ISPR: pending
  __asm volatile("dsb\n isb");
  RETURN(counter);
}
#else
PACKED(memory_handlers) { RETURN(0); }
#endif
