// SPDX-License-Identifier: Apache-2.0
#include "samples.h"

#if (BOARDSMITH_UPLOAD_BYTES) > 0

#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>

#include "port.h"

enum { SAMPLES = 64, MANY = 255 };

static struct {
  uint32_t before;          // of interrupts, when the timer was started
  uint32_t during;          // those between its start and its stop
  uint8_t counts[SAMPLES];  // of the last measurement, at most MANY; the last one is the largest of all from there on
  TVMByteArray answer;
} samples;

static uint32_t interrupts(void) {
  return (boardsmith_port.interrupts != NULL) ? boardsmith_port.interrupts(boardsmith_port.ctx) : 0U;
}

void samples_start(void) { samples.before = interrupts(); }

void samples_stop(void) { samples.during = interrupts() - samples.before; }

void boardsmith_sample_timed(uint32_t index) {
  const uint32_t last = (uint32_t)SAMPLES - 1U;
  const uint8_t count = (uint8_t)((samples.during < (uint32_t)MANY) ? samples.during : (uint32_t)MANY);
  if (index <= last) {
    samples.counts[index] = count;
    samples.answer.size = index + 1U;
  } else if (samples.counts[last] < count) {
    samples.counts[last] = count;
  }
}

int samples_interrupts_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                              void* resource_handle) {
  (void)args;  // it takes none
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  if (boardsmith_port.interrupts != NULL) {
    samples.answer.data = (const char*)samples.counts;
    out_value->v_handle = &samples.answer;
    *out_type = (int)kTVMBytes;
  }
  return 0;
}

#endif
