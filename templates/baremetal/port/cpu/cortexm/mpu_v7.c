// SPDX-License-Identifier: Apache-2.0
//
// cortexm_protect (cortexm.h) for the memory protection unit of ARMv6-M and ARMv7-M: region sizes are powers of two,
// each of a region's eight parts can be disabled, and where regions overlap the highest number applies. No effect on a
// chip without the unit.
//
// Sources: ARMv7-M Architecture Reference Manual (DDI 0403E) B3.5 and B3.1 (the default memory map, which applies where
// no region does), ARMv6-M Architecture Reference Manual (DDI 0419) B3.5.
#include <stdbool.h>
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"
#include "cpu/cortexm/mpu.h"

#define MPU_TYPE REG32(0xE000ED90U)
#define MPU_CTRL REG32(0xE000ED94U)
#define MPU_RNR REG32(0xE000ED98U)
#define MPU_RBAR REG32(0xE000ED9CU)
#define MPU_RASR REG32(0xE000EDA0U)

#define MPU_TYPE_DREGION 0xFF00U
#define MPU_CTRL_ON 5U  // ENABLE, PRIVDEFENA; off in hard fault and NMI handlers, so that they can report other faults

// MPU_RASR.
#define RASR_XN (1U << 28)
#define RASR_NO_ACCESS (0U << 24)  // AP
#define RASR_READ_WRITE (3U << 24)
#define RASR_READ_ONLY (6U << 24)
#define RASR_WRITE_THROUGH (1U << 17)  // C
#if defined(__ARM_ARCH_6M__)
#define RASR_WRITE_BACK (3U << 16)        // C, B; there is no TEX
#define RASR_UNCACHED RASR_WRITE_THROUGH  // no such core has a cache
#else
#define RASR_UNCACHED ((1U << 19) | (1U << 18))    // TEX 1 without C and B; S
#define RASR_WRITE_BACK ((1U << 19) | (3U << 16))  // TEX, C, B: also allocates at a write
#endif
#define RASR_LEFT_OUT(parts) ((parts) << 8)                    // SRD: a bit for each of eight parts
#define RASR_SIZE(log2_bytes) ((((log2_bytes)-1U) << 1) | 1U)  // and ENABLE

#ifndef BARE_GUARD_BYTES
#define BARE_GUARD_BYTES 0
#endif
#ifndef CPU_NO_EXTERNAL_MEMORY
#define CPU_NO_EXTERNAL_MEMORY 0
#endif

// For a sum over the map: memories that need a region besides the areas.
#define IS_LOW_CODE(origin, kind) (((origin) < 0x20000000U) && ((kind) == REGION_CODE))
#define IS_APART(origin, bytes, kind) \
  +((IS_LOW_RAM_REGION(origin, kind) || (HOLDS_CODE(kind) && !IS_LOW_CODE(origin, kind))) ? 1 : 0)

enum {
  LOG2_LEAST = 8,  // of the smallest region with parts, or on ARMv6-M
  AREAS = 3,
  NULL_REGIONS = (((0 BOARDSMITH_REGIONS(HOLDS_NULL)) == 0) || ((0 BOARDSMITH_REGIONS(NULL_IS_NO_CODE)) != 0)) ? 1 : 0,
  GUARDS = ((BARE_GUARD_BYTES) > 0) ? 2 : 0,
};
_Static_assert(((BARE_GUARD_BYTES) == 0) ||
                   (((BARE_GUARD_BYTES) >= 256) && (((BARE_GUARD_BYTES) & ((BARE_GUARD_BYTES)-1)) == 0)),
               "BARE_GUARD_BYTES: not 0, or a power of two of at least 256: a guard is a region");
_Static_assert(((int)AREAS + (int)NULL_REGIONS + (int)GUARDS + (int)UPLOAD_REGIONS + OWN_RULES +
                (0 BOARDSMITH_REGIONS(IS_APART))) <= (int)(CPU_MPU_REGIONS),
               TOO_MANY_REGIONS);

static void region(uint32_t number, uint32_t base, uint32_t attributes, uint32_t log2_bytes) {
  MPU_RNR = number;
  MPU_RBAR = base;
  MPU_RASR = attributes | RASR_SIZE(log2_bytes);
}

