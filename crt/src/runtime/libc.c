// SPDX-License-Identifier: Apache-2.0
//
// memcpy, memmove and memset for bare-metal Arm images: in a few loops what newlib spreads over 650 bytes. Only where a core
// reads words at any address and there is no system underneath; weak, so that a firmware may have its own.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime.h"

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
  for (; bytes >= sizeof(word_t); bytes -= sizeof(word_t)) {
    KEEP_LOOP();
    *(word_t*)t = *(const word_t*)f;
    t += sizeof(word_t);
    f += sizeof(word_t);
  }
  for (; bytes != 0U; bytes--) {
    KEEP_LOOP();
    *t = *f;
    t++;
    f++;
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
