// SPDX-License-Identifier: Apache-2.0
//
// The interface of a port to main.c and platform.c: everything that depends on the chip, in one struct of functions. A
// port defines boardsmith_port; the build selects the port's file. These functions are not called from an interrupt,
// except ticks and ticks_hz by fault.c.
#ifndef BOARDSMITH_PORT_H_
#define BOARDSMITH_PORT_H_

#include <stdint.h>

#include "crt_config.h"
#include "fault.h"

// Value of receive's timeout_ms: no timeout.
#define PORT_FOREVER UINT32_MAX

// Length of the build id: the first bytes of the linker's GNU build id.
enum { BUILD_ID_BYTES = 16 };

// The build id of an image with a linker script that defines this symbol; a process has none.
extern const uint8_t boardsmith_build_id[BUILD_ID_BYTES];

// Result of receive at the end of input.
#define PORT_CLOSED (-1)

// Why the firmware stops.
typedef enum port_stop {
  PORT_STOP_CLOSED = 0,  // the host has closed the link
  PORT_STOP_SHUTDOWN,    // the host requested it
  PORT_STOP_BROKEN,      // the link accepts no output
  PORT_STOP_ABORT,       // TVMPlatformAbort
} port_stop_t;

// Properties of the chip, read at the call: boardsmith.md, "Platform". The caller initialises all fields to "unknown".
typedef struct port_platform {
  uint32_t core_hz;     // 0: unknown
  uint32_t flags;       // 1 instruction cache on, 2 data cache on, 4 flash prefetch on, 8 FPU on
  int32_t has_flags;    // 0: unknown
  uint32_t cpuid;       // 0: unknown
  int32_t wait_states;  // -1: unknown
  int32_t reset_cause;  // -1: unknown
  uint32_t lost_bytes;  // received and dropped
  int32_t counts_lost;  // 0: unknown
} port_platform_t;

typedef struct boardsmith_port {
  void* ctx;  // passed back to each function

  fault_arch_t arch;  // architecture in the fault record

  const uint8_t* build_id;  // BUILD_ID_BYTES, valid after init: boardsmith_build_id, unless the port is for a process

  // Completes at for its pc and sp: the stack from sp up, and for a process the status (load address).
  void (*complete)(void* ctx, fault_context_t* at);

  // Sets up clocks, timer and link; called once, first. Returns 0, or a negative number if the board is not usable.
  int32_t (*init)(void* ctx);

  // Waits up to timeout_ms for input, without spinning where the link has interrupts. Returns the number of bytes (0:
  // timeout) and sets *data, which is valid and writable until the next call. Returns PORT_CLOSED at the end of input.
  int32_t (*receive)(void* ctx, uint8_t** data, uint32_t timeout_ms);

  // Sends size_bytes, or buffers them until flush; may block while the host does not read. Returns 0, or a negative
  // number if the link is broken.
  int32_t (*send)(void* ctx, const uint8_t* data, uint32_t size_bytes);

  // Sends buffered output. Returns like send.
  int32_t (*flush)(void* ctx);

  // Returns milliseconds since an arbitrary moment; wraps at 2^32.
  uint32_t (*now_ms)(void* ctx);

  // A free-running counter for timing, and its counts per second. UINT64_MAX: it has stopped, or may have lost counts
  // since ticks_align. For losses that are not detected, see cpu_ticks in port/bare.h.
  uint64_t (*ticks)(void* ctx);
  uint32_t (*ticks_hz)(void* ctx);

  // Called before a measurement: aligns the counter to its next step, if the port supports that.
  void (*ticks_align)(void* ctx);

#ifdef BOARDSMITH_MEASURE_PIN
  // Raises (1) or lowers (0) the board's measure_pin. Costs some instructions.
  void (*measure)(void* ctx, int32_t level);
#endif

#if (BOARDSMITH_UPLOAD_BYTES) > 0
  // Returns the number of interrupts, besides the tick, since the start; wraps. NULL: the port has none.
  uint32_t (*interrupts)(void* ctx);
#endif

  // Fills data with bytes that differ from reset to reset. Returns 0, or a negative number without a source.
  int32_t (*random)(void* ctx, uint8_t* data, uint32_t size_bytes);

  // Continues crc (the CRC-32 of earlier bytes; 0: none) over the image, read from flash at the call. Returns 0 if the
  // image is not in flash.
  uint32_t (*image_crc)(void* ctx, uint32_t crc);

  // Writes the chip's unique id, at most max_bytes. Returns its length, 0 without an id.
  uint32_t (*chip_id)(void* ctx, uint8_t* id, uint32_t max_bytes);

  // Sets the fields that the port can read from the chip.
  void (*platform)(void* ctx, port_platform_t* p);

  // Resets or ends; does not return. After an abort the record is written; error is TVMPlatformAbort's, else 0. Output
  // is flushed as far as possible.
  void (*stop)(void* ctx, port_stop_t reason, uint32_t error);
} boardsmith_port_t;

extern const boardsmith_port_t boardsmith_port;

// Called after each call that the host makes: restores what an operator's code may have changed besides its results,
// and later code would inherit: masked interrupts, the floating-point mode, a process's signal mask and working folder.
// Weak default: no effect.
void port_restore(void);

// The instructions of port_counts: 4 ms at QEMU's 16 ns, less than a tick of 10 ms.
#define PORT_COUNTED 0x40000U

// Returns how far the counter runs during PORT_COUNTED instructions. An emulator that counts instructions has a time
// to compare the counter with. Returns 0 on a chip, and on a core that is not known here. Call ticks_align first.
static inline uint32_t port_counts(void) {
#if defined(BOARDSMITH_EMULATED) && (BOARDSMITH_EMULATED) && (defined(__thumb__) || defined(__riscv))
  enum { LOOP_INSTRUCTIONS = 2 };
  uint64_t at[3];
  uint32_t rounds = 1;  // the first measurement is what reading the counter takes
  for (uint32_t i = 0; i < 2U; i++) {
    at[i] = boardsmith_port.ticks(boardsmith_port.ctx);
#ifdef __thumb__
    __asm__ volatile(".syntax unified\n1: subs %0, %0, #1\nbne 1b" : "+l"(rounds) : : "cc");
#else
    __asm__ volatile("1: addi %0, %0, -1\nbnez %0, 1b" : "+r"(rounds));
#endif
    rounds = (PORT_COUNTED / (uint32_t)LOOP_INSTRUCTIONS) + 1U;
  }
  at[2] = boardsmith_port.ticks(boardsmith_port.ctx);
  return (uint32_t)((at[2] - at[1]) - (at[1] - at[0]));
#else
  return 0;
#endif
}

// Raises (1) or lowers (0) the board's measure_pin, if it has one, which marks the measured time for a power meter.
// Call it just outside of that time.
static inline void port_measure(int32_t level) {
#ifdef BOARDSMITH_MEASURE_PIN
  boardsmith_port.measure(boardsmith_port.ctx, level);
#else
  (void)level;  // there is no pin
#endif
}

#endif  // BOARDSMITH_PORT_H_
