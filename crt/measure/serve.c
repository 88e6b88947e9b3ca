// SPDX-License-Identifier: Apache-2.0
//
// The firmware whose size is measured: it serves requests byte by byte.
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/platform.h>

#include "board.h"
#ifdef MEASURE_AOT
#include <tvm/runtime/metadata_types.h>
#endif

static ssize_t write_bytes(void* context, const uint8_t* data, size_t size_bytes) {
  (void)context;
  for (size_t i = 0; i < size_bytes; i++) {
    board_send(data[i]);
  }
  return (ssize_t)size_bytes;
}

int main(void) {
  microtvm_rpc_server_t server = MicroTVMRpcServerInit(write_bytes, NULL);
  TVMLogf("measure: serving");
  for (;;) {
    uint8_t byte = board_receive();
    uint8_t* data = &byte;
    size_t size_bytes = 1;
    const tvm_crt_error_t error = MicroTVMRpcServerLoop(server, &data, &size_bytes);
    if (error != kTvmErrorNoError) {
      TVMPlatformAbort(error);
    }
  }
}
