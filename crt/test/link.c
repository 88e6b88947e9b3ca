// SPDX-License-Identifier: Apache-2.0
//
// The smallest firmware with an RPC server, to be linked only. Its timer converts and divides as a user's does.
#include <stdint.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/platform.h>

static uint64_t pool[256];
static volatile uint32_t ticks = 7;

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  (void)num_bytes;
  (void)dev;
  *out_ptr = pool;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) {
  (void)ptr;
  (void)dev;
  return kTvmErrorNoError;
}

void TVMPlatformAbort(tvm_crt_error_t error) {
  (void)error;
  for (;;) {
  }
}

tvm_crt_error_t TVMPlatformTimerStart(void) { return kTvmErrorNoError; }

tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_seconds) {
  *elapsed_seconds = ticks / 25e6;
  return kTvmErrorNoError;
}

static ssize_t write_bytes(void* context, const uint8_t* data, size_t size_bytes) {
  (void)context;
  (void)data;
  return (ssize_t)size_bytes;
}

int main(void) {
  microtvm_rpc_server_t server = MicroTVMRpcServerInit(write_bytes, NULL);
  for (;;) {
    uint8_t byte = (uint8_t)ticks;
    uint8_t* data = &byte;
    size_t size_bytes = 1;
    (void)MicroTVMRpcServerLoop(server, &data, &size_bytes);
  }
}
