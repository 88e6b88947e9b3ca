// SPDX-License-Identifier: Apache-2.0
//
// Software models of chips, for tests of their ports: registers are memory that a model of the chip updates. The port's
// files are compiled unchanged for this computer, with this header included first.
//
// The models (nordic.c, rp2040.c, imxrt1060.c) follow the manufacturers' documents, not the port: they have their own
// addresses and bits, and compute the rates of core and UART themselves. They record every breach of a rule that would
// be harmful on a chip.
#ifndef FAKE_H_
#define FAKE_H_

#include <stdint.h>

#include "bare.h"

#undef REG32
#define REG32(address) (*fake_register((uint32_t)(address)))
#define REG16(address) (*fake_half((uint32_t)(address)))

// Returns the register's storage. A write takes effect at the next access to any register.
volatile uint32_t* fake_register(uint32_t address);
volatile uint16_t* fake_half(uint32_t address);

// ---- Defined by fake.c, for the models ---------------------------------------------------------------------------

uint32_t fake_get(uint32_t address);
void fake_set(uint32_t address, uint32_t value);
uint32_t fake_now(void);                                // accesses so far
int fake_after(uint32_t slot, int on, uint32_t delay);  // 1 once `on` has held for delay accesses
void fake_breach(const char* what);                     // records a broken rule; each text once
int fake_twice(uint32_t address);    // the previous access was to the same address: read, then written unchanged
int fake_is(const char* condition);  // a condition of the chip, from the command line
uint32_t fake_number(const char* name, uint32_t otherwise);  // "name=hex" on the command line

// ---- Defined by a model ------------------------------------------------------------------------------------------

void model_reset(void);
void model_touched(uint32_t address, uint32_t before, uint32_t after);  // equal: read, or written unchanged
void model_step(void);                                                  // called next: flags and rules
uint32_t model_core_hz(void);
uint32_t model_uart_hz(void);
uint32_t model_baud(void);         // the UART's actual rate
uint32_t model_watchdog_ms(void);  // time until it resets the chip; 0: off
uint32_t model_watchdog_feeds(void);
int model_uart_arrives(uint8_t byte);                    // a received byte; 0: no model of the UART
int model_uart_pending(void);                            // its interrupt
uint32_t model_uart_sent(uint8_t* bytes, uint32_t max);  // bytes sent so far

#endif  // FAKE_H_
