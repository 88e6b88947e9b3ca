// SPDX-License-Identifier: Apache-2.0
//
// The vectors of a program for mps2-an385, which newlib starts.
extern char __stack[];
void _start(void);

__attribute__((section(".vectors"), used)) static void* const vectors[16] = {__stack, (void*)_start};
