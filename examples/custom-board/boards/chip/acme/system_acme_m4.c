// SPDX-License-Identifier: 0BSD
//
// The clock, in the style of a vendor's system file. The board's oscillator gives 25 MHz from the reset on.
#include "acme_m4.h"

#define OSCILLATOR_HZ 25000000UL

uint32_t SystemCoreClock = OSCILLATOR_HZ;

// Runs before variables are set up.
void SystemInit(void) {
  SCB_CPACR |= 0xFUL << 20;  // full access to the FPU
  __asm volatile("dsb\n isb" ::: "memory");
}

void SystemCoreClockUpdate(void) { SystemCoreClock = OSCILLATOR_HZ; }
