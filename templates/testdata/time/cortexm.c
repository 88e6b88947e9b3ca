// SPDX-License-Identifier: Apache-2.0
//
// SysTick and the cycle counter of a Cortex-M in software (sim.h), after the ARMv7-M manual (DDI 0403E, B3.3 and C1.8).
// Which of them go on while the core sleeps that manual leaves to the core and the chip: conditions "cyccnt-sleeps" and
// "systick-sleeps".
#include "cpu/cortexm/cortexm.h"

#include "sim.h"

#define CSR 0xE000E010U
#define RVR 0xE000E014U
#define CVR 0xE000E018U
#define ICSR 0xE000ED04U
#define DEMCR 0xE000EDFCU
#define DWT_CTRL 0xE0001000U
#define CYCCNT 0xE0001004U

static struct {
  uint32_t csr, rvr, left, pending;
  uint32_t demcr, control, cyccnt;
} core;

static void systick(uint64_t cycles) {
  while (cycles > 0U) {
    if (core.left == 0U) {
      core.left = core.rvr;
      cycles--;
      continue;
    }
    const uint64_t step = (cycles < core.left) ? cycles : core.left;
    core.left -= (uint32_t)step;
    cycles -= step;
    core.pending |= (core.left == 0U) ? 1U : 0U;
  }
}

void model_pass(uint64_t cycles, int asleep) {
  if (((core.csr & 1U) != 0U) && !(asleep && sim_is("systick-sleeps"))) {
    systick(cycles);
  }
  if (((core.control & 1U) != 0U) && ((core.demcr >> 24) != 0U) && !(asleep && sim_is("cyccnt-sleeps"))) {
    core.cyccnt += (uint32_t)cycles;
  }
}

uint64_t model_until_pending(void) {
  return (sim_is("systick-sleeps") || ((core.csr & 3U) != 3U)) ? UINT64_MAX
                                                               : ((core.left == 0U) ? core.rvr + 1U : core.left);
}

int model_pending(void) { return (core.pending != 0U) && ((core.csr & 2U) != 0U); }

void model_interrupt(void) {
  core.pending = 0;
  (void)cortexm_tick();
}

void model_start(void) { cortexm_time_on(); }

uint32_t model_read(uint32_t address) {
  switch (address) {
    case CSR:
      return core.csr;
    case RVR:
      return core.rvr;
    case CVR:
      return core.left;
    case ICSR:
      return core.pending << 26;
    case DEMCR:
      return core.demcr;
    case DWT_CTRL:
      return core.control;
    case CYCCNT:
      return core.cyccnt;
    default:
      return 0;
  }
}

void model_written(uint32_t address, uint32_t value) {
  switch (address) {
    case CSR:
      core.csr = value;
      break;
    case RVR:
      core.rvr = value & 0xFFFFFFU;
      break;
    case CVR:
      core.left = 0;  // whatever is written
      break;
    case ICSR:
      core.pending = ((value >> 25) & 1U) ? 0U : core.pending;
      break;
    case DEMCR:
      core.demcr = value;
      break;
    case DWT_CTRL:
      core.control = value;
      break;
    case CYCCNT:
      core.cyccnt = value;
      break;
    default:
      break;
  }
}
