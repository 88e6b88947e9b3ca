// SPDX-License-Identifier: Apache-2.0
//
// memcpy, memmove and memset for bare-metal Arm images: a few loops instead of newlib's 650 bytes. Only for cores that
// read words at any address, without an operating system. Weak: a firmware may define its own.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

// Prevents the compiler from replacing the surrounding loop by a call of memcpy or memset, which would be recursive.
#if defined(__GNUC__)
#define PREVENT_LOOP_IDIOM() __asm__ volatile("")
#else
#define PREVENT_LOOP_IDIOM() (void)0
#endif

#if defined(__ARM_FEATURE_UNALIGNED) && !defined(__unix__) && !defined(__ZEPHYR__)

typedef uint32_t __attribute__((may_alias, aligned(1))) word_t;

TVM_WEAK void* memmove(void* to, const void* from, size_t bytes) {
  uint8_t* t = to;
  const uint8_t* f = from;
  if (((uintptr_t)t - (uintptr_t)f) < bytes) {  // to overlaps the end of from: copy the last byte first
    while (bytes != 0U) {
      PREVENT_LOOP_IDIOM();
      bytes--;
      t[bytes] = f[bytes];
    }
  }
  const uint8_t* const end = &f[bytes];
  const uint8_t* const words_end = &f[bytes & ~(size_t)3U];
  if (f != words_end) {
    do {
      PREVENT_LOOP_IDIOM();
      *(word_t*)t = *(const word_t*)f;
      t += sizeof(word_t);
      f += sizeof(word_t);
    } while (f != words_end);
  }
  for (; f != end; f++) {
    PREVENT_LOOP_IDIOM();
    *t = *f;
    t++;
  }
  return to;
}

TVM_WEAK void* memcpy(void* to, const void* from, size_t bytes) __attribute__((alias("memmove")));

TVM_WEAK void* memset(void* to, int value, size_t bytes) {
  uint8_t* t = to;
  for (; bytes != 0U; bytes--) {
    PREVENT_LOOP_IDIOM();
    *t = (uint8_t)value;
    t++;
  }
  return to;
}

#endif
