// SPDX-License-Identifier: Apache-2.0
//
// boardsmith_port on Zephyr: the link is that of link.c, the timer is the kernel's cycle counter. Not for Zephyr's
// native boards, which are processes: native_port.c.
#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>

#include "link.h"
#include "os.h"
#include "port.h"
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#include <boardsmith/upload.h>
#endif

enum {
  TICK_MS = 10,
  DRAINS_PER_SECOND = 20,  // the pause before an intended reset, for the longest FIFO of a UART at a low rate: 50 ms
};

typedef struct os {
  os_stack_t stack;
  volatile bool counts_lost;
  uint32_t tick_at;  // the cycle counter at the last tick
  uint32_t cycles_at_start;
  bool failed;  // a fault is recorded; not another one that recording it causes
} os_t;

static os_t os;

// Too large for the stacks that faults and interrupts use. Only one is recorded: a restart follows.
static os_state_t fault_state;

// Kept over a reset, so that random numbers differ between starts without an entropy device.
static uint32_t starts __attribute__((section(".boardsmith.noinit")));

// CAUSE_* of the last reset, for a debugger that inspects firmware which does not answer.
extern uint32_t boardsmith_reset_cause;
uint32_t boardsmith_reset_cause;

static int32_t os_flush(void* ctx) {
  (void)ctx;
  return 0;  // nothing is buffered
}

// ---- Time --------------------------------------------------------------------------------------------------------

static uint32_t os_now_ms(void* ctx) {
  (void)ctx;
  return k_uptime_get_32();
}

static uint32_t os_ticks_hz(void* ctx) {
  (void)ctx;
  return (uint32_t)sys_clock_hw_cycles_per_sec();
}

static uint32_t cycles_per_tick(void) {
  return (uint32_t)sys_clock_hw_cycles_per_sec() / (uint32_t)CONFIG_SYS_CLOCK_TICKS_PER_SEC;
}

// Returns the cycle counter, 64 bits wide. A counter of 32 bits gets its upper half from the kernel's ticks: the result
// is the number next to the time of the ticks whose lower half is the counter.
static uint64_t os_ticks(void* ctx) {
  (void)ctx;
  if (os.counts_lost) {
    return UINT64_MAX;
  }
#ifdef CONFIG_TIMER_HAS_64BIT_CYCLE_COUNTER
  return k_cycle_get_64();
#else
  const uint64_t about = (uint64_t)k_uptime_ticks() * cycles_per_tick();
  const uint32_t now = k_cycle_get_32() - os.cycles_at_start;
  return about + (uint64_t)(int64_t)(int32_t)(now - (uint32_t)about);
#endif
}

// Waits for the kernel's next tick, so that the same instructions take the same counts in every run of an emulator.
static void os_ticks_align(void* ctx) {
  (void)ctx;
  (void)k_sleep(K_TICKS(1));
  const unsigned int state = irq_lock();
  os.tick_at = k_cycle_get_32();
  os.counts_lost = false;
  irq_unlock(state);
}

#if (BOARDSMITH_UPLOAD_BYTES) > 0
static uint32_t os_interrupts(void* ctx) {
  (void)ctx;
  return os_link.interrupts;
}
#endif

// ---- Watchdog ----------------------------------------------------------------------------------------------------

#if ((BOARDSMITH_WATCHDOG_MS) > 0) && defined(CONFIG_WATCHDOG) && DT_NODE_HAS_STATUS(DT_ALIAS(watchdog0), okay)
static const struct device* const watchdog = DEVICE_DT_GET(DT_ALIAS(watchdog0));
static int watchdog_channel = -1;

static void watchdog_start(void) {
  const struct wdt_timeout_cfg config = {
      .window = {.min = 0, .max = (BOARDSMITH_WATCHDOG_MS)},
      .callback = NULL,
      .flags = WDT_FLAG_RESET_SOC,
  };
  if (device_is_ready(watchdog)) {
    watchdog_channel = wdt_install_timeout(watchdog, &config);
  }
  if ((watchdog_channel >= 0) && (wdt_setup(watchdog, WDT_OPT_PAUSE_HALTED_BY_DBG) != 0) &&
      (wdt_setup(watchdog, 0) != 0)) {
    watchdog_channel = -1;
  }
}

