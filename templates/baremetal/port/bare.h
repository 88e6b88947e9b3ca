// SPDX-License-Identifier: Apache-2.0
//
// Interfaces between the parts of a bare-metal port: the files of a CPU (cpu/), of a chip (chip/), of a UART (uart/),
// and bare.c, which implements boardsmith_port (port.h) with them. Base addresses, interrupt numbers and clock settings
// come from the board file's `defines` through crt_config.h, so that a board with existing parts needs only a JSON
// file. Not for a process: process.c implements boardsmith_port alone.
//
// Start sequence, with interrupts masked until the last step: the CPU's entry sets up a stack, calls chip_early, copies
// .data, clears .bss, and calls bare_start; bare_start calls chip_init and uart_init, sends the record of a fault that
// repeats (fault_repeat), calls the board's functions that make memories usable (init), copies parts of the model that
// the board or the project places in other memories, and calls constructors and main; main calls boardsmith_port.init,
// which calls cpu_init and enables interrupts.
//
// `defines` of board files for this header and for the CPU files:
//   CHIP_IRQS                      number of external interrupts: the vector table's length after the core's 16 entries
//   UART_HZ                        the clock that the UART divides once chip_init has set it, default the core's. The
//                                  compiler checks the UART's rate with it; chip_uart_hz reads registers
//   BARE_RX_BYTES                  size of the receive buffer, a power of two, default 1024
//   BARE_HANDLER_STACK_BYTES       stack of the interrupt and fault handlers, default 768
//   BARE_GUARD_BYTES               guard below each stack, a power of two; 0 (default): none
//   BOARDSMITH_FAULT_STACK_BYTES   part of the stack in a fault record (fault.h), default 512
//   CPU_NO_EXTERNAL_MEMORY         1 on a Cortex-M7 without memory at 0x60000000 to 0x9FFFFFFF: no speculative reads
//   CPU_SLEEP_STOPS_TICK           1 on a Cortex-M whose SysTick stops in WFI (nRF52, nRF53): the core does not sleep
//   CPU_NO_VTOR                    1 on a Cortex-M0, whose vectors are at 0; 0: a boot loader passes interrupts on
#ifndef BOARDSMITH_BARE_H_
#define BOARDSMITH_BARE_H_

#include <stdbool.h>
#include <stdint.h>

#include "crt_config.h"
#include "fault.h"

#ifndef UART_HZ
#define UART_HZ BOARDSMITH_CORE_HZ
#endif
#ifndef BARE_RX_BYTES
#define BARE_RX_BYTES 1024
#endif
#ifndef BARE_HANDLER_STACK_BYTES
#define BARE_HANDLER_STACK_BYTES 768
#endif
#define BARE_FRAME_MAX_BYTES 0x100000U  // a stack pointer further below its stack is not caused by a frame

// The tick's rate. Times in milliseconds advance in steps of 1000 / BARE_TICK_HZ.
#define BARE_TICK_HZ 100U

// A memory-mapped register of 32 bits: REG32(BASE + 0x10U) |= 1U;
#define REG32(address) (*(volatile uint32_t*)(uintptr_t)(address))

// ---- Checks of the board file, for the compiler ------------------------------------------------------------------
//
// The message of each assertion about a board file's values begins with the name of the field or define and a colon:
// board:check then shows its file and line.

// Whether a number is that of a pin in the chip file's `pins`, and of one in its `debug_pins`.
#ifndef BOARDSMITH_IS_PIN
#define BOARDSMITH_IS_PIN(number) 1
#endif
#ifndef BOARDSMITH_IS_DEBUG_PIN
#define BOARDSMITH_IS_DEBUG_PIN(number) 0
#endif

