// SPDX-License-Identifier: Apache-2.0
//
// Software model (sim.h) of mtime and mcycle of a RISC-V core: privileged architecture, 20211203, sections 3.1.10 and
// 3.2.1. mtime continues in sleep. mcycle may stop ("mcycle-sleeps") or have another rate ("mcycle-slow").
#include "cpu/riscv/riscv.h"

#include "sim.h"

#define MTIMECMP ((CLINT_BASE) + 0x4000U)

static uint64_t cycles_passed;  // of a clock of BOARDSMITH_TIMER_HZ, asleep or not
static uint64_t mcycle;
static uint64_t mtimecmp = UINT64_MAX;
static uint32_t enabled;

static uint64_t mtime(void) {
  const uint64_t hz = BOARDSMITH_TIMER_HZ;
  return ((cycles_passed / hz) * (MTIME_HZ)) + (((cycles_passed % hz) * (MTIME_HZ)) / hz);
}

void model_pass(uint64_t cycles, int asleep) {
  cycles_passed += cycles;
  if (!(asleep && sim_is("mcycle-sleeps"))) {
    mcycle += sim_is("mcycle-slow") ? (cycles / 3U) : cycles;
  }
}

int model_pending(void) { return ((enabled & 0x80U) != 0U) && (mtime() >= mtimecmp); }

uint64_t model_until_pending(void) {
  const uint64_t counts = (mtimecmp > mtime()) ? (mtimecmp - mtime()) : 1U;
  return (counts > (MTIME_HZ)) ? UINT64_MAX : ((counts * ((BOARDSMITH_TIMER_HZ) / (MTIME_HZ))) + 1U);
}

void model_interrupt(void) { (void)riscv_time_tick(); }

void model_start(void) { riscv_time_on(); }

uintptr_t model_csr(const char* name) {
  sim_pass(1);
  return (uintptr_t)((name[6] == 'h') ? (uint32_t)(mcycle >> 32) : (uint32_t)mcycle);  // mcycle, mcycleh
}

void model_set_csr(const char* name, uintptr_t bits) {
  enabled |= (name[1] == 'i') ? (uint32_t)bits : 0U;  // mie
}

uint32_t model_read(uint32_t address) {
  switch (address - (CLINT_BASE)) {
    case 0x4000U:
      return (uint32_t)mtimecmp;
    case 0x4004U:
      return (uint32_t)(mtimecmp >> 32);
    case 0xBFF8U:
      return (uint32_t)mtime();
    case 0xBFFCU:
      return (uint32_t)(mtime() >> 32);
    default:
      return 0;
  }
}

void model_written(uint32_t address, uint32_t value) {
  if (address == MTIMECMP) {
    mtimecmp = (mtimecmp & ~(uint64_t)UINT32_MAX) | value;
  } else if (address == (MTIMECMP + 4U)) {
    mtimecmp = (mtimecmp & UINT32_MAX) | ((uint64_t)value << 32);
  }
}
