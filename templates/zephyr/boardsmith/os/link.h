// SPDX-License-Identifier: Apache-2.0
//
// Between zephyr_port.c and link.c.
#ifndef BOARDSMITH_LINK_H_
#define BOARDSMITH_LINK_H_

#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct os_link {
  volatile bool waiting;  // the server waits for bytes
  volatile bool alive;    // the server has run since this was cleared
  int32_t lost;           // bytes that the UART lost; negative: not reported by its driver
  uint32_t entropy;       // counter values at which bytes arrived
#if (BOARDSMITH_UPLOAD_BYTES) > 0
  volatile uint32_t interrupts;  // of the UART
#endif
} os_link_t;

extern os_link_t os_link;

// Returns 0, or -1 if there is no device.
int32_t os_link_start(void);

// receive and send of boardsmith_port_t.
int32_t os_receive(void* ctx, uint8_t** data, uint32_t timeout_ms);
int32_t os_send(void* ctx, const uint8_t* data, uint32_t size_bytes);

#endif  // BOARDSMITH_LINK_H_
