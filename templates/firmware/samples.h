// SPDX-License-Identifier: Apache-2.0
//
// Counts the interrupts that disturb a measurement. Only in firmware that takes code from the host, where measurements
// are compared: elsewhere these functions do nothing.
#ifndef BOARDSMITH_SAMPLES_H_
#define BOARDSMITH_SAMPLES_H_

#include <tvm/runtime/c_runtime_api.h>

#include "crt_config.h"

#if (BOARDSMITH_UPLOAD_BYTES) > 0

// Called before and after the calls that are timed.
void samples_start(void);
void samples_stop(void);

// boardsmith.timed_interrupts() -> bytes, or null from a port without interrupts (boardsmith.md, "Interrupts in a
// measurement").
int samples_interrupts_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                              void* resource_handle);

#else

static inline void samples_start(void) {}
static inline void samples_stop(void) {}

#endif

#endif  // BOARDSMITH_SAMPLES_H_