// Covers bytes bytes from base on with a region. Parts that are covered incompletely are included, unless only_complete
// is true.
static void cover(uint32_t number, uint32_t base, uint32_t bytes, uint32_t attributes, bool only_complete) {
  uint32_t log2_bytes = LOG2_LEAST;
  while ((log2_bytes < 31U) && (((base & ((1U << log2_bytes) - 1U)) + (uint64_t)bytes) > (1UL << log2_bytes))) {
    log2_bytes++;
  }
  const uint32_t part = 1U << (log2_bytes - 3U);
  const uint32_t from = base & ((1U << log2_bytes) - 1U);
  const uint32_t slack = only_complete ? (part - 1U) : 0U;
  const uint32_t first = (from + slack) / part;
  const uint32_t end = (from + bytes + ((part - 1U) - slack)) / part;
  const uint32_t in = ((1U << end) - 1U) & ~((1U << first) - 1U);
  region(number, base - from, attributes | RASR_LEFT_OUT(~in & 0xFFU), log2_bytes);
}

#if (BOARDSMITH_UPLOAD_BYTES) > 0
_Static_assert(((BOARDSMITH_UPLOAD_BYTES) >= 256) && (((BOARDSMITH_UPLOAD_BYTES) & ((BOARDSMITH_UPLOAD_BYTES)-1)) == 0),
               "upload_kib: an upload window must be a region");

static uint32_t window_number;

void cortexm_window(int32_t on) {
  if ((MPU_TYPE & MPU_TYPE_DREGION) != 0U) {
    const uint32_t log2_bytes = 31U - (uint32_t)__builtin_clz((uint32_t)(BOARDSMITH_UPLOAD_BYTES));
    region(window_number, (uint32_t)(uintptr_t)bare_upload_start,
           RASR_READ_WRITE | RASR_WRITE_BACK | ((on != 0) ? 0U : RASR_XN), log2_bytes);
  }
}
#endif

// The last regions, which take precedence over all others.
static void guards_on(uint32_t number) {
#if (BARE_GUARD_BYTES) > 0
  const uint32_t log2_bytes = 31U - (uint32_t)__builtin_clz((uint32_t)(BARE_GUARD_BYTES));
  region(number, (uint32_t)(uintptr_t)bare_guard_start, RASR_XN | RASR_NO_ACCESS, log2_bytes);
  region(number + 1U, (uint32_t)(uintptr_t)bare_handler_guard_start, RASR_XN | RASR_NO_ACCESS, log2_bytes);
#else
  (void)number;  // this CPU's file defines no guards
#endif
}

#define LOW_RAM(origin, bytes, kind)                                                    \
  if (IS_LOW_RAM_REGION(origin, kind)) {                                                \
    cover(next, (origin), (bytes), RASR_XN | RASR_READ_WRITE | RASR_WRITE_BACK, false); \
    next++;                                                                             \
  }
#define CODE(origin, bytes, kind)                                              \
  if (IS_LOW_CODE(origin, kind)) {                                             \
    /* The first area covers it. */                                            \
  } else if ((kind) == REGION_CODE) {                                          \
    cover(next, (origin), (bytes), RASR_READ_ONLY | RASR_WRITE_THROUGH, true); \
    next++;                                                                    \
  } else if ((kind) == REGION_MIXED) {                                         \
    cover(next, (origin), (bytes), RASR_READ_WRITE | RASR_WRITE_BACK, false);  \
    next++;                                                                    \
  } else {                                                                     \
    /* Another region of this map. */                                          \
  }

#ifdef BOARDSMITH_OWN_RULES
static uint32_t attributes_of(int32_t rule) {
  switch (rule) {
    case RULE_CODE:
      return RASR_READ_ONLY | RASR_WRITE_THROUGH;
    case RULE_MIXED:
      return RASR_READ_WRITE | RASR_WRITE_BACK;
    case RULE_UNCACHED:
      return RASR_XN | RASR_READ_WRITE | RASR_UNCACHED;
    case RULE_FLASH:
      return RASR_XN | RASR_READ_ONLY | RASR_WRITE_THROUGH;
    default:
      return RASR_XN | RASR_READ_WRITE | RASR_WRITE_BACK;
  }
}

#define COVER_OWN(origin, bytes, rule)                                       \
  if (!IS_RESERVED(rule)) {                                                  \
    cover(number, (origin), (bytes), attributes_of((int32_t)(rule)), false); \
    number++;                                                                \
  }

// Sets the rules in their order, in which the last one takes precedence. Returns the number of the next region.
static uint32_t own_rules(uint32_t number) {
  BOARDSMITH_OWN_RULES(COVER_OWN)
  return number;
}

