// SPDX-License-Identifier: Apache-2.0
//
// boardsmith_port for every board without an operating system, based on the functions of the CPU, chip and UART files
// (bare.h): the receive buffer, the tick, the watchdog, random numbers, start and stop. Accesses no registers.
#include "bare.h"

#include <assert.h>
#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/platform.h>

#include "bare_model.h"
#include "port.h"
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#include <boardsmith/upload.h>
#endif

#define WEAK __attribute__((weak))

_Static_assert(((BARE_RX_BYTES) >= 128) && (((BARE_RX_BYTES) & ((BARE_RX_BYTES)-1)) == 0),
               "BARE_RX_BYTES: not a power of two of at least 128, which is more than a UART delivers at once");
_Static_assert((BOARDSMITH_CORE_HZ) > 0, "core_hz: 0, but the port must have the clock that it sets");
_Static_assert((BOARDSMITH_STACK_BYTES) > 0, "stack_bytes: 0, but without an operating system there is no other stack");
_Static_assert(((BOARDSMITH_WATCHDOG_MS) == 0) || ((BOARDSMITH_WATCHDOG_MS) >= (2 * (1000 / (int)BARE_TICK_HZ))),
               "watchdog_ms: shorter than two ticks, with which the watchdog is fed: 0, or at least 20");

enum {
  TICK_MS = 1000 / (int)BARE_TICK_HZ,
  SEND_MS = 2000,  // limit for a transmitter that accepts no byte
  // the same before the first tick: each takes at least a cycle, and a byte at 300 baud less than 1/20 s
  SEND_ATTEMPTS = (BOARDSMITH_CORE_HZ) / 20,
  DRAIN_MS = 50,  // for the longest FIFO of a UART at a low rate, before an intended reset
  RANDOM_WORDS = 4,
  RESERVE_BYTES = 64  // space for bytes that a UART delivers before its interrupt is disabled
};
#define NO_IRQ UINT32_MAX
#define HANDLER_MARK 0x4B52414DU

typedef struct bare {
  uint8_t ring[BARE_RX_BYTES];
  volatile uint32_t head;  // bytes received
  uint32_t tail;           // bytes that receive's caller has finished with
  uint32_t in_use;         // bytes in use by the caller
  volatile uint32_t lost;
  volatile uint32_t now_ms;
  volatile uint32_t held_irq;  // NO_IRQ, or the interrupt that is disabled until there is space
  volatile uint32_t alive;     // the main loop has run since the watchdog was fed
  uint32_t entropy;
#if (BOARDSMITH_UPLOAD_BYTES) > 0
  volatile uint32_t interrupts;  // besides the tick
#endif
  uint32_t random[RANDOM_WORDS];  // the generator's state
  int32_t seeded;
} bare_t;

static bare_t bare;

// Kept over a reset, so that random numbers differ between starts even without another source.
static uint32_t starts __attribute__((section(".boardsmith.noinit")));

// ---- Weak defaults -----------------------------------------------------------------------------------------------

WEAK void cpu_irq_disable(uint32_t number) { (void)number; }

WEAK uint32_t chip_id(uint8_t* id, uint32_t max_bytes) {
  (void)id;
  (void)max_bytes;
  return 0;
}

WEAK int32_t chip_nmi_is_watchdog(void) { return 0; }

WEAK int32_t chip_random(uint8_t* data, uint32_t size_bytes) {
  (void)data;
  (void)size_bytes;
  return -1;
}

// ---- Received bytes ----------------------------------------------------------------------------------------------

void bare_received(uint8_t byte) {
  const uint32_t head = bare.head;
  if ((head - bare.tail) < (uint32_t)(BARE_RX_BYTES)) {
    bare.ring[head % (uint32_t)(BARE_RX_BYTES)] = byte;
    bare.head = head + 1U;
  } else {
    bare.lost++;
  }
}

void bare_lost(uint32_t count) { bare.lost += count; }

int32_t bare_irq(uint32_t number) {
#if (BOARDSMITH_UPLOAD_BYTES) > 0
  bare.interrupts++;
#endif
  const int32_t error = chip_irq(number);
  if ((error == 0) && (((uint32_t)(BARE_RX_BYTES) - (bare.head - bare.tail)) < (uint32_t)RESERVE_BYTES)) {
    cpu_irq_disable(number);
    bare.held_irq = number;
  }
  return error;
}

// Frees the bytes that the caller used, and enables a disabled receive interrupt.
static void release_bytes(void) {
  const uint32_t state = cpu_lock();
  bare.tail += bare.in_use;
  bare.in_use = 0;
  const uint32_t held = bare.held_irq;
  bare.held_irq = NO_IRQ;
  cpu_unlock(state);
  if (held != NO_IRQ) {
    cpu_irq_enable(held);
  }
}

