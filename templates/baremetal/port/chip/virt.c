// SPDX-License-Identifier: Apache-2.0
//
// The chip part of a port (bare.h) for `virt` of QEMU's RISC-V emulators: there are no clocks, and the test device
// resets the machine. Addresses: QEMU's hw/riscv/virt.c.
//
// A board file's `defines`: VIRT_TEST_BASE (the test device, QEMU's docs/specs: sifive_test), UART_IRQ (the PLIC's
// number of the UART).
#include <stdint.h>

#include "bare.h"
#include "cpu/riscv/riscv.h"

#define TEST_RESET 0x7777U

#define RESET_STEPS 1000000U  // until the emulator reacts

void chip_early(void) {}

void chip_init(void) {}

uint32_t chip_core_hz(void) { return BOARDSMITH_CORE_HZ; }  // there is no register

uint32_t chip_uart_hz(void) { return UART_HZ; }

void chip_platform(struct bare_platform* p) { (void)p; }  // no flash, and no register for the cause of a reset

void chip_reset(void) {
  REG32(VIRT_TEST_BASE) = TEST_RESET;
  for (volatile uint32_t i = 0; i < RESET_STEPS; i++) {
    // Another thread of the emulator executes the request.
  }
}
