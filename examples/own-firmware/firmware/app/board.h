// SPDX-License-Identifier: 0BSD
//
// The board: its clock with a tick of 1 ms, its first UART, a lamp.
#ifndef BOARD_H_
#define BOARD_H_

#include <stdint.h>

#define REG(address) (*(volatile uint32_t*)(address))

enum { BOARD_HZ = 25000000, TICK_HZ = 1000 };

void clock_start(void);  // sets up the clock and the tick
uint32_t clock_ms(void);
uint64_t clock_counts(void);  // of BOARD_HZ, since the start

void uart_start(void);
uint32_t uart_read(uint8_t** data);  // returns the number of bytes, which are valid until the next call
int uart_write(uint8_t byte);        // returns -1 if the UART takes no byte for two seconds, else 0
void uart_handler(void);

void lamp(uint32_t on);

_Noreturn void board_reset(void);

#endif  // BOARD_H_
