// SPDX-License-Identifier: Apache-2.0
//
// Nordic's nRF51 (nRF51 Series Reference Manual 3.0). Its core always runs at 16 MHz; most of the code is in shared.c.
#include <stdint.h>

#include "bare.h"
#include "chip/nrf/nrf.h"

#define CORE_HZ 16000000U

_Static_assert((BOARDSMITH_CORE_HZ) == CORE_HZ, "core_hz: this chip has only one, 16 MHz");

static const nrf_resets_t resets = {.watchdog = 1U << 1, .software = 1U << 2, .lockup = 1U << 3, .others = 7U << 16};
static int32_t reset_cause;

void chip_early(void) {}

void chip_init(void) {
  reset_cause = nrf_reset_cause(&resets);
  nrf_crystal_on();  // the UART's rate is too inaccurate without it
  nrf_pins_on();
}

uint32_t chip_core_hz(void) { return CORE_HZ; }

void chip_platform(struct bare_platform* p) {
  p->wait_states = 0;  // it has none
  p->reset_cause = reset_cause;
}
