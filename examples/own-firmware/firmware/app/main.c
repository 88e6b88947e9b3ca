// SPDX-License-Identifier: 0BSD
//
// An application of one's own: it blinks. boardsmith's server runs where the application has nothing else to do.
#include <tvm/runtime/c_runtime_api.h>

#include "app.h"
#include "board.h"

enum { BLINK_MS = 50 };

static volatile uint32_t beats;

void app_tick(const void* frame) {
  if ((clock_ms() % (uint32_t)BLINK_MS) == 0U) {
    beats++;
    lamp(beats & 1U);
  }
  server_tick(frame);
}

int main(void) {
  clock_start();
  uart_start();
  server_run();
}

// app.beats() -> the count. The host calls it by the name in the board file.
int app_beats(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle);
int app_beats(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
              void* resource_handle) {
  (void)args;  // it takes none
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  out_value->v_int64 = (int64_t)beats;
  *out_type = (int)kTVMArgInt;
  return 0;
}
