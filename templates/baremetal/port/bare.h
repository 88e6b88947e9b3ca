// SPDX-License-Identifier: Apache-2.0
//
// What the parts of a bare-metal port owe each other. A port is a CPU's files (cpu/), a chip's (chip/), a UART's
// (uart/) and bare.c, which makes boardsmith_port (port.h) out of them. Base addresses,
// interrupt numbers and clock settings come from the board file's `defines` through crt_config.h, so that a board on
// existing parts is one JSON file. Not for a process: process.c defines boardsmith_port alone.
//
// The order after a reset, interrupts masked until the last step: the CPU's entry sets up a stack, calls chip_early,
// copies .data, clears .bss, calls bare_start; that calls constructors and main, which calls boardsmith_port.init;
// that calls chip_init, cpu_init, uart_init and enables interrupts.
//
// What every board file's `defines` say for this header and for the CPU file:
//   CHIP_IRQS                      external interrupts of the chip: the vector table's length beyond the core's own 16
//   BOARDSMITH_BAUD                the UART's rate, default 115200
//   BARE_RX_BYTES                  room for received bytes, a power of two, default 1024
//   BARE_HANDLER_STACK_BYTES       stack of the interrupt and fault handlers, default 768
//   BARE_GUARD_BYTES               below each stack, forbidden by the CPU file; a power of two, 0 (default): none
//   BOARDSMITH_FAULT_STACK_BYTES   stack kept in a fault's record (fault.h), default 512
//   CPU_NO_EXTERNAL_MEMORY         1 where a Cortex-M7 has nothing at 0x60000000 to 0x9FFFFFFF: it must not read ahead there
//   CPU_SLEEP_STOPS_TICK           1 where a Cortex-M's SysTick stands still in WFI (nRF52, nRF53): it waits awake
#ifndef BOARDSMITH_BARE_H_
#define BOARDSMITH_BARE_H_

#include <stdint.h>

#include "crt_config.h"
#include "fault.h"

#ifndef BOARDSMITH_BAUD
#define BOARDSMITH_BAUD 115200
#endif
#ifndef BARE_RX_BYTES
#define BARE_RX_BYTES 1024
#endif
#ifndef BARE_HANDLER_STACK_BYTES
#define BARE_HANDLER_STACK_BYTES 768
#endif
#define BARE_FRAME_MAX_BYTES 0x100000U  // a stack pointer further below its stack than this is no frame's

// The tick's rate. Everything that counts time in milliseconds does so in steps of 1000 / BARE_TICK_HZ.
#define BARE_TICK_HZ 100U

// A memory-mapped register of 32 bits: REG32(BASE + 0x10U) |= 1U;
#define REG32(address) (*(volatile uint32_t*)(uintptr_t)(address))

// What boardsmith.platform reports: as read from registers now, never as it ought to be. bare.c fills in all fields
// with "unknown", then cpu_platform and chip_platform set what they can read.
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
  BARE_RESET_OTHER = 32,   // low power and all else
  BARE_RESET_KNOWN = 128,  // of bare_reset_cause
};
struct bare_platform {
  uint32_t flags;       // BARE_FLAG_*; each part sets only its own bits
  uint32_t cpuid;       // the core's identification register; 0: unknown
  int32_t wait_states;  // of the flash that code runs from; -1: unknown
  int32_t reset_cause;  // BARE_RESET_* of the last reset; -1: unknown
};

// BARE_RESET_* of the last reset, with BARE_RESET_KNOWN once chip_init has found it: for a debugger, which looks at a
// firmware that does not answer.
extern uint32_t bare_reset_cause;

// ---- What a CPU file gives ---------------------------------------------------------------------------------------

// Stack guard, fault handlers, FPU, caches where the core has them, and the tick at BARE_TICK_HZ. After chip_init:
// chip_core_hz is what the core runs at. Interrupts are masked and stay so.
void cpu_init(void);

// The free-running counter, 64 bits wide: SysTick; mcycle or mtime. It goes on in cpu_idle. UINT64_MAX: the counter has
// stopped, or may have lost counts since the last cpu_ticks_align, so that no time can be told. From thread code only.
//
// RISC-V's counters do not depend on interrupts. On a Cortex-M the tick's interrupt counts SysTick's edges:
// - Masked over no edge: the time is right.
// - Masked over one or more, until more than a 64th of a tick after the last: UINT64_MAX, also where it was one.
// - Masked until sooner after the last: one edge is counted. Of one that is right; with more the counter falls behind by
//   the other ticks, and nothing tells of it.
uint64_t cpu_ticks(void);

