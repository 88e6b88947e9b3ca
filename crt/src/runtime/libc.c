// SPDX-License-Identifier: Apache-2.0
//
// memcpy, memmove and memset for bare-metal Arm images: 170 bytes instead of newlib's 650, and fewer instructions. Only
// for cores that read words at any address, without an operating system. Weak: a firmware may define its own.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#if defined(__ARM_FEATURE_UNALIGNED) && !defined(__unix__) && !defined(__ZEPHYR__)

// The templates disable these with -Os. Without them, GCC computes the result of TAKE as a number.
#if !defined(__clang__) && defined(__OPTIMIZE_SIZE__)
#pragma GCC push_options
#pragma GCC optimize("expensive-optimizations", "forward-propagate", "if-conversion")
#endif

// Prevents the compiler from replacing the surrounding loop by a call of memcpy or memset, which would be recursive,
// and from computing its pointers or counter in another way, which takes more code.
#define OPAQUE(variable) __asm__ volatile("" : "+r"(variable))

#define WORD_BYTES 4U
#define GROUP_BYTES 16U

// Takes so many bytes off the rest if it has them; else the rest is too small by as many. One instruction and a branch.
#define TAKE(rest, size_bytes) (!__builtin_sub_overflow((rest), (size_bytes), &(rest)))

// A word at any address.
typedef uint32_t __attribute__((may_alias, aligned(1))) word_t;

// Words at an address that is a multiple of 4: compilers copy them by instructions for several registers.
typedef struct __attribute__((may_alias)) group {
  uint32_t words[GROUP_BYTES / WORD_BYTES];
} group_t;

BOARDSMITH_HELPER void* memmove(void* to, const void* from, size_t bytes) {
  uint8_t* t = to;
  const uint8_t* f = from;
  const uintptr_t above = (uintptr_t)t - (uintptr_t)f;
  if (above < bytes) {  // to overlaps the end of from: copy the last word first
    while (bytes >= WORD_BYTES) {
      bytes -= WORD_BYTES;
      OPAQUE(bytes);
      *(word_t*)&t[bytes] = *(const word_t*)&f[bytes];
    }
    while (bytes != 0U) {
      bytes--;
      OPAQUE(bytes);
      t[bytes] = f[bytes];
    }
  }
  // A struct must not be copied to a part of itself.
  if (((((uintptr_t)t | (uintptr_t)f) % WORD_BYTES) == 0U) && (above <= (UINTPTR_MAX - (GROUP_BYTES - 1U)))) {
    while (TAKE(bytes, GROUP_BYTES)) {
      *(group_t*)t = *(const group_t*)f;
      t += GROUP_BYTES;
      f += GROUP_BYTES;
      OPAQUE(t);
      OPAQUE(f);
    }
    bytes += GROUP_BYTES;
  }
  while (TAKE(bytes, WORD_BYTES)) {
    *(word_t*)t = *(const word_t*)f;
    t += WORD_BYTES;
    f += WORD_BYTES;
    OPAQUE(t);
    OPAQUE(f);
  }
  for (bytes += WORD_BYTES; bytes != 0U; bytes--) {
    OPAQUE(bytes);
    *t = *f;
    t++;
    f++;
    OPAQUE(t);
    OPAQUE(f);
  }
  return to;
}

BOARDSMITH_HELPER void* memcpy(void* to, const void* from, size_t bytes) __attribute__((alias("memmove")));

BOARDSMITH_HELPER void* memset(void* to, int value, size_t bytes) {
  uint8_t* t = to;
  const uint32_t word = (uint8_t)value * 0x01010101U;
  if (((uintptr_t)t % WORD_BYTES) == 0U) {
    while (TAKE(bytes, GROUP_BYTES)) {
      *(group_t*)t = (group_t){{word, word, word, word}};
      t += GROUP_BYTES;
      OPAQUE(t);
    }
    bytes += GROUP_BYTES;
  }
  while (TAKE(bytes, WORD_BYTES)) {
    *(word_t*)t = word;
    t += WORD_BYTES;
    OPAQUE(t);
  }
  for (bytes += WORD_BYTES; bytes != 0U; bytes--) {
    OPAQUE(bytes);
    *t = (uint8_t)word;
    t++;
    OPAQUE(t);
  }
  return to;
}

#if !defined(__clang__) && defined(__OPTIMIZE_SIZE__)
#pragma GCC pop_options
#endif

#endif
