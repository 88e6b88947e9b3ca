// SPDX-License-Identifier: Apache-2.0
//
// cortexm_protect (cortexm.h) for the memory protection unit of ARMv8-M: regions are multiples of 32 bytes, and an
// access to overlapping regions is a fault. The core's limit registers replace the guards (core.c).
//
// Source: Armv8-M Architecture Reference Manual (DDI 0553), chapters B9 and D1.2; B8 for the default memory map, which
// applies where no region does.
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"
#include "cpu/cortexm/mpu.h"

#define MPU_TYPE REG32(0xE000ED90U)
#define MPU_CTRL REG32(0xE000ED94U)
#define MPU_RNR REG32(0xE000ED98U)
#define MPU_RBAR REG32(0xE000ED9CU)
#define MPU_RLAR REG32(0xE000EDA0U)
#define MPU_MAIR0 REG32(0xE000EDC0U)

#define MPU_TYPE_DREGION 0xFF00U
#define MPU_CTRL_ON 5U  // ENABLE, PRIVDEFENA; off in hard fault and NMI handlers, so that they can report other faults

#define RBAR_XN 1U
#define RBAR_READ_WRITE (1U << 1)  // AP
#define RBAR_READ_ONLY (3U << 1)
#define RLAR_ENABLE 1U
#define RLAR_WRITE_THROUGH (0U << 1)  // AttrIndx: index in MAIR0
#define RLAR_WRITE_BACK (1U << 1)
#define RLAR_UNCACHED (2U << 1)
#define MAIR0_BOTH 0xFFAAU  // 0: write-through, 1: write-back, which also allocates at a write
#ifdef BOARDSMITH_OWN_RULES
#define MAIR0 ((0x44U << 16) | MAIR0_BOTH)  // 2: no cache
#else
#define MAIR0 MAIR0_BOTH
#endif

// For sums over the map: memories of code, and those that split an area, or have a rule and may split one.
#define BY_RULE(origin) (((origin) >= 0x20000000U) ? 2 : 1)
#define SPLITS_BY_RULE(origin, bytes, rule) +BY_RULE(origin)
#ifdef BOARDSMITH_OWN_RULES
#define RULE_REGIONS (0 BOARDSMITH_OWN_RULES(SPLITS_BY_RULE))
#else
#define RULE_REGIONS 0
#endif
#define IS_CODE(origin, bytes, kind) +(((kind) == REGION_CODE) ? 1 : 0)
#define SPLITS(origin, bytes, kind) +((HOLDS_CODE(kind) && ((origin) >= 0x20000000U)) ? 1 : 0)

enum {
  NULL_BYTES = 256,
  NULL_REGIONS =
      ((0 BOARDSMITH_REGIONS(HOLDS_NULL)) == 0) ? 2 : (((0 BOARDSMITH_REGIONS(NULL_IS_NO_CODE)) != 0) ? 1 : 0),
  AREA_REGIONS = 2 + (0 BOARDSMITH_REGIONS(SPLITS)),
  WINDOW_REGIONS = 2 * UPLOAD_REGIONS,  // it splits the memory around it
  NEEDED_REGIONS = (int)NULL_REGIONS + (int)AREA_REGIONS + (int)WINDOW_REGIONS + RULE_REGIONS +
                   (0 BOARDSMITH_REGIONS(IS_CODE)) + (0 BOARDSMITH_REGIONS(IS_LOW_RAM)),
};
_Static_assert((int)NEEDED_REGIONS <= (int)(CPU_MPU_REGIONS), TOO_MANY_REGIONS);

static uint32_t used;

static void set(uint32_t number, uint32_t first, uint32_t last, uint32_t access, uint32_t memory) {
  MPU_RNR = number;
  MPU_RBAR = first | access;
  MPU_RLAR = (last & ~31U) | memory | RLAR_ENABLE;
}

static void region(uint32_t first, uint32_t last, uint32_t access, uint32_t memory) {
  if (first < last) {
    set(used, first, last, access, memory);
    used++;
  }
}

#if (BOARDSMITH_UPLOAD_BYTES) > 0
_Static_assert(((BOARDSMITH_UPLOAD_BYTES) % 32) == 0, "upload_kib: an upload window must be a region");

static uint32_t window_number;
static uint32_t window_memory;  // the cache attributes of the memory around it

void cortexm_window(int32_t on) {
  const uint32_t first = (uint32_t)(uintptr_t)bare_upload_start;
  if ((MPU_TYPE & MPU_TYPE_DREGION) != 0U) {
    set(window_number, first, first + (uint32_t)(BOARDSMITH_UPLOAD_BYTES)-1U,
        RBAR_READ_WRITE | ((on != 0) ? 0U : (uint32_t)RBAR_XN), window_memory);
  }
}

// Makes variables not executable. The window in them has a region of its own, because regions must not overlap.
static void variables(uint32_t first, uint32_t last, uint32_t memory) {
  const uint32_t window = (uint32_t)(uintptr_t)bare_upload_start;
  if ((window < first) || (window > last)) {
    region(first, last, RBAR_XN | RBAR_READ_WRITE, memory);
    return;
  }
  region(first, window - 1U, RBAR_XN | RBAR_READ_WRITE, memory);
  window_number = used;
  window_memory = memory;
  used++;
  cortexm_window(0);
  region(window + (uint32_t)(BOARDSMITH_UPLOAD_BYTES), last, RBAR_XN | RBAR_READ_WRITE, memory);
}
#else
static void variables(uint32_t first, uint32_t last, uint32_t memory) {
  region(first, last, RBAR_XN | RBAR_READ_WRITE, memory);
}
#endif

