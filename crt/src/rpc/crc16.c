// SPDX-License-Identifier: Apache-2.0
#include "crc16.h"

#include <string.h>

#include "wire.h"

// Returns crc after the 16 bits of word, the earlier byte in its upper half.
__attribute__((always_inline)) static inline uint32_t crc16_pair(uint32_t crc, uint32_t word) {
  uint32_t u = crc ^ word;
  u ^= u >> 8;
  u ^= (u >> 4) ^ (u >> 11);
  return (u ^ (u << 5) ^ (u << 12)) & 0xFFFFU;
}

// Tells whether one of the four bytes of word is ff: the complement then has a zero byte, which borrows.
static inline int has_ff(uint32_t word) {
  return (((~word - 0x01010101U) & word) & 0x80808080U) != 0U;
}

size_t crc16_span(uint16_t* crc, uint8_t* dst, const uint8_t* src, size_t n) {
  const uint8_t* p = src;
  const uint8_t* const end = &src[n];
  uint32_t sum = *crc;
  while ((size_t)(end - p) >= 4U) {
    uint32_t word;
    (void)memcpy(&word, p, 4);  // one load where the core allows it unaligned
    if (has_ff(word)) {
      break;
    }
    if (dst != NULL) {
      (void)memcpy(dst, &word, 4);
      dst += 4;
    }
    word = ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
    sum = crc16_pair(crc16_pair(sum, word >> 16), word & 0xFFFFU);
    p += 4;
  }
  while ((p != end) && (*p != 0xFFU)) {
    sum = crc16_byte((uint16_t)sum, *p);
    if (dst != NULL) {
      *dst = *p;
      dst++;
    }
    p++;
  }
  *crc = (uint16_t)sum;
  return (size_t)(p - src);
}
