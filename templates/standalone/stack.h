// SPDX-License-Identifier: Apache-2.0
//
// How much of the thread's stack was used since the start: its unused part is filled with a pattern, and what still has
// it was not used.
#ifndef BOARDSMITH_STACK_H_
#define BOARDSMITH_STACK_H_

#include <stdint.h>

// Fills the unused part of the stack, if the port reports where the stack is. Call it once, from main, after the port's
// init.
void stack_paint(void);

// Returns the most bytes of the stack that were in use since stack_paint, and sets *size_bytes to its size; both are 0
// if the stack is unknown.
uint32_t stack_used(uint32_t* size_bytes);

#endif  // BOARDSMITH_STACK_H_
