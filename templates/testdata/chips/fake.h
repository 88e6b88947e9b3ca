// SPDX-License-Identifier: Apache-2.0
//
// A chip in software for the tests of its port: registers that are memory, and a model of the chip that moves them. The
// port's files are compiled for this computer with this header in front; nothing in them is changed.
//
// The models (nordic.c, rp2040.c, imxrt1060.c) are written after the manufacturers' documents and not after the port:
// addresses and bits stand there again, and each works out by itself what the core and the UART run at. They note every
// breach of a rule that costs nothing here but does on a chip.
#ifndef FAKE_H_
#define FAKE_H_

#include <stdint.h>

#include "bare.h"

#undef REG32
#define REG32(address) (*fake_register((uint32_t)(address)))
#define REG16(address) (*fake_half((uint32_t)(address)))

// The register's storage. What is written there takes effect at the next access to any register.
volatile uint32_t* fake_register(uint32_t address);
volatile uint16_t* fake_half(uint32_t address);

// ---- fake.c gives to the models ----------------------------------------------------------------------------------

uint32_t fake_get(uint32_t address);
void fake_set(uint32_t address, uint32_t value);
uint32_t fake_now(void);                                // accesses so far
int fake_after(uint32_t slot, int on, uint32_t delay);  // 1 once `on` has held for delay accesses
void fake_breach(const char* what);                     // a rule was broken; each text counts once
int fake_twice(uint32_t address);    // the access before was to the same: read, then written as it was
int fake_is(const char* condition);  // given on the command line: what is wrong with this chip
uint32_t fake_number(const char* name, uint32_t otherwise);  // "name=hex" on the command line

// ---- A model gives -----------------------------------------------------------------------------------------------

void model_reset(void);
void model_touched(uint32_t address, uint32_t before, uint32_t after);  // read if they are equal, or written the same
void model_step(void);                                                  // after that: flags and rules
uint32_t model_core_hz(void);
uint32_t model_uart_hz(void);
uint32_t model_baud(void);         // what the UART really runs at
uint32_t model_watchdog_ms(void);  // until it bites from now on; 0: it does not run
uint32_t model_watchdog_feeds(void);
int model_uart_arrives(uint8_t byte);                    // on the wire; 0: this model has no UART's insides
int model_uart_pending(void);                            // the interrupt
uint32_t model_uart_sent(uint8_t* bytes, uint32_t max);  // what left so far

#endif  // FAKE_H_
