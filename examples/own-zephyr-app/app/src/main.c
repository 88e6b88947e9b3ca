// SPDX-License-Identifier: 0BSD
//
// An application of one's own: its main thread counts every 5 ms, whatever the server does for the host. The host reads
// the count by calling app.beats, which the board file names.
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <zephyr/kernel.h>

static volatile uint32_t beats;

int main(void) {
  for (;;) {
    beats++;
    k_msleep(5);
  }
  return 0;
}

// app.beats() -> the count.
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
