// SPDX-License-Identifier: Apache-2.0
//
// What a port gives to main.c and platform.c: everything that differs from chip to chip, in one struct of functions.
// Each port is one file that defines boardsmith_port; which one is built decides the chip. Nothing here is called
// from an interrupt.
#ifndef BOARDSMITH_PORT_H_
#define BOARDSMITH_PORT_H_

#include <stdint.h>

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

typedef struct boardsmith_port {
  void* ctx;  // passed back to each function

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

  // A free-running counter for timing, and how many counts make a second.
  uint64_t (*ticks)(void* ctx);
  uint32_t ticks_hz;

  // Fills data with bytes that differ from reset to reset. Returns 0, or a negative number without a source of them.
  int32_t (*random)(void* ctx, uint8_t* data, uint32_t size_bytes);

  // The CRC-32 of the image, computed now from the flash that holds it; 0 where no flash does.
  uint32_t (*image_crc)(void* ctx);

  // Writes the chip's unique id, at most max_bytes; returns its length, 0 where there is none.
  uint32_t (*chip_id)(void* ctx, uint8_t* id, uint32_t max_bytes);

  // Resets or ends; does not return. error is TVMPlatformAbort's, else 0. Output has been flushed as far as possible.
  void (*stop)(void* ctx, port_stop_t why, uint32_t error);
} boardsmith_port_t;

extern const boardsmith_port_t boardsmith_port;

#endif  // BOARDSMITH_PORT_H_
