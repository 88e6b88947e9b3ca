// SPDX-License-Identifier: Apache-2.0
//
// The state at a fault of an architecture without a format in the fault record: only that it happened.
#include <stddef.h>
#include <stdint.h>

#include "os.h"
#include "port.h"

void os_fault_state(os_state_t* state, const os_frame_t* frame, const os_stack_t* stack) {
  (void)frame;
  (void)stack;
  *state = (os_state_t){.code = 0};
}

void os_interrupted_state(os_state_t* state, const os_stack_t* stack) {
  (void)stack;
  *state = (os_state_t){.code = 0};
}

void os_core(port_platform_t* p) { (void)p; }
