// SPDX-License-Identifier: Apache-2.0
//
// memcpy, memmove and memset for bare-metal Arm images: in a few loops what newlib spreads over 650 bytes. Only where a core
// reads words at any address and there is no system underneath; weak, so that a firmware may have its own.
#include "runtime.h"

// Where size is asked for, GCC would join the end of the loop over words with its beginning.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE_SIZE__)
#pragma GCC optimize("no-crossjumping")
#endif

#if defined(__ARM_FEATURE_UNALIGNED) && !defined(__unix__) && !defined(__ZEPHYR__)

typedef uint32_t __attribute__((may_alias, aligned(1))) word_t;

TVM_WEAK void* memmove(void* to, const void* from, size_t bytes) {
  uint8_t* t = to;
  const uint8_t* f = from;
  if (((uintptr_t)t - (uintptr_t)f) < bytes) {  // to lies inside from: the last byte first
    while (bytes != 0U) {
      KEEP_LOOP();
      bytes--;
      t[bytes] = f[bytes];
    }
  }
  const uint8_t* const end = &f[bytes];
  const uint8_t* const words_end = &f[bytes & ~(size_t)3U];
  if (f != words_end) {
    do {
      KEEP_LOOP();
      *(word_t*)t = *(const word_t*)f;
      t += sizeof(word_t);
      f += sizeof(word_t);
    } while (f != words_end);
  }
  for (; f != end; f++) {
    KEEP_LOOP();
    *t = *f;
    t++;
  }
  return to;
}

TVM_WEAK void* memcpy(void* to, const void* from, size_t bytes) __attribute__((alias("memmove")));

TVM_WEAK void* memset(void* to, int value, size_t bytes) {
  uint8_t* t = to;
  for (; bytes != 0U; bytes--) {
    KEEP_LOOP();
    *t = (uint8_t)value;
    t++;
  }
  return to;
}

#endif