// Counts per second of cpu_ticks.
uint32_t cpu_ticks_hz(void);

// Restarts the tick so that a measurement begins at a timer edge: then the same instructions take the same counts
// from run to run under QEMU's icount. cpu_ticks goes on and never runs back; time in the tick is not lost.
void cpu_ticks_align(void);

// Sleeps until an interrupt is pending; returns at once where the counter of cpu_ticks, or what wakes the core, would
// stand still in sleep. Called with interrupts masked by cpu_lock, so that one that came just before is not slept
// through; the caller unmasks, and then it is served.
void cpu_idle(void);

// Masks all interrupts but faults, and returns the state before, for cpu_unlock. May nest.
uint32_t cpu_lock(void);
void cpu_unlock(uint32_t state);

// Resets the chip. RAM keeps its contents. Callable anywhere.
_Noreturn void cpu_reset(void);

// Enables external interrupt number (from 0) in the interrupt controller, at the lowest urgency: faults and the tick
// come before it.
void cpu_irq_enable(uint32_t number);

// Takes it off again. Weak default in bare.c: nothing.
void cpu_irq_disable(uint32_t number);

// Sets flags (caches, FPU) and cpuid as read from the core.
void cpu_platform(struct bare_platform* p);

// A CPU file with a write-back data cache also gives fault_sync (fault.h), and cleans the whole cache in cpu_reset.

// ---- What a chip file gives --------------------------------------------------------------------------------------

// The first C code after a reset, before .data and .bss are there: no variables, no constants in .data. Only what RAM
// needs (a bank's clock, a watchdog that is on from the start); may be empty. It has the thread's stack: where RAM must
// not be written to before something is done, that is in assembler, as in chip/stm32/stm32h7_early.S.
void chip_early(void);

// Clocks at BOARDSMITH_CORE_HZ, flash wait states, prefetch, the UART's pins and clock. .data and .bss are ready,
// interrupts are masked. Every wait for a clock has an end; one that never comes leaves the clock from before, which
// chip_core_hz then tells.
void chip_init(void);

// The core's clock, computed from the clock registers as they are, not a constant, where the chip has such registers.
uint32_t chip_core_hz(void);

// The clock that the UART divides, likewise.
uint32_t chip_uart_hz(void);

// External interrupt number came. Serves it (usually uart_irq()) and returns 0; -1: not expected, which is a fault
// with that number. In interrupt context; what it writes to a peripheral arrives before the interrupt returns. Where the
// UART is all that interrupts chip/uart_irq_only.c has it.
int32_t chip_irq(uint32_t number);

// Sets wait_states, the prefetch flag and reset_cause (read once by chip_init, which clears the bits after reading).
// Also the cache flags where caches are the flash interface's and not the core's.
void chip_platform(struct bare_platform* p);

// Writes the chip's unique id, at most max_bytes; returns its length, 0 where there is none. Weak default in bare.c: none.
uint32_t chip_id(uint8_t* id, uint32_t max_bytes);

// Fills data from the chip's generator. Returns 0, or -1 if there is none or it does not work: bare.c then does without.
// Called once, for a few bytes. Weak default in bare.c: -1.
int32_t chip_random(uint8_t* data, uint32_t size_bytes);

// The watchdog: needed where BOARDSMITH_WATCHDOG_MS is not 0, and started by init then. The tick feeds it while the main
// loop gets on (waits for bytes, sends them) or a call is inside its time budget, which every board has
// (BOARDSMITH_BUDGET_MS): it bites when interrupts stop, and when all else hangs.
//
// A chip gives its counter's rate and reach and is started with a number of counts. That milliseconds become counts in
// one place, bare_watchdog_start, keeps a time that the counter does not reach from becoming a short one.
typedef struct bare_watchdog {
  uint32_t hz;    // counts per second, at the fastest that its oscillator may run
  uint32_t most;  // counts that it can be started with
} bare_watchdog_t;
bare_watchdog_t chip_watchdog(void);
void chip_watchdog_start(uint32_t counts);  // 1 to most, from each feeding until it bites
void chip_watchdog_feed(void);

