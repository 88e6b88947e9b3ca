// SPDX-License-Identifier: Apache-2.0
//
// The level-1 caches of a Cortex-M (ARMv7-M, ARMv8-M). A core without caches reads CLIDR as 0: nothing is switched on.
//
// Sources: as core.c, sections of DDI 0403E.
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"

#define CCR REG32(0xE000ED14U)    // B3.2: system control block
#define CLIDR REG32(0xE000ED78U)  // B4.8: caches
#define CCSIDR REG32(0xE000ED80U)
#define CSSELR REG32(0xE000ED84U)
#define ICIALLU REG32(0xE000EF50U)  // B2.2.7
#define DCISW REG32(0xE000EF60U)
#define DCCMVAC REG32(0xE000EF68U)
#define DCCISW REG32(0xE000EF74U)

#define CCR_IC (1U << 17)
#define CCR_DC (1U << 16)

// Applies op (DCISW, DCCISW) to every line of the level-1 data cache.
static void data_cache_by_line(volatile uint32_t* op) {
  CSSELR = 0;  // level 1, data
  barrier();
  const uint32_t id = CCSIDR;
  const uint32_t sets = ((id >> 13) & 0x7FFFU) + 1U;
  const uint32_t ways = ((id >> 3) & 0x3FFU) + 1U;
  const uint32_t set_shift = (id & 7U) + 4U;
  const uint32_t way_shift = (ways > 1U) ? (uint32_t)__builtin_clz(ways - 1U) : 0U;
  for (uint32_t set = 0; set < sets; set++) {
    for (uint32_t way = 0; way < ways; way++) {
      *op = (way << way_shift) | (set << set_shift);
    }
  }
  barrier();
}

void cortexm_caches_on(void) {
  if (((CLIDR & 1U) != 0U) && ((CCR & CCR_IC) == 0U)) {
    ICIALLU = 0;
    barrier();
    CCR |= CCR_IC;
    barrier();
  }
  if (((CLIDR & 2U) != 0U) && ((CCR & CCR_DC) == 0U)) {
    data_cache_by_line(&DCISW);
    CCR |= CCR_DC;
    barrier();
  }
}

#if ((BOARDSMITH_UPLOAD_BYTES) > 0) || defined(BOARDSMITH_COPIED_REGIONS)
void cortexm_caches_code(void) {
  if ((CLIDR & 1U) != 0U) {
    ICIALLU = 0;
    barrier();
  }
}
#endif

void fault_sync(const void* data, uint32_t size_bytes) {
  enum { LINE_BYTES = 32 };
  if ((CCR & CCR_DC) == 0U) {
    return;
  }
  const uint32_t end = (uint32_t)(uintptr_t)data + size_bytes;
  barrier();
  for (uint32_t at = (uint32_t)(uintptr_t)data & ~((uint32_t)LINE_BYTES - 1U); at < end; at += (uint32_t)LINE_BYTES) {
    DCCMVAC = at;
  }
  barrier();
}

void cortexm_caches_clean(void) {
  if ((CCR & CCR_DC) != 0U) {
    data_cache_by_line(&DCCISW);
  }
}

uint32_t cortexm_caches_flags(void) {
  const uint32_t ccr = CCR;
  return (((ccr & CCR_IC) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U) |
         (((ccr & CCR_DC) != 0U) ? (uint32_t)BARE_FLAG_DCACHE : 0U);
}