// Checks the pins of a UART, which the arguments name.
#define BARE_CHECK_UART_PINS(tx, rx)                                                                         \
  _Static_assert(BOARDSMITH_IS_PIN(tx), #tx ": no pin of the chip, whose file lists its pins");              \
  _Static_assert(BOARDSMITH_IS_PIN(rx), #rx ": no pin of the chip, whose file lists its pins");              \
  _Static_assert((tx) != (rx), #rx ": the same pin as " #tx);                                                \
  _Static_assert(!BOARDSMITH_IS_DEBUG_PIN(tx), #tx ": a pin of the debug probe, which would lose the chip"); \
  _Static_assert(!BOARDSMITH_IS_DEBUG_PIN(rx), #rx ": a pin of the debug probe, which would lose the chip")

// Checks the base of a UART's registers, which are words, or only that it is an address outside of the board's memory.
// The UART's file defines BARE_BASE, the same base, for the sum over the memories.
#define BARE_CHECK_BASE(base)                                           \
  _Static_assert(((base) % 4U) == 0U, #base ": not aligned to a word"); \
  BARE_CHECK_OUTSIDE(base, #base)
#define BARE_CHECK_OUTSIDE(base, name)                                                                \
  _Static_assert(((base) != 0) && (((base) & ~(uint64_t)UINTPTR_MAX) == 0U) && (BARE_IN_MEMORY == 0), \
                 name ": no address of registers: 0, too large, or in a memory of the board")
#define BARE_HOLDS_BASE(origin, bytes, kind) +((((uint64_t)(BARE_BASE) - (origin)) < (bytes)) ? 1 : 0)
#ifdef BOARDSMITH_REGIONS
#define BARE_IN_MEMORY (0 BOARDSMITH_REGIONS(BARE_HOLDS_BASE))
#else
#define BARE_IN_MEMORY 0
#endif

// Checks that hz / divisor is BOARDSMITH_BAUD, less or more 2 %, and that the divisor is in its range.
#define BARE_CHECK_RATE(hz, divisor, least, most)                                                                 \
  _Static_assert(((uint64_t)(divisor) >= (least)) && ((uint64_t)(divisor) <= (most)),                             \
                 "link.baud: the divisor of the UART is out of its range at this clock (UART_HZ, else core_hz)"); \
  _Static_assert(BARE_IS_NEAR(hz, (uint64_t)(divisor) * (BOARDSMITH_BAUD)), BARE_NOT_NEAR)
#define BARE_NOT_NEAR \
  "link.baud: the clock of the UART (UART_HZ, else core_hz) cannot be divided to this rate within 2 %"
#define BARE_IS_NEAR(a, b) \
  ((((uint64_t)(a)*50U) >= ((uint64_t)(b)*49U)) && (((uint64_t)(a)*50U) <= ((uint64_t)(b)*51U)))

// Checks the number of an external interrupt. Of a RISC-V's interrupt controller, 0 is none.
#ifdef CHIP_IRQS
#define BARE_CHECK_IRQ(number)                                                  \
  _Static_assert(((int64_t)(number) >= 0) && ((int64_t)(number) < (CHIP_IRQS)), \
                 #number ": not in the vector table, whose length is CHIP_IRQS")
#else
#define BARE_CHECK_IRQ(number) \
  _Static_assert(((number) > 0) && ((number) < 1024), #number ": no number of the interrupt controller, 1 to 1023")
#endif

// ---- The report of boardsmith.platform ---------------------------------------------------------------------------

// The report of boardsmith.platform: values read from registers, not intended values. bare.c initialises all fields to
// "unknown"; cpu_platform and chip_platform set what they can read.
enum {
  BARE_FLAG_ICACHE = 1,
  BARE_FLAG_DCACHE = 2,
  BARE_FLAG_PREFETCH = 4,
  BARE_FLAG_FPU = 8,
};
enum {
  BARE_RESET_POWER = 1,
  BARE_RESET_PIN = 2,
  BARE_RESET_SOFTWARE = 4,
  BARE_RESET_WATCHDOG = 8,
  BARE_RESET_FAULT = 16,   // lockup
  BARE_RESET_OTHER = 32,   // low power and other causes
  BARE_RESET_KNOWN = 128,  // set in bare_reset_cause
};
struct bare_platform {
  uint32_t flags;       // BARE_FLAG_*; each part sets only its own bits
  uint32_t cpuid;       // the core's identification register; 0: unknown
  int32_t wait_states;  // of the flash that code runs from; -1: unknown
  int32_t reset_cause;  // BARE_RESET_* of the last reset; -1: unknown
};

// BARE_RESET_* of the last reset, with BARE_RESET_KNOWN once it is read: for a debugger that inspects firmware which
// does not answer.
extern uint32_t bare_reset_cause;

// ---- Functions of a CPU file -------------------------------------------------------------------------------------

// Sets up stack guards, fault handlers, FPU, caches, and the tick at BARE_TICK_HZ. Called after chip_init, so that
// chip_core_hz is valid. Interrupts stay masked.
void cpu_init(void);

// Returns the free-running counter, 64 bits wide: SysTick; mcycle or mtime. It continues in cpu_idle. UINT64_MAX: the
// counter has stopped, or may have lost counts since the last cpu_ticks_align. Only for thread code.
//
// RISC-V's counters do not depend on interrupts. On a Cortex-M the tick's interrupt counts SysTick's edges, so masked
// interrupts have an effect:
// - Masked over no edge: the time is right.
// - Masked over one or more edges, until more than a 64th of a tick after the last: UINT64_MAX.
// - Unmasked earlier after the last edge: one edge is counted. If there were more, the counter loses the others without
//   an error.
uint64_t cpu_ticks(void);

// Returns the counts per second of cpu_ticks.
uint32_t cpu_ticks_hz(void);

// Restarts the tick so that a measurement begins at a timer edge: the same instructions then take the same counts in
// every run with QEMU's icount. cpu_ticks continues and never decreases; no time of the tick is lost.
void cpu_ticks_align(void);

// Sleeps until an interrupt is pending. Returns at once if the counter of cpu_ticks, or the timer that wakes the core,
// would stop in sleep. Call it with interrupts masked by cpu_lock, so that an interrupt just before the sleep ends it;
// it is handled when the caller unmasks.
void cpu_idle(void);

// Masks all interrupts except faults, and returns the previous state for cpu_unlock. May be nested.
uint32_t cpu_lock(void);
void cpu_unlock(uint32_t state);

// Resets the chip. RAM keeps its contents. May be called from any context.
_Noreturn void cpu_reset(void);

// Enables external interrupt number (from 0) in the interrupt controller, at the lowest priority, below faults and the
// tick.
void cpu_irq_enable(uint32_t number);

// Disables it. Weak default in bare.c: no effect.
void cpu_irq_disable(uint32_t number);

// Sets flags (caches, FPU) and cpuid from the core's registers.
void cpu_platform(struct bare_platform* p);

// Makes writes to the upload window visible to instruction fetches, and the window executable (on is 1) or not (0) if
// the core can enforce that. Returns 0. Only with BOARDSMITH_UPLOAD_BYTES.
int32_t cpu_executable(void* base, uint32_t size_bytes, int32_t on);

// Makes code that was written to RAM visible to instruction fetches. Called before cpu_init, for parts of the model
// that are copied at the start. Only with BOARDSMITH_COPIED_REGIONS.
void cpu_code_written(const void* base, uint32_t size_bytes);

// A CPU file with a write-back data cache also defines fault_sync (fault.h), and cleans the whole cache in cpu_reset.

// ---- Functions of a chip file ------------------------------------------------------------------------------------

// The first C code after a reset, before .data and .bss are set up: it must not use variables or constants in .data.
// Only for what must come first (a RAM bank's clock, a watchdog that is on after a reset); may be empty. It runs on the
// thread's stack: if RAM is not writable yet, write it in assembler, as in chip/stm32/stm32h7_early.S.
void chip_early(void);

// Sets up clocks for BOARDSMITH_CORE_HZ, flash wait states, prefetch, the UART's pins and clock. .data and .bss are set
// up, interrupts are masked. Every wait for a clock must have a limit; if a clock does not start, the previous one
// stays, and chip_core_hz returns it.
void chip_init(void);

// Returns the core's clock in Hz, computed from the clock registers if the chip has any, not a constant.
uint32_t chip_core_hz(void);

// Returns the clock that the UART divides, computed likewise.
uint32_t chip_uart_hz(void);

// Handles external interrupt number (usually by uart_irq()) and returns 0; -1: unexpected, which becomes a fault with
// that number. Runs in interrupt context; its writes to peripherals are complete before the interrupt returns.
// chip/uart_irq_only.c defines it for chips that only use the UART's interrupt.
int32_t chip_irq(uint32_t number);

// Sets wait_states, the prefetch flag and reset_cause (chip_init reads it once and then clears the bits). Also sets the
// cache flags if the caches belong to the flash interface, not to the core.
void chip_platform(struct bare_platform* p);

// Writes the chip's unique id, at most max_bytes. Returns its length, 0 without an id. Weak default in bare.c: 0.
uint32_t chip_id(uint8_t* id, uint32_t max_bytes);

// Fills data from the chip's random generator. Returns 0, or -1 if there is none or it fails; bare.c then uses another
// seed. Called once, for a few bytes. Weak default in bare.c: -1.
int32_t chip_random(uint8_t* data, uint32_t size_bytes);

// The watchdog, required if BOARDSMITH_WATCHDOG_MS is not 0; init then starts it. The tick feeds it while the main loop
// runs (waits for bytes, sends them) or a call is within its time budget (BOARDSMITH_BUDGET_MS). It therefore resets
// the chip if interrupts stop or the program hangs.
//
// A chip defines its counter's rate and maximum, and starts it with a number of counts. Only bare_watchdog_start
// converts milliseconds to counts, so that a time beyond the maximum is limited and does not wrap.
typedef struct bare_watchdog {
  uint32_t hz;    // counts per second, at the maximum frequency of its oscillator
  uint32_t most;  // maximum start value
} bare_watchdog_t;
bare_watchdog_t chip_watchdog(void);
void chip_watchdog_start(uint32_t counts);  // 1 to most: counts from a feed to the reset
void chip_watchdog_feed(void);

// Starts the watchdog so that it resets the chip ms after a feed, rounded up to a count and limited to its maximum.
static inline void bare_watchdog_start(uint32_t ms) {
  const bare_watchdog_t dog = chip_watchdog();
  const uint32_t part_ms = ms % 1000U;
  const uint32_t part = ((dog.hz / 1000U) * part_ms) + ((((dog.hz % 1000U) * part_ms) + 999U) / 1000U);  // below 2^32
  const uint64_t counts = ((uint64_t)(ms / 1000U) * dog.hz) + part;
  chip_watchdog_start((counts < dog.most) ? (uint32_t)counts : dog.most);
}

#ifdef BOARDSMITH_MEASURE_PIN
// Raises (1) or lowers (0) the board's measure_pin, which has the number BOARDSMITH_MEASURE_PIN: the place of its range
// in the chip file's `pins` times the pins of the first range, plus its own number. chip_init makes it an output that
// is low. A chip whose file has no `pins` needs neither.
void chip_measure(int32_t level);
#endif

// For a watchdog that raises a non-maskable interrupt before it resets. Returns 1 if the watchdog caused the interrupt;
// the record then includes the position. Weak default in bare.c: 0.
int32_t chip_nmi_is_watchdog(void);

// ---- Functions of a UART file ------------------------------------------------------------------------------------

// Sets up BOARDSMITH_BAUD baud, 8 data bits, no parity, one stop bit, and the receive interrupt (or DMA), with
// cpu_irq_enable. Called after chip_init and before cpu_init.
void uart_init(void);

// Handles the UART's interrupt: calls bare_received for each byte, and bare_lost for bytes that the hardware reports as
// lost. Clears error flags that would keep the interrupt pending.
void uart_irq(void);

// Passes a byte to the transmitter. Returns 0, or -1 if the transmitter is full. Never waits.
int32_t uart_put(uint8_t byte);

// ---- Functions of bare.c -----------------------------------------------------------------------------------------

// Calls the constructors of port and model (the functions in .init_array, by priority), at the final clock, and then
// main. Called by a CPU file's start, after .data and .bss are set up.
_Noreturn void bare_start(void);

// Stores a received byte; called by the UART's interrupt. Bytes that do not fit the buffer are counted as lost.
void bare_received(uint8_t byte);

// Counts bytes lost by the UART (overrun); called by its interrupt.
void bare_lost(uint32_t count);

// Handles external interrupt number by chip_irq; called by a CPU file. If the receive buffer is nearly full, disables
// the interrupt until there is space, so that the UART keeps further bytes (an emulated one stops its sender). Returns
// the result of chip_irq; the caller turns -1 into a fault.
int32_t bare_irq(uint32_t number);

// Counts a tick; called by the tick's interrupt or cpu_ticks_align, inside measured times. Returns true if there is a
// fault to report: the caller then passes the interrupted state to bare_tick_fault.
bool bare_tick(void);

// Reports the fault that bare_tick has detected: the time budget of the running call is used up, or the handlers' stack
// has overflowed.
_Noreturn void bare_tick_fault(const fault_context_t* at);

// Writes the fault record (fault.h), then resets. May be called from any context; at: see fault_keep.
_Noreturn void bare_fault(fault_reason_t reason, uint32_t code, const fault_context_t* at);

// ---- Symbols of the linker script (link.ld.S) --------------------------------------------------------------------

// Valid sections: .boardsmith.boot (a boot header before the vectors), .boardsmith.vectors (otherwise first in the code
// region), .boardsmith.noinit (kept over a reset), .bss.boardsmith_arena, .ramfunc (code of the port that is copied to
// RAM with .data, and can run until cpu_init makes RAM not executable), and those of compilers (.text, .rodata, .data,
// .bss and similar, with any suffix after a dot). Any other section is a link error, because it would not be copied,
// cleared or checked. The thread stack grows down from bare_stack_end to bare_stack_start.
//
// These symbols do not depend on the model; those that do are in the table of bare_model.h. The .data of both parts
// begins at bare_data_start.
extern uint8_t bare_stack_start[];
extern uint8_t bare_stack_end[];
extern uint8_t bare_handler_stack_end[];       // end of the handlers' stack of BARE_HANDLER_STACK_BYTES
extern volatile uint32_t bare_handler_mark[];  // 16 bytes below that stack, for bare.c; the guard is below them
extern uint32_t bare_data_start[];             // a multiple of 8 bytes, like the next two
extern uint32_t bare_bss_start[];              // of the resident part
extern uint32_t bare_bss_end[];
extern const uint8_t bare_image_start[];  // programmed bytes of the resident part: vectors, code, constants
extern const uint8_t bare_resident_end[];
extern uint8_t bare_upload_start[];  // BOARDSMITH_UPLOAD_BYTES, aligned to their number; undefined if they are 0

#endif  // BOARDSMITH_BARE_H_
