// SPDX-License-Identifier: Apache-2.0
// Where size is asked for, GCC would join the ends of loops with their beginnings.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE_SIZE__)
#pragma GCC optimize("no-crossjumping")
#endif

#include "crc16.h"

#include "wire.h"

// Returns the CRC after the 16 bits of u, which are the earlier CRC plus two bytes. What lies above the result's 16 bits means
// nothing.
__attribute__((always_inline)) static inline uint32_t fold(uint32_t u) {
  u ^= u >> 8;
  u ^= (u >> 4) ^ (u >> 11);
  return u ^ (u << 5) ^ (u << 12);
}

uint16_t crc16_pair(uint16_t crc, uint32_t word) { return (uint16_t)fold(crc ^ word); }

// Tells whether one of the four bytes of word is ff: the complement then has a zero byte, which borrows.
static inline int has_ff(uint32_t word) {
  return (((~word - 0x01010101U) & word) & 0x80808080U) != 0U;
}

size_t crc16_span(uint16_t* crc, uint8_t* dst, const uint8_t* src, size_t n) {
  const uint8_t* p = src;
  const uint8_t* const end = &src[n];
  const uint8_t* const words_end = (WIRE_UNALIGNED != 0) ? &src[n & ~(size_t)3U] : src;
  uint32_t sum = *crc;
  if (p != words_end) {
    do {
      uint32_t word = wire_get32(p);
      if (has_ff(word)) {
        break;
      }
      if (dst != NULL) {
        (void)memcpy(dst, &word, 4);
        dst += 4;
      }
      p += 4;
      word = (word << 24) | ((word & 0xFF00U) << 8) | ((word >> 8) & 0xFF00U) | (word >> 24);
      sum = fold((word ^ (sum << 16)) >> 16);
      sum = fold((word ^ sum) & 0xFFFFU);
    } while (p != words_end);
  }
  if (p != end) {
    do {
      const uint8_t byte = *p;
      if (byte == 0xFFU) {
        break;
      }
      if (dst != NULL) {
        *dst = byte;
        dst++;
      }
      sum = crc16_byte((uint16_t)sum, byte);
      p++;
    } while (p != end);
  }
  *crc = (uint16_t)sum;
  return (size_t)(p - src);
}