#ifdef BOARDSMITH_OWN_RULES
#define RULES_OF_MAP (uint32_t)(sizeof(own_rules) / sizeof(own_rules[0]))
// Other memory beside it keeps its own rule: a region starts and ends at multiples of 32 bytes.
#define INNER(address, rule) (IS_RESERVED(rule) ? ((address) & ~31U) : (address))
#define OWN_RULE(origin, bytes, rule) \
  {INNER((origin) + (IS_RESERVED(rule) ? 31U : 0U), rule), INNER((origin) + (bytes), rule), (int32_t)(rule)},
static const struct {
  uint32_t origin;
  uint32_t end;
  int32_t rule;
} own_rules[] = {BOARDSMITH_OWN_RULES(OWN_RULE)};  // by address

static uint32_t access_of(int32_t rule) {
  switch (rule) {
    case RULE_CODE:
      return RBAR_READ_ONLY;
    case RULE_MIXED:
      return RBAR_READ_WRITE;
    case RULE_FLASH:
    case RULE_RESERVED:
    case RULE_RESERVED_UNCACHED:
      return RBAR_XN | RBAR_READ_ONLY;
    default:
      return RBAR_XN | RBAR_READ_WRITE;
  }
}

static uint32_t memory_of(int32_t rule) {
  switch (rule) {
    case RULE_UNCACHED:
    case RULE_RESERVED_UNCACHED:
      return RLAR_UNCACHED;
    case RULE_CODE:
    case RULE_FLASH:
    case RULE_RESERVED:
      return RLAR_WRITE_THROUGH;
    default:
      return RLAR_WRITE_BACK;
  }
}

static void rules(void) {
  for (uint32_t i = 0; i < RULES_OF_MAP; i++) {
    // The first bytes of memory at 0 have a region already.
    const uint32_t first = (own_rules[i].origin == 0U) ? (uint32_t)NULL_BYTES : own_rules[i].origin;
    if (own_rules[i].rule == (int32_t)RULE_RAM) {
      variables(first, own_rules[i].end - 1U, RLAR_WRITE_BACK);
    } else {
      region(first, own_rules[i].end - 1U, access_of(own_rules[i].rule), memory_of(own_rules[i].rule));
    }
  }
}

// Leaves out memories with rules of their own.
static void variables_without(uint32_t first, uint32_t last, uint32_t memory) {
  uint32_t from = first;
  for (uint32_t i = 0; i < RULES_OF_MAP; i++) {
    if ((own_rules[i].origin >= from) && (own_rules[i].origin <= last)) {
      variables(from, own_rules[i].origin - 1U, memory);
      from = own_rules[i].end;
    }
  }
  variables(from, last, memory);
}
#else
static void rules(void) {}

static void variables_without(uint32_t first, uint32_t last, uint32_t memory) { variables(first, last, memory); }
#endif

// Makes an area not executable, except code (or the memory that holds code and variables).
static void area(uint32_t first, uint32_t last, uint32_t memory) {
  const uint32_t origin = 0U BOARDSMITH_REGIONS(CODE_ORIGIN);
  const uint32_t end = 0U BOARDSMITH_REGIONS(CODE_END);
  if ((end <= first) || (origin > last)) {
    variables_without(first, last, memory);
  } else {
    variables_without(first, origin - 1U, memory);
    variables_without(end, last, memory);
  }
}

#define LOW_RAM(origin, bytes, kind)                                                                           \
  if (IS_LOW_RAM_REGION(origin, kind)) {                                                                       \
    variables(((origin) == 0U) ? (uint32_t)NULL_BYTES : (origin), ((origin) + (bytes)) - 1U, RLAR_WRITE_BACK); \
  }
#define CODE(origin, bytes, kind)                                                    \
  if ((kind) == REGION_CODE) {                                                       \
    region((origin), ((origin) + (bytes)) - 1U, RBAR_READ_ONLY, RLAR_WRITE_THROUGH); \
  }

// No region can forbid all accesses, but two overlapping regions do.
static void null_off(void) {
  if ((0 BOARDSMITH_REGIONS(HOLDS_NULL)) == 0) {
    region(0, (uint32_t)NULL_BYTES - 1U, RBAR_XN | RBAR_READ_ONLY, RLAR_WRITE_THROUGH);
    region(0, (uint32_t)NULL_BYTES - 1U, RBAR_XN | RBAR_READ_ONLY, RLAR_WRITE_THROUGH);
  } else if ((0 BOARDSMITH_REGIONS(NULL_IS_NO_CODE)) != 0) {
    region(0, (uint32_t)NULL_BYTES - 1U, RBAR_XN | RBAR_READ_ONLY, RLAR_WRITE_BACK);
  }  // else code is at 0, which is read-only already
}

void cortexm_protect(void) {
  if ((MPU_TYPE & MPU_TYPE_DREGION) == 0U) {
    return;
  }
  MPU_CTRL = 0;
  barrier();
  for (uint32_t i = 0; i < ((MPU_TYPE & MPU_TYPE_DREGION) >> 8); i++) {  // disable regions of a boot loader
    MPU_RNR = i;
    MPU_RLAR = 0;
  }
  MPU_MAIR0 = MAIR0;
  used = 0;
  null_off();
  BOARDSMITH_REGIONS(CODE)
  BOARDSMITH_REGIONS(LOW_RAM)
  rules();
  area(0x20000000U, 0x3FFFFFFFU, RLAR_WRITE_BACK);
  area(0x60000000U, 0x9FFFFFFFU, RLAR_WRITE_THROUGH);
  MPU_CTRL = MPU_CTRL_ON;
  barrier();
}
