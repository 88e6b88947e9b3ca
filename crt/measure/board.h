// SPDX-License-Identifier: Apache-2.0
//
// Support for QEMU's mps2-an385 (Cortex-M3): a UART, a timer, the runtime's platform (board.c).
#ifndef BOARDSMITH_MEASURE_BOARD_H_
#define BOARDSMITH_MEASURE_BOARD_H_

#include <stdint.h>

// Called after reset, with memory set up.
int main(void);

// Waits for a received byte and returns it; sends one.
uint8_t board_receive(void);
void board_send(uint8_t byte);

// Ticks of 40 ns, counting up.
uint32_t board_ticks(void);

// Converts ticks to instructions, if QEMU runs with -icount shift=6.
uint32_t board_instructions(uint32_t ticks);

// Sends a line of a name and a number.
void board_print(const char* name, uint32_t number);

// Ends QEMU.
void board_exit(void);

// Bytes allocated from the platform and not freed.
extern uint32_t board_taken;

#endif  // BOARDSMITH_MEASURE_BOARD_H_
