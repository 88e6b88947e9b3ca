// SPDX-License-Identifier: Apache-2.0
//
// What Nordic's nRF51, nRF52 and nRF53 have in common: the crystal behind the core's clock, the UART's pins, the reset's
// cause, the factory's id, the watchdog, and the first two's random numbers. Each nrf5*.c knows the rest of one of
// them. The registers lie alike in all three, at other addresses.
//
// Sources: nRF51 Series Reference Manual 3.0, nRF52840 Product Specification v1.8, nRF5340 Product Specification v1.3,
// chapters of the same names ("CLOCK", "POWER" or "RESET", "GPIO", "FICR", "WDT", "RNG").
//
// A chip file's `defines`: UART_IRQ; NRF_CLOCK_BASE (of CLOCK and POWER), NRF_GPIO_BASE (of OUT, port 0), NRF_WDT_BASE,
// NRF_DEVICE_ID (FICR's two words). A board's: NRF_UART_TX_PIN, NRF_UART_RX_PIN (port * 32 + pin).
#ifndef BOARDSMITH_NRF_H_
#define BOARDSMITH_NRF_H_

#include <stdint.h>

#include "bare.h"

// Which bits of RESETREAS say what. Bit 0 is the reset pin on all of them.
typedef struct nrf_resets {
  uint32_t watchdog;
  uint32_t software;
  uint32_t lockup;
  uint32_t others;
} nrf_resets_t;

// Reads RESETREAS and clears it for the next reset. Returns BARE_RESET_*, or -1 where there is no such register.
int32_t nrf_reset_cause(const nrf_resets_t* bits);

// Starts the crystal oscillator and waits for it, 12 ms at least. If it never comes the RC oscillator goes on.
void nrf_crystal_on(void);

// Makes the pins an idle output and an input that is pulled up.
void nrf_pins_on(void);

#endif  // BOARDSMITH_NRF_H_
