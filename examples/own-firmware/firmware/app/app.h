// SPDX-License-Identifier: 0BSD
//
// What calls whom: the handlers of startup.c call these functions.
#ifndef APP_H_
#define APP_H_

#include <stdint.h>

// frame: the address of the eight registers that the core has saved
void clock_tick(const void* frame);
void app_tick(const void* frame);
_Noreturn void server_fault(const void* frame);

// boardsmith's server (server.c). server_run does not return; server_tick is called once a tick.
_Noreturn void server_run(void);
void server_tick(const void* frame);

#endif  // APP_H_