// Covers as much of bytes bytes from base on as one region can without covering more. Returns the bytes covered.
static uint32_t cover_exactly(uint32_t number, uint32_t base, uint32_t bytes, uint32_t attributes) {
  uint32_t best = 0;
  uint32_t best_log2 = LOG2_LEAST;
  for (uint32_t log2_bytes = LOG2_LEAST; log2_bytes < 32U; log2_bytes++) {
    const uint32_t part = 1U << (log2_bytes - 3U);
    const uint32_t room = (1U << log2_bytes) - (base & ((1U << log2_bytes) - 1U));
    const uint32_t covered = ((bytes < room) ? bytes : room) & ~(part - 1U);
    if (((base & (part - 1U)) == 0U) && (covered > best)) {
      best = covered;
      best_log2 = log2_bytes;
    }
  }
  if (best > 0U) {
    const uint32_t part = 1U << (best_log2 - 3U);
    const uint32_t first = (base & ((1U << best_log2) - 1U)) / part;
    const uint32_t in = ((1U << (best / part)) - 1U) << first;
    region(number, base & ~((1U << best_log2) - 1U), attributes | RASR_LEFT_OUT(~in & 0xFFU), best_log2);
  }
  return best;
}

// Uses regions up to end, which is excluded. Returns the number of the next one.
static uint32_t reserve(uint32_t number, uint32_t end, uint32_t base, uint32_t bytes, uint32_t memory) {
  uint32_t next = number;
  uint32_t done = 0;
  while ((next < end) && (done < bytes)) {
    const uint32_t covered = cover_exactly(next, base + done, bytes - done, RASR_XN | RASR_READ_ONLY | memory);
    if (covered == 0U) {
      break;  // not a multiple of a part of the smallest region
    }
    done += covered;
    next++;
  }
  return next;
}

#define RESERVE(origin, bytes, rule)                                                         \
  if (IS_RESERVED(rule)) {                                                                   \
    next = reserve(next, end, (origin), (bytes),                                             \
                   ((rule) == RULE_RESERVED_UNCACHED) ? RASR_UNCACHED : RASR_WRITE_THROUGH); \
  }

#define COUNT_RESERVED(origin, bytes, rule) +(IS_RESERVED(rule) ? 1 : 0)

// Makes reserved memory read-only, by address, as long as regions are left besides those of the window and the guards.
static uint32_t reserved_on(uint32_t number) {
  uint32_t next = number;
  if ((0 BOARDSMITH_OWN_RULES(COUNT_RESERVED)) > 0) {
    const uint32_t later = (uint32_t)UPLOAD_REGIONS + (uint32_t)GUARDS;
    const uint32_t end = ((MPU_TYPE & MPU_TYPE_DREGION) >> 8) - later;
    BOARDSMITH_OWN_RULES(RESERVE)
  }
  return next;
}
#else
static uint32_t reserved_on(uint32_t number) { return number; }

static uint32_t own_rules(uint32_t number) { return number; }
#endif

void cortexm_protect(void) {
  uint32_t next = 3;
  if ((MPU_TYPE & MPU_TYPE_DREGION) == 0U) {
    return;
  }
  MPU_CTRL = 0;
  barrier();
  for (uint32_t i = 0; i < ((MPU_TYPE & MPU_TYPE_DREGION) >> 8); i++) {  // disable regions of a boot loader
    MPU_RNR = i;
    MPU_RASR = 0;
  }
  region(0, 0x20000000U, RASR_XN | RASR_READ_WRITE | RASR_WRITE_BACK, 29);
  // 0x60000000 to 0x9FFFFFFF, the fourth and fifth part of all addresses. A Cortex-M7 reads there speculatively; a
  // memory controller that is not configured may never answer (ST's AN4861 and AN4838).
  region(1, 0,
         RASR_XN | RASR_LEFT_OUT(0xE7U) |
             (((CPU_NO_EXTERNAL_MEMORY) != 0) ? RASR_NO_ACCESS : (RASR_READ_WRITE | RASR_WRITE_THROUGH)),
         32);
  // Code or unmapped. Detects overflows of a stack at the start of RAM on chips that ignore unmapped writes.
  region(2, 0, RASR_READ_ONLY | RASR_WRITE_THROUGH, 29);
  BOARDSMITH_REGIONS(LOW_RAM)
  BOARDSMITH_REGIONS(CODE)
  next = own_rules(next);
  if ((0 BOARDSMITH_REGIONS(HOLDS_NULL)) == 0) {
    region(next, 0, RASR_XN | RASR_NO_ACCESS, LOG2_LEAST);
    next++;
  } else if ((0 BOARDSMITH_REGIONS(NULL_IS_NO_CODE)) != 0) {
    region(next, 0, RASR_XN | RASR_READ_ONLY | RASR_WRITE_BACK, LOG2_LEAST);
    next++;
  }  // else code is at 0, which is read-only already
  next = reserved_on(next);
#if (BOARDSMITH_UPLOAD_BYTES) > 0
  window_number = next;
  cortexm_window(0);
  next++;
#endif
  guards_on(next);
  MPU_CTRL = MPU_CTRL_ON;
  barrier();
}