static void watchdog_feed(void) {
  if (watchdog_channel >= 0) {
    (void)wdt_feed(watchdog, watchdog_channel);
  }
}
#else
static void watchdog_start(void) {}
static void watchdog_feed(void) {}
#endif

// ---- The tick ----------------------------------------------------------------------------------------------------

// Notices a tick that came late, because interrupts were masked: SysTick's driver misses a second wrap. Other counters
// do not depend on interrupts.
static void check_counts(void) {
#ifdef CONFIG_CORTEX_M_SYSTICK
  const uint32_t now = k_cycle_get_32();
  const uint32_t since = now - os.tick_at;
  const uint32_t expected = (uint32_t)k_ms_to_ticks_ceil32(TICK_MS) * cycles_per_tick();
  os.tick_at = now;
  if (since > (expected + (expected / 4U))) {
    os.counts_lost = true;
  }
#endif
}

static void on_tick(struct k_timer* timer) {
  (void)timer;
  check_counts();
  const fault_call_t state = fault_tick((uint32_t)TICK_MS);
  if (state == FAULT_CALL_LATE) {
    os_interrupted_state(&fault_state, &os.stack);
    fault_keep(FAULT_TIMEOUT, fault_budget_ms(), &fault_state.at);
    sys_reboot(SYS_REBOOT_COLD);
  }
  if (os_link.waiting || os_link.alive || (state == FAULT_CALL)) {
    os_link.alive = false;
    watchdog_feed();
  }
}

static K_TIMER_DEFINE(tick, on_tick, NULL);

// ---- Start and stop ----------------------------------------------------------------------------------------------

// Causes in the report of boardsmith.platform (boardsmith.md).
enum {
  CAUSE_POWER = 1,
  CAUSE_PIN = 2,
  CAUSE_SOFTWARE = 4,
  CAUSE_WATCHDOG = 8,
  CAUSE_LOCKUP = 16,
  CAUSE_OTHER = 32,
  CAUSE_KNOWN = 128,  // set in boardsmith_reset_cause
};

static int32_t reset_cause = -1;  // CAUSE_*; -1: unknown

#ifdef CONFIG_HWINFO
static int32_t cause_if(uint32_t causes, uint32_t those, int32_t cause) { return ((causes & those) != 0U) ? cause : 0; }

static void read_reset_cause(void) {
  const uint32_t power = RESET_POR | RESET_BROWNOUT;
  const uint32_t named = power | RESET_PIN | RESET_SOFTWARE | RESET_WATCHDOG | RESET_CPU_LOCKUP;
  uint32_t causes = 0;
  if (hwinfo_get_reset_cause(&causes) == 0) {
    reset_cause = cause_if(causes, power, CAUSE_POWER) | cause_if(causes, RESET_PIN, CAUSE_PIN) |
                  cause_if(causes, RESET_SOFTWARE, CAUSE_SOFTWARE) | cause_if(causes, RESET_WATCHDOG, CAUSE_WATCHDOG) |
                  cause_if(causes, RESET_CPU_LOCKUP, CAUSE_LOCKUP) | cause_if(causes, ~named, CAUSE_OTHER);
    (void)hwinfo_clear_reset_cause();
  }
}
#else
static void read_reset_cause(void) {}
#endif

#if (BOARDSMITH_UPLOAD_BYTES) > 0
_Static_assert(((BOARDSMITH_UPLOAD_BYTES) & ((BOARDSMITH_UPLOAD_BYTES)-1)) == 0, "an upload window must be a region");

static uint8_t window[BOARDSMITH_UPLOAD_BYTES]
    __attribute__((aligned(BOARDSMITH_UPLOAD_BYTES), section(".noinit.boardsmith_upload")));

static void open_window(void) {
  enum { CACHE_LINE_BYTES = 32 };
  boardsmith_upload_open(window, BOARDSMITH_UPLOAD_BYTES, CACHE_LINE_BYTES, os_executable);
}
#else
static void open_window(void) {}
#endif

