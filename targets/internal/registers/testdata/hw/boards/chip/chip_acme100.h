#ifndef CHIP_ACME100_H_
#define CHIP_ACME100_H_

#include "bare.h"

#define CLOCK_CTRL REG32(0x40000000U)
#define CLOCK_STATUS 0x40000004U  // a function gets its address
#define CLOCK_CTRL_ON (1U << 4)
#define CLOCK_CTRL_DIV (7U << 8)
#define CLOCK_CTRL_DIV_Pos 8U
#define CLOCK_CTRL_SOURCE 2U  // a value of two bits
#define STATUS_READY (1U << 31)
#define OF_ANOTHER_CHIP REG32(0x40003000U)  // not used here

#define ROW_0 {0x40001000U, 5U, 1U << 2}
#define ROW_1 {0x40007000U, 9U, 1U << 3}
#define ROW(n) ROW_##n
#define SELECTED(n) ROW(n)

uint32_t acme_wait(uint32_t address, uint32_t bits);

#endif
