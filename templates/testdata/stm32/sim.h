// SPDX-License-Identifier: Apache-2.0
//
// A software model of STM32 chips, for the test of their port: it receives every access to a register. The port's files
// are compiled unchanged for this computer, with this header included first.
//
// The models (sim_f.c, sim_l4.c, sim_h7.c) follow the reference manuals, not the port: they have their own addresses
// and bits. They set flags some accesses after their cause, and record every breach of a rule that would be harmful on
// a chip: too few wait states, a bus over its limit, a peripheral without a clock, a PLL that is changed while it runs.
#ifndef SIM_H_
#define SIM_H_

#include <stdint.h>

#include "bare.h"

#undef REG32
#define REG32(address) (*sim_register((uint32_t)(address)))

// Returns the register's storage. A write takes effect at the next access to any register.
volatile uint32_t* sim_register(uint32_t address);

// ---- Defined by sim.c, for the models ----------------------------------------------------------------------------

uint32_t sim_get(uint32_t address);
void sim_set(uint32_t address, uint32_t value);
void sim_flag(uint32_t address, uint32_t bits, int on);
uint32_t sim_field(uint32_t address, uint32_t shift, uint32_t width);

// Records a breach of a rule; each text once.
void sim_breach(const char* what);

// Returns 1 once `on` has been set for long enough, 0 before. Each switchable block has a slot.
int sim_ready(uint32_t slot, int on);

// Returns the number of accesses so far.
uint32_t sim_now(void);

// Returns whether this run simulates a condition: "no-hse", "no-lse", "no-pll", "no-rng", "no-flash", "revision-a",
// "no-chip", ...
int sim_is(const char* condition);

// ---- Defined by a model ------------------------------------------------------------------------------------------

void model_reset(void);                              // registers whose value after a reset is not 0
void model_written(uint32_t address, uint32_t was);  // called if a register has a new value
void model_step(void);                               // flags, then rules
uint32_t model_core_hz(void);                        // the core's actual clock
uint32_t model_uart_hz(void);                        // the USART's actual clock
int model_clocked(uint32_t address);                 // whether the register's peripheral has a clock
uint32_t model_rng_hz(void);                         // the random number generator's clock, 0: none

// Addresses of the peripherals that all models share.
typedef struct sim_map {
  uint32_t gpio, usart, rng, iwdg, uid;
  int usart_v2;  // ISR, RDR, TDR
  int lpuart;
} sim_map_t;
extern const sim_map_t model_map;

#endif  // SIM_H_
