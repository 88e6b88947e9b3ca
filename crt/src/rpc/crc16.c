// SPDX-License-Identifier: Apache-2.0
// GCC would reorder the terms of each sum, so that fewer shifts are free: 28 % more instructions for a long copy,
// measured on a Cortex-M3.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE_SIZE__)
#pragma GCC optimize("no-tree-reassoc", "expensive-optimizations")
#endif

#include "crc16.h"

#include "wire.h"

// Returns the CRC after the 16 bits of u, which are the earlier CRC plus two bytes.
__attribute__((always_inline)) static inline uint32_t fold(uint32_t u) {
  u = u ^ (u >> 4) ^ (u >> 11);
  u ^= u >> 8;
  return u ^ (u << 5) ^ (u << 12);
}

uint16_t crc16_pair(uint16_t crc, uint32_t pair) { return (uint16_t)fold(crc ^ pair); }

// Returns whether one of the four bytes of word is ff: the complement then has a zero byte, which borrows.
static inline int has_ff(uint32_t word) { return (((~word - 0x01010101U) & word) & 0x80808080U) != 0U; }

size_t crc16_span(uint16_t* crc, uint8_t* dst, const uint8_t* src, size_t n) {
  // Offsets from the end, so that one register is both counter and index: saves 7 % of a long copy's instructions.
  const uint8_t* const end = &src[n];
  ptrdiff_t at = -(ptrdiff_t)n;
  const ptrdiff_t words_end = (WIRE_UNALIGNED != 0) ? -(ptrdiff_t)(n & 3U) : at;
  uint32_t sum = *crc;
  if (at != words_end) {
    do {
      uint32_t word = wire_get32(&end[at]);
      if (has_ff(word)) {
        break;
      }
      if (dst != NULL) {
        (void)memcpy(dst, &word, 4);
        dst += 4;
      }
      word = (word << 24) | ((word & 0xFF00U) << 8) | ((word >> 8) & 0xFF00U) | (word >> 24);
      word ^= sum << 16;
      word ^= fold(word >> 16);
      sum = fold(word & 0xFFFFU);
      at += 4;
    } while (at != words_end);
  }
  if (at != 0) {
    do {
      const uint8_t byte = end[at];
      if (byte == 0xFFU) {
        break;
      }
      if (dst != NULL) {
        *dst = byte;
        dst++;
      }
      sum = crc16_byte(sum, byte);
      at++;
    } while (at != 0);
  }
  *crc = (uint16_t)sum;
  return n + (size_t)at;
}