// Sleeps until a byte arrives or timeout_ms have passed; the tick wakes the core.
static void wait_for_bytes(uint32_t timeout_ms) {
  const uint32_t since = bare.now_ms;
  for (;;) {
    const uint32_t state = cpu_lock();
    const bool done = (bare.head != bare.tail) || ((bare.now_ms - since) >= timeout_ms);
    bare.alive = 1;
    if (!done) {
      cpu_idle();
    }
    cpu_unlock(state);
    if (done) {
      return;
    }
  }
}

static int32_t bare_receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {
  (void)ctx;
  release_bytes();
  wait_for_bytes(timeout_ms);
  const uint32_t waiting = bare.head - bare.tail;
  const uint32_t at = bare.tail % (uint32_t)(BARE_RX_BYTES);
  const uint32_t to_end = (uint32_t)(BARE_RX_BYTES)-at;
  bare.in_use = (waiting < to_end) ? waiting : to_end;
  if (bare.in_use != 0U) {
    bare.entropy += (uint32_t)cpu_ticks();
  }
  *data = &bare.ring[at];
  return (int32_t)bare.in_use;
}

// ---- Sent bytes --------------------------------------------------------------------------------------------------

static int32_t send_byte(uint8_t byte) {
  const uint32_t since = bare.now_ms;
  uint32_t attempts = 0;
  while (uart_put(byte) != 0) {
    attempts++;
    const bool is_early = bare.now_ms == 0U;
    if (((bare.now_ms - since) >= (uint32_t)SEND_MS) || (is_early && (attempts >= (uint32_t)SEND_ATTEMPTS))) {
      return -1;
    }
  }
  bare.alive = 1;
  return 0;
}

static int32_t bare_send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  for (uint32_t i = 0; i < size_bytes; i++) {
    if (send_byte(data[i]) != 0) {
      return -1;
    }
  }
  return 0;
}

static int32_t bare_flush(void* ctx) {
  (void)ctx;
  return 0;  // nothing is buffered
}

// ---- Time --------------------------------------------------------------------------------------------------------

static uint32_t bare_now_ms(void* ctx) {
  (void)ctx;
  return bare.now_ms;
}

static uint64_t bare_ticks(void* ctx) {
  (void)ctx;
  return cpu_ticks();
}

static uint32_t bare_ticks_hz(void* ctx) {
  (void)ctx;
  return cpu_ticks_hz();
}

static void bare_ticks_align(void* ctx) {
  (void)ctx;
  cpu_ticks_align();
}

#if (BOARDSMITH_UPLOAD_BYTES) > 0
static uint32_t bare_interrupts(void* ctx) {
  (void)ctx;
  return bare.interrupts;
}
#endif

// Returns whether the mark below the handlers' stack was overwritten, for chips without a guard.
static bool handlers_overflowed(void) { return bare_handler_mark[0] != HANDLER_MARK; }

bool bare_tick(void) {
  bare.now_ms += (uint32_t)TICK_MS;
  const fault_call_t state = fault_tick((uint32_t)TICK_MS);
  if ((state == FAULT_CALL_LATE) || handlers_overflowed()) {
    return true;
  }
#if (BOARDSMITH_WATCHDOG_MS) > 0
  if ((state != FAULT_CALL_NONE) || (bare.alive != 0U)) {
    bare.alive = 0;
    chip_watchdog_feed();
  }
#endif
  return false;
}

void bare_tick_fault(const fault_context_t* at) {
  if (handlers_overflowed()) {
    bare_fault(FAULT_STACK, 0, at);
  }
  bare_fault(FAULT_TIMEOUT, fault_budget_ms(), at);
}

// ---- Start and stop ----------------------------------------------------------------------------------------------

int main(void);

#ifdef BOARDSMITH_COPIED_REGIONS
// Copies parts of the model from the image to the memories where the board or the project places them. Word by word,
// volatile: a model may bring the memcpy that the compiler would call, which has not been copied yet.
static void copy_parts(void) {
  for (uint32_t i = 0; i < (uint32_t)(sizeof bare_model.copies / sizeof bare_model.copies[0]); i++) {
    const bare_copy_t* const part = &bare_model.copies[i];
    const volatile uint32_t* from = part->load;
    for (volatile uint32_t* to = part->start; to < part->end; to++) {
      *to = *from;
      from++;
    }
    cpu_code_written(part->start, (uint32_t)((uintptr_t)part->end - (uintptr_t)part->start));
  }
}
#else
static void copy_parts(void) {}
#endif

