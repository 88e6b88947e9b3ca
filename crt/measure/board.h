// SPDX-License-Identifier: Apache-2.0
//
// What board.c has of QEMU's mps2-an385 (Cortex-M3): a UART, a timer, the runtime's platform.
#ifndef BOARDSMITH_MEASURE_BOARD_H_
#define BOARDSMITH_MEASURE_BOARD_H_

#include <stdint.h>

// Called after reset, with memory set up.
int main(void);

// Takes the byte that came, or waits for one; sends one.
uint8_t board_receive(void);
void board_send(uint8_t byte);

// Ticks of 40 ns, counting up.
uint32_t board_ticks(void);

// Bytes that the platform's allocator was asked for and did not get back.
extern uint32_t board_taken;

#endif  // BOARDSMITH_MEASURE_BOARD_H_
