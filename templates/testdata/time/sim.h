// SPDX-License-Identifier: Apache-2.0
//
// Software models of a core's timers, for tests of a port's time functions: counters that continue in sleep, and
// counters that stop. The port's file is compiled unchanged for this computer, with this header included first.
#ifndef SIM_H_
#define SIM_H_

#include <stdint.h>

#include "bare.h"
#include SIM_CPU_HEADER  // its instructions are replaced below

#undef REG32
#define REG32(address) (*sim_register((uint32_t)(address)))
#define barrier() sim_pass(4)
#define wait_for_interrupt() sim_sleep()
#undef READ_CSR
#undef SET_CSR
#define READ_CSR(name) model_csr(name)
#define SET_CSR(name, bits) model_set_csr((name), (bits))

// Returns the register's storage. A write takes effect at the next access to any register.
volatile uint32_t* sim_register(uint32_t address);

// Advance time: by some cycles, awake; until an interrupt is pending, asleep.
void sim_pass(uint64_t cycles);
void sim_sleep(void);

// ---- Defined by sim.c, for the models ----------------------------------------------------------------------------

int sim_is(const char* condition);  // a condition of the core, from the command line

// ---- Defined by a model ------------------------------------------------------------------------------------------

void model_start(void);                        // like the port's cpu_init
void model_pass(uint64_t cycles, int asleep);  // advances the counters
uint64_t model_until_pending(void);            // cycles of sleep until the timer's interrupt; UINT64_MAX: never
int model_pending(void);
void model_interrupt(void);  // handles the timer's interrupt
uint32_t model_read(uint32_t address);
void model_written(uint32_t address, uint32_t value);
uintptr_t model_csr(const char* name);  // RISC-V, like the next
void model_set_csr(const char* name, uintptr_t bits);

#endif  // SIM_H_
