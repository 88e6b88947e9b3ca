// SPDX-License-Identifier: Apache-2.0
//
// main.c under another name: Zephyr's main calls it, or a thread of its own. On native boards main is a macro.
int boardsmith_main(void);

#undef main
#define main boardsmith_main
#include "main.c"
