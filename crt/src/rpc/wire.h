// SPDX-License-Identifier: Apache-2.0
//
// Little-endian fields of the wire, byte by byte: a message lies in its buffer at any alignment.
#ifndef BOARDSMITH_RPC_WIRE_H_
#define BOARDSMITH_RPC_WIRE_H_

#include <stddef.h>
#include <stdint.h>

static inline uint32_t wire_get32(const uint8_t* p) {
  return (uint32_t)p[0] | ((uint32_t)p[1] << 8) | ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);
}

static inline uint64_t wire_get64(const uint8_t* p) {
  return (uint64_t)wire_get32(p) | ((uint64_t)wire_get32(&p[4]) << 32);
}

static inline void wire_put32(uint8_t* p, uint32_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
  p[2] = (uint8_t)(v >> 16);
  p[3] = (uint8_t)(v >> 24);
}

static inline void wire_put64(uint8_t* p, uint64_t v) {
  wire_put32(p, (uint32_t)v);
  wire_put32(&p[4], (uint32_t)(v >> 32));
}

#endif  // BOARDSMITH_RPC_WIRE_H_
