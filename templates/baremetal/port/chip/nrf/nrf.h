// SPDX-License-Identifier: Apache-2.0
//
// Common parts of Nordic's nRF51, nRF52 and nRF53: the crystal of the core's clock, the UART's pins, the reset cause,
// the factory id, the watchdog, and the random numbers of nRF51 and nRF52. Each nrf5*.c has the rest of one chip. The
// registers have the same layout in all three, at different addresses.
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

// Meaning of the bits of RESETREAS. Bit 0 is the reset pin on all chips.
typedef struct nrf_resets {
  uint32_t watchdog;
  uint32_t software;
  uint32_t lockup;
  uint32_t others;
} nrf_resets_t;

// Reads RESETREAS and clears it for the next reset. Returns BARE_RESET_*, or -1 without such a register.
int32_t nrf_reset_cause(const nrf_resets_t* bits);

// Starts the crystal oscillator and waits at least 12 ms for it. If it does not start, the RC oscillator stays on.
void nrf_crystal_on(void);

// Configures the UART's pins as an idle output and a pulled-up input, and measure_pin as a low output.
void nrf_pins_on(void);

#endif  // BOARDSMITH_NRF_H_
