// SPDX-License-Identifier: Apache-2.0
//
// An STM32 in software, for the test of its port: every access to a register comes here instead of to the bus. The
// port's files are compiled for this computer with this header in front, nothing in them is changed.
//
// The models (sim_f.c, sim_l4.c, sim_h7.c) are written after the reference manuals and not after the port: addresses
// and bits stand there again. They set flags some accesses after what causes them, and note every breach of a rule
// that would damage nothing here but does on a chip: too few wait states, a bus over its limit, a peripheral without a
// clock, a PLL that is changed while it runs.
#ifndef SIM_H_
#define SIM_H_

#include <stdint.h>

#include "bare.h"

#undef REG32
#define REG32(address) (*sim_register((uint32_t)(address)))

// The register's storage. What is written to it takes effect at the next access to any register.
volatile uint32_t* sim_register(uint32_t address);

// ---- sim.c gives to the models -----------------------------------------------------------------------------------

uint32_t sim_get(uint32_t address);
void sim_set(uint32_t address, uint32_t value);
void sim_flag(uint32_t address, uint32_t bits, int on);
uint32_t sim_field(uint32_t address, uint32_t shift, uint32_t width);

// Notes a breach of a rule; each text once.
void sim_breach(const char* what);

// 1 once what switches something on has been set for long enough, 0 before. One slot for each such thing.
int sim_ready(uint32_t slot, int on);

// Accesses so far.
uint32_t sim_now(void);

// Returns whether this run simulates a condition: "no-hse", "no-lse", "no-pll", "no-rng", "no-flash", "revision-a",
// "no-chip", ...
int sim_is(const char* condition);

// ---- A model gives -----------------------------------------------------------------------------------------------

void model_reset(void);                              // values after a reset that is not 0
void model_written(uint32_t address, uint32_t was);  // something new was written there
void model_step(void);                               // flags, then rules
uint32_t model_core_hz(void);                        // what the core really runs at
uint32_t model_uart_hz(void);                        // what the USART really divides
int model_clocked(uint32_t address);                 // whether the register's peripheral has a clock
uint32_t model_rng_hz(void);                         // the random number generator's clock, 0: none

// The peripherals that are the same: where they are.
typedef struct sim_map {
  uint32_t gpio, usart, rng, iwdg, uid;
  int usart_v2;  // ISR, RDR, TDR
  int lpuart;
} sim_map_t;
extern const sim_map_t model_map;

#endif  // SIM_H_
