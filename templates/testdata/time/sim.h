// SPDX-License-Identifier: Apache-2.0
//
// A core's timers in software, for the test of the time part of a port: counters that go on in sleep, and counters that
// do not. The port's file is compiled for this computer with this header in front; nothing in it is changed.
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

// The register's storage. What is written to it takes effect at the next access to any register.
volatile uint32_t* sim_register(uint32_t address);

// Some cycles go by, awake; and until an interrupt is pending, asleep.
void sim_pass(uint64_t cycles);
void sim_sleep(void);

// ---- sim.c gives to the models -----------------------------------------------------------------------------------

int sim_is(const char* condition);  // given on the command line: what is so of this core

// ---- A model gives -----------------------------------------------------------------------------------------------

void model_start(void);                        // as the port's cpu_init does
void model_pass(uint64_t cycles, int asleep);  // the counters go on
uint64_t model_until_pending(void);            // cycles of sleep until its timer interrupts; UINT64_MAX: never
int model_pending(void);
void model_interrupt(void);  // the timer's interrupt is served
uint32_t model_read(uint32_t address);
void model_written(uint32_t address, uint32_t value);
uintptr_t model_csr(const char* name);  // of RISC-V, as the next
void model_set_csr(const char* name, uintptr_t bits);

#endif  // SIM_H_
