// SPDX-License-Identifier: Apache-2.0
//
// Little-endian fields of the wire, at any address. Only little-endian cores are supported.
#ifndef BOARDSMITH_RPC_WIRE_H_
#define BOARDSMITH_RPC_WIRE_H_

#include <stdint.h>
#include <string.h>

#ifdef __BYTE_ORDER__
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values and tensors are sent as they are in memory");
#endif

// 1 for cores that read words at any address. On others a word is read byte by byte, which is cheaper than memcpy.
#if defined(__riscv) || (defined(__arm__) && !defined(__ARM_FEATURE_UNALIGNED))
#define WIRE_UNALIGNED 0
#else
#define WIRE_UNALIGNED 1
#endif

static inline uint32_t wire_get32(const uint8_t* p) {
#if WIRE_UNALIGNED
  uint32_t v;
  (void)memcpy(&v, p, sizeof v);
  return v;
#else
  return (uint32_t)p[0] | ((uint32_t)p[1] << 8) | ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);
#endif
}

static inline uint64_t wire_get64(const uint8_t* p) {
  return (uint64_t)wire_get32(p) | ((uint64_t)wire_get32(&p[4]) << 32);
}

#endif  // BOARDSMITH_RPC_WIRE_H_
