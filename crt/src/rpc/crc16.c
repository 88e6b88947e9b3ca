// SPDX-License-Identifier: Apache-2.0
// GCC would reorder the terms of each sum, so that fewer shifts are free: 28 % more instructions for a long copy,
// measured on a Cortex-M3.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE_SIZE__)
#pragma GCC optimize("no-tree-reassoc", "expensive-optimizations")
#endif

#include "crc16.h"

#include "runtime/contracts.h"
#include "wire.h"

// Returns the CRC after the bits of u, 32 or 16: the earlier CRC plus as many bits of the message. u x^16 is a quotient
// times P plus the CRC, and P's 1 / (1 + x^-4 + x^-11 + x^-16) is a product, of which shifts by 32 and more drop out:
// (1 + x^-4 + x^-11 + x^-16) (1 + x^-8 + x^-22) (1 + x^-16).
__attribute__((always_inline)) static inline uint32_t fold(uint32_t u) {
  u = u ^ (u >> 4) ^ (u >> 11) ^ (u >> 16);
  u = u ^ (u >> 8) ^ (u >> 22);
  u ^= u >> 16;
  return u ^ (u << 5) ^ (u << 12);
}

// Returns whether one of the four bytes of word is ff: the complement then has a zero byte, which borrows.
static inline int has_ff(uint32_t word) { return (((~word - 0x01010101U) & word) & 0x80808080U) != 0U; }

const uint8_t* crc16_span(crc16_run_t* run, const uint8_t* src, size_t n) {
  // Offsets from the end, so that one register is both counter and index: saves 7 % of a long copy's instructions.
  const uint8_t* const end = &src[n];
  ptrdiff_t at = -(ptrdiff_t)n;
  const ptrdiff_t words_end = (WIRE_UNALIGNED != 0) ? -(ptrdiff_t)(n & 3U) : at;
  uint32_t sum = run->crc;
  uint8_t* to = run->to;
  if (at != words_end) {
    do {
      uint32_t word = wire_get32(&end[at]);
      if (has_ff(word)) {
        if ((to == NULL) || (word != UINT32_MAX)) {
          break;
        }
        (void)memcpy(to, &word, 2);  // two bytes, escaped
        to += 2;
      } else if (to != NULL) {
        (void)memcpy(to, &word, 4);
        to += 4;
      }
      word = (word << 24) | ((word & 0xFF00U) << 8) | ((word >> 8) & 0xFF00U) | (word >> 24);
      sum = fold(word ^ (sum << 16));
      at += 4;
    } while (at != words_end);
  }
  if (at != 0) {
    do {
      const uint8_t byte = end[at];
      if (byte == 0xFFU) {
        break;
      }
      if (to != NULL) {
        *to = byte;
        to++;
      }
      sum = crc16_byte(sum, byte);
      at++;
    } while (at != 0);
  }
  run->to = to;
  run->crc = (uint16_t)sum;
  return &end[at];
}

const uint8_t* crc16_escapes(crc16_run_t* run, const uint8_t* src, size_t n) {
  CRT_ASSERT((n != 0U) && (*src == 0xFFU));
  const uint8_t* const end = &src[n];
  ptrdiff_t at = -(ptrdiff_t)n;
  uint32_t sum = run->crc;
  do {
    sum = fold(~sum & 0xFFFFU);
    at++;
  } while ((at != 0) && (end[at] == 0xFFU));
  run->crc = (uint16_t)sum;
  return &end[at];
}
