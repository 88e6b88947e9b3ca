// SPDX-License-Identifier: Apache-2.0
//
// The functions that package accept calls on a board. They are operators of a model, so that any template builds them.
// Addresses and sizes are arguments, because they are the board's.
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/platform.h>

#ifndef ACCEPT_VARIANT
#define ACCEPT_VARIANT 0  // two images that differ in this number are written alternately
#endif

#define PACKED(name)                                                                                      \
  int32_t name(TVMValue* args, int* codes, int n, TVMValue* out_value, int* out_type, void* resource);    \
  int32_t name(TVMValue* args, int* codes, int n, TVMValue* out_value, int* out_type, void* resource)

// Returns a number.
#define RETURN(value)                      \
  do {                                     \
    (void)args;                            \
    (void)codes;                           \
    (void)n;                               \
    (void)resource;                        \
    out_value->v_int64 = (int64_t)(value); \
    *out_type = kTVMArgInt;                \
    return 0;                              \
  } while (0)

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint32_t counter;

// Returns twice its argument.
PACKED(accept_twice) { RETURN(2 * args[0].v_int64); }

PACKED(accept_variant) { RETURN(ACCEPT_VARIANT); }

// ---- Memory ----

// Returns the address of a tensor's data.
PACKED(accept_address) { RETURN((uintptr_t)((DLTensor*)args[0].v_handle)->data); }

// The word that belongs at an address, and back. No two addresses of one key have the same, and neighbours' words are
// unlike neighbouring addresses, which a stack holds.
#define SPREAD 0x9E3779B1U
#define GATHER 0x0E8B2F51U  // SPREAD * GATHER == 1
_Static_assert((uint32_t)(SPREAD * GATHER) == 1U, "not the inverse");
static inline uint32_t word_at(uintptr_t address, uint32_t key) { return ((uint32_t)address * SPREAD) ^ key; }
static inline uint32_t address_of(uint32_t word, uint32_t key) { return (word ^ key) * GATHER; }

// Fills args[1] bytes from address args[0] on, with key args[2].
PACKED(accept_fill) {
  volatile uint32_t* const p = (volatile uint32_t*)(uintptr_t)args[0].v_int64;
  const size_t words = (size_t)args[1].v_int64 / sizeof(uint32_t);
  const uint32_t key = (uint32_t)args[2].v_int64;
  for (size_t i = 0; i < words; i++) {
    p[i] = word_at((uintptr_t)&p[i], key);
  }
  RETURN(0);
}

// Returns how many bytes of the same range are in order, from its start on.
PACKED(accept_filled) {
  volatile uint32_t* const p = (volatile uint32_t*)(uintptr_t)args[0].v_int64;
  const size_t words = (size_t)args[1].v_int64 / sizeof(uint32_t);
  const uint32_t key = (uint32_t)args[2].v_int64;
  size_t i = 0;
  while ((i < words) && (p[i] == word_at((uintptr_t)&p[i], key))) {
    i++;
  }
  RETURN(i * sizeof(uint32_t));
}

// Searches args[1] bytes from address args[0] on, which belong to the firmware, for two neighbouring words that
// accept_fill may have written to the args[4] bytes from address args[3] on. Returns the address at which it wrote
// them, or -1.
PACKED(accept_strayed) {
  volatile uint32_t* const p = (volatile uint32_t*)(uintptr_t)args[0].v_int64;
  const size_t words = (size_t)args[1].v_int64 / sizeof(uint32_t);
  const uint32_t key = (uint32_t)args[2].v_int64;
  const uint32_t from = (uint32_t)args[3].v_int64;
  const uint32_t bytes = (uint32_t)args[4].v_int64;
  int64_t at = -1;
  for (size_t i = 0; (i + 1U) < words; i++) {
    const uint32_t here = address_of(p[i], key);
    const uint32_t next = address_of(p[i + 1U], key);
    if (((here - from) < bytes) && (next == (here + 4U))) {
      at = here;
      break;
    }
  }
  RETURN(at);
}

// ---- Time ----

// Computes for args[0] rounds, without waiting for anything.
PACKED(accept_busy) {
  for (int64_t i = 0; i < args[0].v_int64; i++) {
    counter++;
  }
  RETURN(counter);
}

// ---- Faults ----

static NOINLINE uint32_t read_at(uintptr_t address) {
  const uint32_t seen = *(volatile uint32_t*)address;
  counter++;
  return seen;
}

// Its argument is an address at which the board has nothing.
PACKED(accept_address_fault) { RETURN(read_at((uintptr_t)args[0].v_int64)); }

PACKED(accept_instruction_fault) {
#if defined(__arm__)
  __asm volatile("udf #1");
#elif defined(__riscv)
  __asm volatile("unimp");
#else
  __builtin_trap();
#endif
  RETURN(counter);
}

PACKED(accept_check_fault) {
  counter++;
  if (counter != 0U) {
    TVMPlatformAbort(kTvmErrorPlatformCheckFailure);
  }
  RETURN(counter);
}

static NOINLINE uint32_t deeper(uint32_t depth) {
  volatile uint32_t room[16];
  room[depth % 16U] = depth;
  counter++;
  const uint32_t below = (depth == UINT32_MAX) ? 0U : deeper(depth + 1U);
  return below + room[(depth + 1U) % 16U];
}

PACKED(accept_stack_fault) { RETURN(deeper(0)); }

static NOINLINE uint32_t forever(void) {
  uint32_t rounds = 0;
  while (counter != UINT32_MAX) {
    rounds++;
    counter = rounds & 0xFFFFU;
  }
  return rounds;
}

PACKED(accept_loop_fault) { RETURN(forever()); }

#if defined(__arm__)
static volatile uint32_t* nvic(uint32_t base, uint32_t number) {
  return (volatile uint32_t*)(uintptr_t)(base + (4U * (number / 32U)));
}
#endif

// An interrupt occurs that nothing handles. Cortex-M: the highest one below number args[0] that the chip has and that
// is not in use. RISC-V: the software interrupt, by the CLINT at args[0].
PACKED(accept_interrupt_fault) {
#if defined(__arm__)
  for (uint32_t i = (uint32_t)args[0].v_int64; i > 0U; i--) {
    const uint32_t number = i - 1U;
    const uint32_t bit = 1UL << (number % 32U);
    volatile uint32_t* const enable = nvic(0xE000E100U, number);  // NVIC_ISER
    if ((*enable & bit) == 0U) {
      *enable = bit;
      if ((*enable & bit) != 0U) {
        *nvic(0xE000E200U, number) = bit;  // NVIC_ISPR: pending
        __asm volatile("dsb\n isb");
        break;
      }
    }
  }
#elif defined(__riscv)
  *(volatile uint32_t*)(uintptr_t)args[0].v_int64 = 1;
  __asm volatile("csrs mie, %0" ::"r"((uintptr_t)8));
#endif
  counter++;
  RETURN(counter);
}

// Only a watchdog ends this.
PACKED(accept_watchdog_fault) {
#if defined(__arm__)
  __asm volatile("cpsid i");
#elif defined(__riscv)
  __asm volatile("csrc mstatus, %0" ::"r"((uintptr_t)8));
#endif
  RETURN(forever());
}
