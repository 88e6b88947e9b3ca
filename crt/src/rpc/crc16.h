// SPDX-License-Identifier: Apache-2.0
//
// CRC-16/CCITT-FALSE: polynomial 0x1021, start 0xFFFF, no reflection, no inversion. For a frame it covers the bytes on
// the wire, escapes included, from the ff fd of the start to the last byte of the payload.
//
// The bits above the lower 16 are undefined, because masking them would cost more.
//
// There is no table: with P = x^16 + x^12 + x^5 + 1, the overflow of a multiplication by x^16 folds back in at
// distances 0, 5 and 12. A byte takes six instructions, two bytes together seven.
#ifndef BOARDSMITH_RPC_CRC16_H_
#define BOARDSMITH_RPC_CRC16_H_

#include <stddef.h>
#include <stdint.h>

#define CRC16_FRAME_START 0x2042U  // after the two bytes ff fd, from 0xFFFF on

// Returns crc after one more byte.
static inline uint32_t crc16_byte(uint32_t crc, uint8_t byte) {
  uint32_t x = ((crc >> 8) & 0xFFU) ^ byte;
  x ^= x >> 4;
  return x ^ (crc << 8) ^ (x << 12) ^ (x << 5);
}

// Bytes of a frame that are received or sent one after the other.
typedef struct crc16_run {
  uint16_t crc;
  uint8_t* to;  // the next byte of contents is copied here; NULL: none is
} crc16_run_t;

// Processes bytes of src up to an ff, at most n, and returns the end of them. With a copy, they are escaped bytes: four
// ff are two bytes of contents and do not end the run. The copy must not overlap src.
const uint8_t* crc16_span(crc16_run_t* run, const uint8_t* src, size_t n);

// Processes the ff bytes that src begins with, at least 1 and at most n, and returns the end of them. Each is escaped:
// counts twice.
const uint8_t* crc16_escapes(crc16_run_t* run, const uint8_t* src, size_t n);

#endif  // BOARDSMITH_RPC_CRC16_H_
