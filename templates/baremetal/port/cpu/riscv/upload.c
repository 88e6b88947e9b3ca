// SPDX-License-Identifier: Apache-2.0
//
// cpu_executable and cpu_code_written (bare.h) of RISC-V. Machine mode may execute any RAM that no locked rule of the
// PMP forbids (Privileged Architecture §3.7.1), and a locked rule stays until a reset. So both only run a fence for
// instructions. The file also has the variables of the thread that uploaded code uses.
#include <stdint.h>

#include "bare.h"
#include "riscv.h"

#if (BOARDSMITH_UPLOAD_BYTES) > 0
__attribute__((section(".tdata.boardsmith_uploaded"), used)) _Thread_local uint8_t cpu_uploaded_errno[16] = {0};

int32_t cpu_executable(void* base, uint32_t size_bytes, int32_t on) {
  (void)base;
  (void)size_bytes;
  (void)on;
  __asm volatile("fence.i" ::: "memory");
  return 0;
}
#endif

#ifdef BOARDSMITH_COPIED_REGIONS
void cpu_code_written(const void* base, uint32_t size_bytes) {
  (void)base;
  (void)size_bytes;
  __asm volatile("fence.i" ::: "memory");
}
#endif
