// SPDX-License-Identifier: Apache-2.0
//
// The board's memory map, for mpu_v7.c and mpu_v8.c.
#ifndef BOARDSMITH_CORTEXM_MPU_H_
#define BOARDSMITH_CORTEXM_MPU_H_

#include "crt_config.h"

// crt_config.h has the board's memory map as BOARDSMITH_REGIONS(X), X(origin, bytes, kind).
enum {
  REGION_CODE = 1,   // memory of the image
  REGION_MIXED = 2,  // the same, with variables: writable and executable
  REGION_FLASH = 3,  // other memory that cannot be written like RAM
  REGION_RAM = 4,
  REGION_OWN = 5,  // memory in BOARDSMITH_OWN_RULES
};

// BOARDSMITH_OWN_RULES(X), if there are any, has memories as X(origin, bytes, rule): by address on ARMv8-M, else by
// precedence, the highest last.
enum {
  RULE_CODE = 1,      // operators: executable, read-only
  RULE_MIXED = 2,     // operators and variables: executable, writable
  RULE_UNCACHED = 3,  // writable, in no cache
  RULE_RAM = 4,       // writable
  RULE_FLASH = 5,     // read-only
  // Of reserved memory: read-only, on ARMv7-M as far as the unit has enough regions.
  RULE_RESERVED = 6,
  RULE_RESERVED_UNCACHED = 7,
};
#define IS_RESERVED(rule) (((rule) == RULE_RESERVED) || ((rule) == RULE_RESERVED_UNCACHED))
#ifndef BOARDSMITH_REGIONS
#error "crt_config.h must define the memory map"
#endif

// The upload window (bare_upload_start) has the size and place of a region.
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#define UPLOAD_REGIONS 1
#else
#define UPLOAD_REGIONS 0
#endif

// The number of regions of the chip's unit, which the board file defines if it is more than that of every unit.
#ifndef CPU_MPU_REGIONS
#define CPU_MPU_REGIONS 8
#elif ((CPU_MPU_REGIONS) < 1) || ((CPU_MPU_REGIONS) > 255)
#error "CPU_MPU_REGIONS: not the number of regions of the memory protection unit, from 1 to 255"
#endif
#define TOO_MANY_REGIONS                                                                              \
  "memory: the map needs more regions than the memory protection unit has, see docs/board.md: leave " \
  "out upload_kib or places of parts, join neighbouring memories, or define CPU_MPU_REGIONS if the unit has more"

// For sums over the map: the number of memories of a kind, or with a rule that is not
// optional, the start and end of code.
#define COUNT_RULE(origin, bytes, rule) +(IS_RESERVED(rule) ? 0 : 1)
#ifdef BOARDSMITH_OWN_RULES
#define OWN_RULES (0 BOARDSMITH_OWN_RULES(COUNT_RULE))
#else
#define OWN_RULES 0
#endif
#define IS_LOW_RAM_REGION(origin, kind) (((origin) < 0x20000000U) && ((kind) == REGION_RAM))
#define IS_LOW_RAM(origin, bytes, kind) +(IS_LOW_RAM_REGION(origin, kind) ? 1 : 0)
#define HOLDS_NULL(origin, bytes, kind) +(((origin) < 256U) ? 1 : 0)
#define NULL_IS_NO_CODE(origin, bytes, kind) +((((origin) < 256U) && ((kind) != REGION_CODE)) ? 1 : 0)
#define HOLDS_CODE(kind) (((kind) == REGION_CODE) || ((kind) == REGION_MIXED))
#define CODE_ORIGIN(origin, bytes, kind) +(HOLDS_CODE(kind) ? (origin) : 0U)
#define CODE_END(origin, bytes, kind) +(HOLDS_CODE(kind) ? ((origin) + (bytes)) : 0U)

#endif  // BOARDSMITH_CORTEXM_MPU_H_