// Makes memories usable by the board's functions.
#ifdef BOARDSMITH_INITS
#define DECLARE_INIT(function) void function(void);
#define CALL_INIT(function) function();
BOARDSMITH_INITS(DECLARE_INIT)

static void init_memories(void) { BOARDSMITH_INITS(CALL_INIT) }
#else
static void init_memories(void) {}
#endif

_Noreturn void bare_start(void) {
  chip_init();
  uart_init();
  fault_repeat();  // before the board's and the user's code

  init_memories();
  copy_parts();
  for (void (*const* constructor)(void) = bare_model.init_start; constructor < bare_model.init_end; constructor++) {
    (*constructor)();
  }
  (void)main();
  cpu_reset();
}

static struct bare_platform read_platform(void) {
  struct bare_platform p = {.flags = 0, .cpuid = 0, .wait_states = -1, .reset_cause = -1};
  cpu_platform(&p);
  chip_platform(&p);
  return p;
}

#if (BOARDSMITH_UPLOAD_BYTES) > 0
static int executable(void* base, size_t size_bytes, int on) {
  return (int)cpu_executable(base, (uint32_t)size_bytes, on);
}

static void open_window(void) {
  enum { CACHE_LINE_BYTES = 32 };
  boardsmith_upload_open(bare_upload_start, BOARDSMITH_UPLOAD_BYTES, CACHE_LINE_BYTES, executable);
}
#else
static void open_window(void) {}
#endif

uint32_t bare_reset_cause;

static int32_t bare_init(void* ctx) {
  (void)ctx;
  starts++;
  bare_handler_mark[0] = HANDLER_MARK;
  bare.held_irq = NO_IRQ;
  const uint32_t state = cpu_lock();  // already masked, unless a debugger started the program
  cpu_init();
  const struct bare_platform p = read_platform();
  bare_reset_cause = (uint32_t)BARE_RESET_KNOWN | ((p.reset_cause > 0) ? (uint32_t)p.reset_cause : 0U);
  const int32_t by_watchdog = ((p.reset_cause & BARE_RESET_WATCHDOG) != 0) ? 1 : 0;
  fault_start((p.reset_cause < 0) ? -1 : by_watchdog);
  open_window();
#if (BOARDSMITH_WATCHDOG_MS) > 0
  bare_watchdog_start(BOARDSMITH_WATCHDOG_MS);
#endif
  (void)state;
  cpu_unlock(0);
  return 0;
}

_Noreturn void bare_fault(fault_reason_t reason, uint32_t code, const fault_context_t* at) {
  fault_keep(reason, code, at);
  cpu_reset();
}

// Waits until the last bytes are sent. The tick may be stopped here.
static void drain(void) {
  const uint32_t since = bare.now_ms;
  for (uint32_t i = 0; ((bare.now_ms - since) < (uint32_t)DRAIN_MS) && (i < 10000000U); i++) {
    __asm volatile("" ::: "memory");
  }
}

static void bare_stop(void* ctx, port_stop_t reason, uint32_t error) {
  (void)ctx;
  (void)reason;  // every reason leads to a restart
  (void)error;
  drain();
  fault_expect_reset();
  cpu_reset();
}

// ---- Random numbers ----------------------------------------------------------------------------------------------

// Spreads the input over all bits (the finaliser of MurmurHash3, in the public domain).
static uint32_t scramble(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6BU;
  x ^= x >> 13;
  x *= 0xC2B2AE35U;
  return x ^ (x >> 16);
}

// A chip's generator takes up to a millisecond per byte, so it only provides the seed. Without a generator, the seed is
// a mix of the number of starts and of counter values when bytes arrived.
static void seed(void) {
  if (chip_random((uint8_t*)bare.random, (uint32_t)sizeof bare.random) != 0) {
    for (uint32_t i = 0; i < (uint32_t)RANDOM_WORDS; i++) {
      bare.entropy = scramble(bare.entropy + (starts * 0x9E3779B9U) + (uint32_t)cpu_ticks() + i);
      bare.random[i] = bare.entropy;
    }
  }
  bare.random[0] |= 1U;  // the generator does not leave the state of all zeros
  bare.seeded = 1;
}

static uint32_t rotate(uint32_t x, uint32_t bits) { return (x << bits) | (x >> (32U - bits)); }

// xoshiro128** 1.1 by Blackman and Vigna, in the public domain.
static uint32_t next_random(void) {
  uint32_t* const s = bare.random;
  const uint32_t result = rotate(s[1] * 5U, 7U) * 9U;
  const uint32_t mixed = s[1] << 9;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= mixed;
  s[3] = rotate(s[3], 11U);
  return result;
}

