// SPDX-License-Identifier: Apache-2.0
//
// Nordic's nRF52840 and nRF52833: instruction cache, debug access; the rest is in shared.c. The core always runs at
// 64 MHz; only its oscillator can be selected. The two chips have the same registers here, at the same addresses.
//
// Sources: nRF52840 Product Specification v1.8 (PS), nRF52840 Revision 3 Errata, nRF52833 Product Specification v1.6.
// The errata of the used blocks are applied. Not applied: 66 (TEMP), which concerns temperature measurements, and 98,
// 103, 115 and 120, which were fixed after Engineering A of the nRF52840.
#include <stdint.h>

#include "bare.h"
#include "chip/nrf/nrf.h"

#define CORE_HZ 64000000U  // PS "CPU": one frequency

_Static_assert((BOARDSMITH_CORE_HZ) == CORE_HZ, "core_hz: this chip has only one, 64 MHz");

#define EVENTS_DONE REG32(0x4000010CU)  // PS "CLOCK", Registers
#define EVENTS_CTTO REG32(0x40000110U)
#define CTIV REG32(0x40000538U)
#define APPROTECT_DISABLE REG32(0x40000558U)  // PS "Debug and trace", Registers (APPROTECT)
#define UICR_APPROTECT REG32(0x10001208U)     // PS "UICR", Registers
#define ICACHECNF REG32(0x4001E540U)          // PS "NVMC", Registers
#define FICR_PART_CODE REG32(0x10000130U)     // for the errata: 8 is nRF52840, 13 is nRF52833
#define FICR_REVISION REG32(0x10000134U)

// PS "POWER", Registers. Others: wake-up from off, by debugger, NFC or VBUS.
static const nrf_resets_t resets = {.watchdog = 1U << 1, .software = 1U << 2, .lockup = 1U << 3, .others = 0x1FU << 16};
static int32_t reset_cause;

// On an nRF52840 from Revision 3 on (5 in FICR), and an nRF52833 from its Revision 2 on (2), debuggers have access only
// if both UICR and this register allow it (PS "Debug and trace", Access port protection): without it a board could be
// programmed only once.
static void debug_as_in_uicr(void) {
  if (((FICR_PART_CODE == 8U) && (FICR_REVISION >= 5U)) || ((FICR_PART_CODE == 13U) && (FICR_REVISION >= 2U))) {
    APPROTECT_DISABLE = UICR_APPROTECT;
  }
}

void chip_early(void) {}

void chip_init(void) {
  reset_cause = nrf_reset_cause(&resets);
  debug_as_in_uicr();
  EVENTS_DONE = 0;  // erratum 36: not cleared by a reset
  EVENTS_CTTO = 0;
  CTIV = 0;
  ICACHECNF = 1;
  nrf_crystal_on();
  nrf_pins_on();
}

uint32_t chip_core_hz(void) { return CORE_HZ; }

void chip_platform(struct bare_platform* p) {
  p->flags |= ((ICACHECNF & 1U) != 0U) ? (uint32_t)BARE_FLAG_ICACHE : 0U;
  p->reset_cause = reset_cause;
}
