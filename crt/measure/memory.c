// SPDX-License-Identifier: Apache-2.0
//
// Firmware that compares memcpy, memmove and memset with loops over bytes, for short sizes at all alignments and
// distances, and measures them.
//
// Prints lines of a name and a number; memory_right is 1 if all results are right.
#include <stdbool.h>
#include <string.h>

#include "board.h"

enum { SIZE_MOST = 70, ALIGNMENTS = 8, DISTANCE_MOST = 40, ROOM = 256, LONG = 8192 };

static uint8_t got[ROOM];
static uint8_t want[ROOM];
static uint8_t source[ROOM];
static uint8_t from_long[LONG] __attribute__((aligned(8)));
static uint8_t to_long[LONG + 1] __attribute__((aligned(8)));

// The functions, which the compiler must not replace.
static void* (*volatile copy)(void*, const void*, size_t) = memcpy;
static void* (*volatile move)(void*, const void*, size_t) = memmove;
static void* (*volatile set)(void*, int, size_t) = memset;

// Fills both results with the same bytes, all of them different from their neighbours.
static void begin(void) {
  for (size_t i = 0; i < (size_t)ROOM; i++) {
    *(volatile uint8_t*)&got[i] = (uint8_t)((i * 7U) + 1U);
    *(volatile uint8_t*)&want[i] = (uint8_t)((i * 7U) + 1U);
    source[i] = (uint8_t) ~(i * 5U);
  }
}

// Compares all bytes, also those beside the result.
static bool equal(void) {
  for (size_t i = 0; i < (size_t)ROOM; i++) {
    if (got[i] != want[i]) {
      return false;
    }
  }
  return true;
}

static bool copies(size_t to, size_t from, size_t bytes) {
  begin();
  for (size_t i = 0; i < bytes; i++) {
    *(volatile uint8_t*)&want[to + i] = source[from + i];
  }
  return (copy(&got[to], &source[from], bytes) == &got[to]) && equal();
}

static bool moves(size_t to, size_t from, size_t bytes) {
  begin();
  for (size_t i = 0; i < bytes; i++) {
    *(volatile uint8_t*)&want[to + i] = got[from + i];
  }
  return (move(&got[to], &got[from], bytes) == &got[to]) && equal();
}

static bool sets(size_t to, int value, size_t bytes) {
  begin();
  for (size_t i = 0; i < bytes; i++) {
    *(volatile uint8_t*)&want[to + i] = (uint8_t)value;
  }
  return (set(&got[to], value, bytes) == &got[to]) && equal();
}

static bool right(void) {
  bool all = true;
  for (size_t bytes = 0; bytes <= (size_t)SIZE_MOST; bytes++) {
    for (size_t to = 0; to < (size_t)ALIGNMENTS; to++) {
      for (size_t from = 0; from < (size_t)ALIGNMENTS; from++) {
        all = all && copies(to, from, bytes);
      }
      all = all && sets(to, (int)(0x1A5U + bytes), bytes);
    }
    for (size_t to = 0; to <= (2U * (size_t)DISTANCE_MOST); to++) {
      for (size_t from = (size_t)DISTANCE_MOST; from < ((size_t)DISTANCE_MOST + 4U); from++) {
        all = all && moves(to, from, bytes);
      }
    }
  }
  return all;
}

static uint32_t copied(size_t at) {
  const uint32_t start = board_ticks();
  (void)copy(&to_long[at], from_long, LONG);
  return board_instructions(board_ticks() - start);
}

int main(void) {
  board_print("memory_right", right() ? 1U : 0U);
  board_print("memcpy", copied(0));
  board_print("memcpy_unaligned", copied(1));
  const uint32_t start = board_ticks();
  (void)set(to_long, 0, LONG);
  board_print("memset", board_instructions(board_ticks() - start));
  board_exit();
  return 0;
}