static int32_t bare_random(void* ctx, uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  uint32_t word = 0;
  if (bare.seeded == 0) {
    seed();
  }
  for (uint32_t i = 0; i < size_bytes; i++) {
    word = ((i & 3U) == 0U) ? next_random() : (word >> 8);
    data[i] = (uint8_t)word;
  }
  return 0;
}

// ---- A failed assert ----------------------------------------------------------------------------------------------

// What assert and abort of any part end in, in place of the C library's functions, which would print and exit. They are
// in the resident part, which then takes nothing of the C library for them; the model uses them, too. Declared as in
// the C library's headers, for checkers that do not read them.
void __assert_func(const char* file, int line, const char* function, const char* expression);
void abort(void);

void __assert_func(const char* file, int line, const char* function, const char* expression) {
  (void)function;
  fault_assertion(file, (unsigned)line, expression);
}

void abort(void) { TVMPlatformAbort(kTvmErrorPlatformCheckFailure); }

// ---- Image, chip and platform ------------------------------------------------------------------------------------

static uint32_t bare_image_crc(void* ctx, uint32_t crc) {
  (void)ctx;
  const uint8_t* model = (const uint8_t*)&bare_model;
  const uint32_t resident =
      boardsmith_crc32_more(crc, bare_image_start, (uintptr_t)bare_resident_end - (uintptr_t)bare_image_start);
  const uint32_t image = boardsmith_crc32_more(resident, model, (uintptr_t)bare_model.image_end - (uintptr_t)model);
#ifdef BOARDSMITH_APART
  const uint8_t* const apart = bare_model.apart_start;
  return boardsmith_crc32_more(image, apart, (uintptr_t)bare_model.apart_end - (uintptr_t)apart);
#else
  return image;
#endif
}

// Replaces TVMSystemLibEntryPoint for the runtime (the Makefile's --wrap): calls it through the table.
const TVMModule* __wrap_TVMSystemLibEntryPoint(void);
const TVMModule* __wrap_TVMSystemLibEntryPoint(void) {
  return (bare_model.library != NULL) ? bare_model.library() : NULL;
}

#ifdef BOARDSMITH_SIGNATURES
// Replaces boardsmith_library_signatures in the same way.
const boardsmith_signature_t* __wrap_boardsmith_library_signatures(void);
const boardsmith_signature_t* __wrap_boardsmith_library_signatures(void) { return bare_model.signatures; }
#endif

static uint32_t bare_chip_id(void* ctx, uint8_t* id, uint32_t max_bytes) {
  (void)ctx;
  return chip_id(id, max_bytes);
}

static void bare_platform(void* ctx, port_platform_t* p) {
  (void)ctx;
  const struct bare_platform seen = read_platform();
  p->core_hz = chip_core_hz();
  p->has_flags = 1;
  p->flags = seen.flags;
  p->cpuid = seen.cpuid;
  p->wait_states = seen.wait_states;
  p->reset_cause = seen.reset_cause;
  p->counts_lost = 1;
  p->lost_bytes = bare.lost;
}

static void bare_complete(void* ctx, fault_context_t* at) {
  (void)ctx;
  if ((at->sp >= (uintptr_t)bare_stack_start) && (at->sp < (uintptr_t)bare_stack_end)) {
    at->stack = (const uint8_t*)at->sp;
    at->stack_size_bytes = (uint32_t)((uintptr_t)bare_stack_end - at->sp);
  }
}

#ifdef BOARDSMITH_MEASURE_PIN
static void bare_measure(void* ctx, int32_t level) {
  (void)ctx;
  chip_measure(level);
}
#endif

#if defined(__riscv)
#define ARCH FAULT_ARCH_RISCV
#else
#define ARCH FAULT_ARCH_CORTEX_M
#endif

const boardsmith_port_t boardsmith_port = {
    .ctx = NULL,
    .arch = ARCH,
    .build_id = boardsmith_build_id,
    .init = bare_init,
    .receive = bare_receive,
    .send = bare_send,
    .flush = bare_flush,
    .now_ms = bare_now_ms,
    .ticks = bare_ticks,
    .ticks_hz = bare_ticks_hz,
    .ticks_align = bare_ticks_align,
#ifdef BOARDSMITH_MEASURE_PIN
    .measure = bare_measure,
#endif
#if (BOARDSMITH_UPLOAD_BYTES) > 0
    .interrupts = bare_interrupts,
#endif
    .random = bare_random,
    .image_crc = bare_image_crc,
    .chip_id = bare_chip_id,
    .platform = bare_platform,
    .complete = bare_complete,
    .stop = bare_stop,
};
