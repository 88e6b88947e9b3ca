// SPDX-License-Identifier: Apache-2.0
//
// Functions that go wrong, one for each kind of fault, for any core. A comment at the end of a line names the
// faults that a test expects there, or those whose function is called there.
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/platform.h>

#define IRQ 9U               // that nothing handles

#define PACKED(name)                                                                                             \
  int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle); \
  int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle)

// Returns a number.
#define RETURN(value)                  \
  do {                                 \
    (void)args;                        \
    (void)type_codes;                  \
    (void)num_args;                    \
    (void)resource_handle;             \
    out_value->v_int64 = (int64_t)(value); \
    *out_type = kTVMArgInt;            \
    return 0;                          \
  } while (0)

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint32_t counter;

static NOINLINE uint32_t read_at(uintptr_t address) {
  const uint32_t seen = *(volatile uint32_t*)address;  // fault.address
  counter++;
  return seen;
}

// Its argument is an address where the board has nothing.
PACKED(fault_address) {
  const uint32_t seen = read_at((uintptr_t)args[0].v_int64);  // caller of fault.address
  RETURN(seen + counter);
}

static NOINLINE uint32_t undefined(uint32_t x) {
#if defined(__arm__)
  __asm volatile("udf #1");  // fault.instruction
#elif defined(__riscv)
  __asm volatile("unimp");  // fault.instruction
#else
  __builtin_trap();  // fault.instruction
#endif
  return x + counter;
}

PACKED(fault_instruction) {
  const uint32_t seen = undefined(3);  // caller of fault.instruction
  RETURN(seen + counter);
}

// Part of its caller in the image.
static inline __attribute__((always_inline)) void check(uint32_t x) {
  if (x != counter + 1U) {
    TVMPlatformAbort(kTvmErrorPlatformCheckFailure);  // fault.check
  }
}

PACKED(fault_check) {
  check(counter);  // caller of fault.check
  RETURN(counter);
}

static NOINLINE uint32_t deeper(uint32_t depth) {  // fault.stack
  volatile uint32_t room[16];
  room[depth % 16U] = depth;  // fault.stack
  counter++;                  // fault.stack
  const uint32_t below = (depth == UINT32_MAX) ? 0U : deeper(depth + 1U);  // fault.stack
  return below + room[(depth + 1U) % 16U];
}

PACKED(fault_stack) {
  const uint32_t deepest = deeper(0);  // caller of fault.stack
  RETURN(deepest + counter);
}

static NOINLINE uint32_t forever(void) {
  uint32_t rounds = 0;
  while (counter != UINT32_MAX) {  // fault.loop, fault.watchdog
    rounds++;                      // fault.loop, fault.watchdog
    counter = rounds & 0xFFFFU;    // fault.loop, fault.watchdog
  }
  return rounds;
}

PACKED(fault_loop) {
  const uint32_t rounds = forever();  // caller of fault.loop
  RETURN(rounds + counter);
}

#if defined(__arm__)
static NOINLINE void interrupt(void) {
  *(volatile uint32_t*)0xE000E100U = 1U << IRQ;  // NVIC_ISER: enable
  *(volatile uint32_t*)0xE000E200U = 1U << IRQ;  // NVIC_ISPR: pending
  __asm volatile("dsb\n isb");                   // fault.interrupt
  counter++;                                     // fault.interrupt
}

static NOINLINE void dead(void) {
  __asm volatile("cpsid i");
}
#elif defined(__riscv)
static NOINLINE void interrupt(void) {
  *(volatile uint32_t*)0x02000000U = 1;                // CLINT: software interrupt
  __asm volatile("csrs mie, %0" ::"r"((uintptr_t)8));  // fault.interrupt
  counter++;                                           // fault.interrupt
}

static NOINLINE void dead(void) { __asm volatile("csrc mstatus, %0" ::"r"((uintptr_t)8)); }
#else
static NOINLINE void interrupt(void) { counter++; }

static NOINLINE void dead(void) { counter++; }
#endif

PACKED(fault_interrupt) {
  interrupt();  // caller of fault.interrupt
  RETURN(counter);
}

// Nothing but a watchdog ends this.
PACKED(fault_watchdog) {
  dead();
  const uint32_t rounds = forever();  // caller of fault.watchdog
  RETURN(rounds + counter);
}
