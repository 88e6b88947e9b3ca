// SPDX-License-Identifier: Apache-2.0
//
// cpu_executable and cpu_code_written (bare.h) of every Cortex-M: caches, where the core has them, and the memory
// protection unit.
//
// Sources: ARMv7-M Architecture Reference Manual (DDI 0403E) B2.2.7 (cache maintenance for self-modifying code) and
// B4.8, Armv8-M Architecture Reference Manual (DDI 0553) B10.
#include <stdint.h>

#include "bare.h"
#include "cpu/cortexm/cortexm.h"

#if (BOARDSMITH_UPLOAD_BYTES) > 0
__attribute__((weak)) void cortexm_window(int32_t on) { (void)on; }

int32_t cpu_executable(void* base, uint32_t size_bytes, int32_t on) {
  fault_sync(base, size_bytes);
#if CORTEXM_FULL
  cortexm_caches_code();
#endif
  cortexm_window(on);
  barrier();
  return 0;
}
#endif

#ifdef BOARDSMITH_COPIED_REGIONS
void cpu_code_written(const void* base, uint32_t size_bytes) {
  fault_sync(base, size_bytes);
#if CORTEXM_FULL
  cortexm_caches_code();
#endif
  barrier();
}
#endif