// Starts the watchdog so that it bites ms after it was fed, at its next count. Where that is beyond its reach: with the
// most counts there are.
static inline void bare_watchdog_start(uint32_t ms) {
  const bare_watchdog_t dog = chip_watchdog();
  const uint32_t part_ms = ms % 1000U;
  const uint32_t part = ((dog.hz / 1000U) * part_ms) + ((((dog.hz % 1000U) * part_ms) + 999U) / 1000U);  // below 2^32
  const uint64_t counts = ((uint64_t)(ms / 1000U) * dog.hz) + part;
  chip_watchdog_start((counts < dog.most) ? (uint32_t)counts : dog.most);
}

// For a watchdog that warns by a non-maskable interrupt before it resets. 1: it was the watchdog; the record then says
// where the program stood, too. Weak default in bare.c: 0.
int32_t chip_nmi_is_watchdog(void);

// ---- What a UART file gives --------------------------------------------------------------------------------------

// BOARDSMITH_BAUD baud, 8 data bits, no parity, one stop bit; the receive interrupt (or DMA) on, here by
// cpu_irq_enable. After chip_init.
void uart_init(void);

// The UART's interrupt: calls bare_received for each byte, and bare_lost for what the hardware says it lost. Clears
// error flags that would keep the interrupt pending.
void uart_irq(void);

// Gives a byte to the transmitter: 0, or -1 if there is no room now. Never waits.
int32_t uart_put(uint8_t byte);

// ---- What bare.c gives -------------------------------------------------------------------------------------------

// Calls the constructors of port and model (the functions that .init_array lists, by priority) and then main. From a
// CPU file's start, once .data and .bss are ready. Constructors run at the clock that the reset left.
_Noreturn void bare_start(void);

// A byte came; from the UART's interrupt. Bytes beyond the ring are counted as lost.
void bare_received(uint8_t byte);

// The UART lost bytes (overrun); from its interrupt.
void bare_lost(uint32_t count);

// External interrupt number came: what a CPU file's dispatcher calls. Gives it to chip_irq; if the ring of received
// bytes is nearly full then the interrupt stays off until there is room again, so that the UART holds what it can (an
// emulated one holds its sender). Returns what chip_irq does; the caller makes a fault of -1.
int32_t bare_irq(uint32_t number);

// A tick has passed; from the tick's interrupt (or cpu_ticks_align). at is what it interrupted, all of it as a fault
// would show it; used and kept only if the running call has used up its time budget, and then this does not return.
void bare_tick(const fault_context_t* at);

// Keeps what happened in the record (fault.h), then resets. From any context; at as for fault_keep.
_Noreturn void bare_fault(fault_reason_t reason, uint32_t code, const fault_context_t* at);

// ---- What the linker script gives (link.ld.S) --------------------------------------------------------------------

// The sections that code may name: .boardsmith.boot (before the vectors: a boot header), .boardsmith.vectors (first
// in the code region otherwise), .boardsmith.noinit (kept over a reset), .bss.boardsmith_arena, .ramfunc (code of the
// port that is copied to RAM with .data, and can run until cpu_init has taken RAM the right to be executed), and those
// that compilers make (.text, .rodata, .data, .bss and the like, with anything behind a dot). Any other is a link
// error: nothing would copy it, clear it or check it. The thread stack grows down from bare_stack_end to bare_stack_start.
//
// None of these changes with the model: what does is in the table of bare_model.h. Both parts' .data begins at
// bare_data_start.
extern uint8_t bare_stack_start[];
extern uint8_t bare_stack_end[];
extern uint8_t bare_handler_stack_end[];       // the handlers' stack, BARE_HANDLER_STACK_BYTES below it
extern volatile uint32_t bare_handler_mark[];  // 16 bytes right below that, for bare.c; below them is the guard
extern uint32_t bare_data_start[];             // multiples of 8 bytes, as are all of these
extern uint32_t bare_bss_start[];              // of the resident part
extern uint32_t bare_bss_end[];
extern const uint8_t bare_image_start[];  // what is programmed of the resident part: vectors, code, constants
extern const uint8_t bare_resident_end[];

#endif  // BOARDSMITH_BARE_H_
