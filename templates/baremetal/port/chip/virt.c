// SPDX-License-Identifier: Apache-2.0
//
// The chip part of a port (bare.h) for `virt` of QEMU's RISC-V emulators: nothing has a clock here, and the test
// device resets the machine. QEMU's hw/riscv/virt.c has the addresses.
//
// A board file's `defines`: VIRT_TEST_BASE (the test device, QEMU's docs/specs: sifive_test), UART_IRQ (the PLIC's
// number of the UART).
#include <stdint.h>

#include "bare.h"
#include "cpu/riscv/riscv.h"

#define TEST_RESET 0x7777U

#define RESET_STEPS 1000000U  // until the emulator has noticed

void chip_early(void) {}

void chip_init(void) {}

uint32_t chip_core_hz(void) { return BOARDSMITH_CORE_HZ; }  // no register has it

uint32_t chip_uart_hz(void) { return UART_HZ; }

void chip_platform(struct bare_platform* p) { (void)p; }  // no flash, and no register for what caused a reset

void chip_reset(void) {
  REG32(VIRT_TEST_BASE) = TEST_RESET;
  for (volatile uint32_t i = 0; i < RESET_STEPS; i++) {
    // The request is carried out by another thread of the emulator.
  }
}