static int32_t os_init(void* ctx) {
  (void)ctx;
  starts++;
#ifdef CONFIG_THREAD_STACK_INFO
  os.stack.start = k_current_get()->stack_info.start;
  os.stack.end = os.stack.start + k_current_get()->stack_info.size;
#endif
  os.cycles_at_start = k_cycle_get_32() - ((uint32_t)k_uptime_ticks() * cycles_per_tick());
  read_reset_cause();
  boardsmith_reset_cause = (uint32_t)CAUSE_KNOWN | ((reset_cause > 0) ? (uint32_t)reset_cause : 0U);
  const int32_t by_watchdog = ((reset_cause & CAUSE_WATCHDOG) != 0) ? 1 : 0;
  fault_start((reset_cause < 0) ? -1 : by_watchdog);
  if (os_link_start() != 0) {
    return -1;
  }
  fault_repeat();
  open_window();
  k_timer_start(&tick, K_MSEC(TICK_MS), K_MSEC(TICK_MS));
  os.tick_at = k_cycle_get_32();
  watchdog_start();
  return 0;
}

// Waits until the last bytes are sent. The caller may have masked interrupts.
static void drain(void) {
  const uint32_t since = k_cycle_get_32();
  const uint32_t cycles = (uint32_t)sys_clock_hw_cycles_per_sec() / (uint32_t)DRAINS_PER_SECOND;
  for (uint32_t i = 0; ((k_cycle_get_32() - since) < cycles) && (i < 10000000U); i++) {
    // The counter may have stopped.
  }
}

static void os_stop(void* ctx, port_stop_t reason, uint32_t error) {
  (void)ctx;
  (void)reason;  // every reason leads to a restart
  (void)error;
  drain();
  fault_expect_reset();
  sys_reboot(SYS_REBOOT_COLD);
}

// ---- Faults ------------------------------------------------------------------------------------------------------

void os_keep_stack(fault_context_t* at, const os_stack_t* stack) {
  if ((at->sp >= stack->end) || ((at->sp + OS_FRAME_MAX_BYTES) < stack->start)) {
    return;
  }
  const uintptr_t from = (at->sp > stack->start) ? at->sp : stack->start;
  at->stack = (const uint8_t*)from;
  at->stack_size_bytes = (uint32_t)(stack->end - from);
}

static void os_complete(void* ctx, fault_context_t* at) {
  (void)ctx;
  os_keep_stack(at, &os.stack);
}

static fault_reason_t reason_of(unsigned int reason, const os_state_t* state) {
  if ((reason == (unsigned int)K_ERR_STACK_CHK_FAIL) || (state->overflow != 0)) {
    return FAULT_STACK;
  }
  if (reason == (unsigned int)K_ERR_SPURIOUS_IRQ) {
    return FAULT_INTERRUPT;
  }
  // An oops or a panic is a failed check of Zephyr's. Exceptions have many reasons from Zephyr 3.5 on.
  const bool is_check = (reason == (unsigned int)K_ERR_KERNEL_OOPS) || (reason == (unsigned int)K_ERR_KERNEL_PANIC);
  return is_check ? FAULT_CHECK : FAULT_HARDWARE;
}

// Records the fault and restarts. Call it in a k_sys_fatal_error_handler of your own, with that function's arguments.
_Noreturn void boardsmith_fatal(unsigned int reason, const os_frame_t* frame);
_Noreturn void boardsmith_fatal(unsigned int reason, const os_frame_t* frame) {
  if (!os.failed) {
    os.failed = true;
#ifdef CONFIG_THREAD_STACK_INFO
    if (k_current_get()->stack_info.start != os.stack.start) {
      os.stack.end = 0;  // another thread than the server's: its stack is not recorded
      os.stack.start = 0;
    }
#endif
    os_fault_state(&fault_state, frame, &os.stack);
    const fault_reason_t fault = reason_of(reason, &fault_state);
    const bool is_check = fault == FAULT_CHECK;
    fault_keep(fault, is_check ? (uint32_t)kTvmErrorPlatformCheckFailure : fault_state.code, &fault_state.at);
  }
  sys_reboot(SYS_REBOOT_COLD);
  for (;;) {
    // sys_reboot does not return.
  }
}

#ifdef CONFIG_BOARDSMITH_FATAL_HANDLER
void k_sys_fatal_error_handler(unsigned int reason, const os_frame_t* frame) { boardsmith_fatal(reason, frame); }
#endif

#ifdef CONFIG_MINIMAL_LIBC
// For math functions of the compiler's library. No operator reads it.
int* __errno(void);
__attribute__((weak)) int* __errno(void) {
  static int number;
  return &number;
}
#endif

