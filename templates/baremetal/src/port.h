// SPDX-License-Identifier: Apache-2.0
//
// What a port gives to main.c and platform.c: everything that differs from chip to chip, in one struct of functions.
// Each port is one file that defines boardsmith_port; which one is built decides the chip. Nothing here is called
// from an interrupt, except ticks and ticks_hz by fault.c.
#ifndef BOARDSMITH_PORT_H_
#define BOARDSMITH_PORT_H_

#include <stdint.h>

#include "fault.h"

// receive's timeout_ms: wait until something comes.
#define PORT_FOREVER UINT32_MAX

// What receive returns once there will never be more input.
#define PORT_CLOSED (-1)

// Why the firmware stops.
typedef enum port_stop {
  PORT_STOP_CLOSED = 0,  // the host went away
  PORT_STOP_SHUTDOWN,    // the host asked for it
  PORT_STOP_BROKEN,      // the link takes no more output
  PORT_STOP_ABORT,       // TVMPlatformAbort
} port_stop_t;

// What the port can say of the machine, as read from it now: SPEC.md, "Platform". The caller has
// filled in what means "unknown".
typedef struct port_platform {
  uint32_t core_hz;     // 0: unknown
  uint32_t flags;       // 1 instruction cache on, 2 data cache on, 4 flash prefetch on, 8 FPU on
  int32_t has_flags;    // 0: unknown
  uint32_t cpuid;       // 0: unknown
  int32_t wait_states;  // -1: unknown
  int32_t reset_cause;  // -1: unknown
  uint32_t lost_bytes;  // received and thrown away
  int32_t counts_lost;  // 0: unknown
} port_platform_t;

typedef struct boardsmith_port {
  void* ctx;  // passed back to each function

  fault_arch_t arch;  // whose registers a fault's record holds

  // Fills in what belongs to at's pc and sp: the stack from there on, the status where it says how the image lies.
  void (*complete)(void* ctx, fault_context_t* at);

  // Clocks, timer and link; called once, first. Returns 0, or a negative number if the board cannot work.
  int32_t (*init)(void* ctx);

  // Waits up to timeout_ms for input, without spinning, and gives what has come: returns its count (0: none came in
  // time) and sets *data, which stays valid and may be written to until the next call. PORT_CLOSED at the end.
  int32_t (*receive)(void* ctx, uint8_t** data, uint32_t timeout_ms);

  // Takes size_bytes of output, at once or gathered until flush; may block while the host does not read. Returns 0, or
  // a negative number if the link is broken.
  int32_t (*send)(void* ctx, const uint8_t* data, uint32_t size_bytes);

  // Sends what send gathered. Returns as send does.
  int32_t (*flush)(void* ctx);

  // Milliseconds since any moment; wraps at 2^32.
  uint32_t (*now_ms)(void* ctx);

  // A free-running counter for timing, and how many counts make a second. UINT64_MAX: it has stopped, or was seen to
  // have possibly lost counts since ticks_align, so that no time can be told. What a bare port does not see: port/bare.h,
  // cpu_ticks.
  uint64_t (*ticks)(void* ctx);
  uint32_t (*ticks_hz)(void* ctx);

  // A measurement is about to start: lets the counter's next step begin now, where that can be had.
  void (*ticks_align)(void* ctx);

  // Fills data with bytes that differ from reset to reset. Returns 0, or a negative number without a source of them.
  int32_t (*random)(void* ctx, uint8_t* data, uint32_t size_bytes);

  // Continues crc (the CRC-32 of other bytes; 0: of none) with the image, read now from the flash that holds it; 0 where no
  // flash does.
  uint32_t (*image_crc)(void* ctx, uint32_t crc);

  // Writes the chip's unique id, at most max_bytes; returns its length, 0 where there is none.
  uint32_t (*chip_id)(void* ctx, uint8_t* id, uint32_t max_bytes);

  // Fills in what it can read from the machine now.
  void (*platform)(void* ctx, port_platform_t* p);

  // Resets or ends; does not return. fault.c has kept an abort's record. error is TVMPlatformAbort's, else 0. Output has been flushed as far as possible.
  void (*stop)(void* ctx, port_stop_t why, uint32_t error);
} boardsmith_port_t;

extern const boardsmith_port_t boardsmith_port;

#endif  // BOARDSMITH_PORT_H_
