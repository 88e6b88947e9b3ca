// SPDX-License-Identifier: Apache-2.0
//
// Lets a port set up the unit (mpu.h), and prints what it wrote: "control", "memory" (MAIR0), and for each region its
// number and two registers, in hexadecimal.
#include "mpu.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef CPU_MPU_REGIONS
enum { REGIONS = CPU_MPU_REGIONS };
#else
enum { REGIONS = 8 };
#endif

static uint32_t type = REGIONS << 8;
static uint32_t control;
static uint32_t number;
static uint32_t base[REGIONS];
static uint32_t attributes[REGIONS];
static uint32_t memory;


volatile uint32_t* mpu_register(uint32_t address) {
  if (number >= REGIONS) {
    (void)fprintf(stderr, "there is no region %u\n", (unsigned)number);
    exit(1);
  }
  switch (address) {
    case 0xE000ED90U:
      return &type;
    case 0xE000ED94U:
      return &control;
    case 0xE000ED98U:
      return &number;
    case 0xE000ED9CU:
      return &base[number];
    case 0xE000EDA0U:
      return &attributes[number];
    case 0xE000EDC0U:
      return &memory;
    default:
      (void)fprintf(stderr, "there is no register at %#x\n", (unsigned)address);
      exit(1);
  }
}

// A boot loader has left regions that are on.
static void boot(void) {
  for (unsigned i = 0; i < REGIONS; i++) {
    base[i] = 0x40000000U;
    attributes[i] = 0x40000017U;  // ARMv7-M: 4 KiB that nobody may touch
  }
}

int main(int argc, char** argv) {
  boot();
  cortexm_protect();
#if (BOARDSMITH_UPLOAD_BYTES) > 0
  for (int i = 1; i < argc; i++) {  // open, or closed
    cortexm_window(argv[i][0] == '1');
  }
#else
  (void)argc;
  (void)argv;
#endif
  (void)printf("control %x\nmemory %x\n", (unsigned)control, (unsigned)memory);
  for (unsigned i = 0; i < REGIONS; i++) {
    (void)printf("%u %x %x\n", i, (unsigned)base[i], (unsigned)attributes[i]);
  }
  return 0;
}