// ---- Random numbers ----------------------------------------------------------------------------------------------

// Spreads the input over all bits (the finaliser of MurmurHash3, in the public domain).
static uint32_t scramble(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6BU;
  x ^= x >> 13;
  x *= 0xC2B2AE35U;
  return x ^ (x >> 16);
}

#if defined(CONFIG_ENTROPY_GENERATOR) && DT_HAS_CHOSEN(zephyr_entropy)
static bool from_device(uint8_t* data, uint32_t size_bytes) {
  const struct device* const source = DEVICE_DT_GET(DT_CHOSEN(zephyr_entropy));
  return device_is_ready(source) && (entropy_get_entropy(source, data, (uint16_t)size_bytes) == 0);
}
#else
static bool from_device(uint8_t* data, uint32_t size_bytes) {
  (void)data;
  (void)size_bytes;
  return false;
}
#endif

// Without an entropy device: a mix of the number of starts and of counter values when bytes arrived. They
// distinguish sessions; nothing secret depends on them.
static int32_t os_random(void* ctx, uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  if (from_device(data, size_bytes)) {
    return 0;
  }
  for (uint32_t i = 0; i < size_bytes; i++) {
    os_link.entropy = scramble(os_link.entropy + (starts * 0x9E3779B9U) + k_cycle_get_32() + i);
    data[i] = (uint8_t)os_link.entropy;
  }
  return 0;
}

// ---- Image, chip and platform ------------------------------------------------------------------------------------

#ifdef CONFIG_XIP
// Linker symbols (the CMake file): all programmed bytes, in flash with sectors without the model's.
extern const uint8_t boardsmith_image_start[];
extern const uint8_t boardsmith_image_end[];
#ifdef BOARDSMITH_MODEL_PART
extern const uint8_t boardsmith_model_start[];
extern const uint8_t boardsmith_model_end[];
#endif

static uint32_t os_image_crc(void* ctx, uint32_t crc) {
  (void)ctx;
  const uint32_t first = boardsmith_crc32_more(crc, boardsmith_image_start,
                                               (uintptr_t)boardsmith_image_end - (uintptr_t)boardsmith_image_start);
#ifdef BOARDSMITH_MODEL_PART
  return boardsmith_crc32_more(first, boardsmith_model_start,
                               (uintptr_t)boardsmith_model_end - (uintptr_t)boardsmith_model_start);
#else
  return first;
#endif
}
#else
static uint32_t os_image_crc(void* ctx, uint32_t crc) {
  (void)ctx;
  (void)crc;
  return 0;  // runs in RAM
}
#endif

static uint32_t os_chip_id(void* ctx, uint8_t* id, uint32_t max_bytes) {
  (void)ctx;
#ifdef CONFIG_HWINFO
  const ssize_t got = hwinfo_get_device_id(id, max_bytes);
  return (got > 0) ? (uint32_t)got : 0U;
#else
  (void)id;
  (void)max_bytes;
  return 0;
#endif
}

static void os_platform(void* ctx, port_platform_t* p) {
  (void)ctx;
  os_core(p);
  p->reset_cause = reset_cause;
  p->counts_lost = (os_link.lost >= 0) ? 1 : 0;
  p->lost_bytes = (os_link.lost >= 0) ? (uint32_t)os_link.lost : 0U;
}

#if defined(CONFIG_CPU_CORTEX_M)
#define ARCH FAULT_ARCH_CORTEX_M
#elif defined(CONFIG_RISCV)
#define ARCH FAULT_ARCH_RISCV
#else
#define ARCH ((fault_arch_t)0)  // the record has no registers
#endif

const boardsmith_port_t boardsmith_port = {
    .ctx = NULL,
    .arch = ARCH,
    .build_id = boardsmith_build_id,
    .init = os_init,
    .receive = os_receive,
    .send = os_send,
    .flush = os_flush,
    .now_ms = os_now_ms,
    .ticks = os_ticks,
    .ticks_hz = os_ticks_hz,
    .ticks_align = os_ticks_align,
#if (BOARDSMITH_UPLOAD_BYTES) > 0
    .interrupts = os_interrupts,
#endif
    .random = os_random,
    .image_crc = os_image_crc,
    .chip_id = os_chip_id,
    .platform = os_platform,
    .complete = os_complete,
    .stop = os_stop,
};
