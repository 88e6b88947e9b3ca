// SPDX-License-Identifier: Apache-2.0
//
// The host-driven firmware: passes bytes from the port to the RPC server and its replies back. Operators run when the
// host calls them.
#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/platform.h>

#include "about.h"
#include "crt_config.h"
#include "fault.h"
#include "port.h"
#include "samples.h"
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#include <boardsmith/upload.h>
#endif

// The server is called at least every TICK_MS until no byte has arrived for QUIET_TICKS, which is longer than the pause
// after which the server abandons a frame. Then the firmware sleeps until a byte arrives.
#define TICK_MS 10U
#define QUIET_TICKS (((BOARDSMITH_FRAME_GAP_MS) / TICK_MS) + 10U)

// ---- Functions that the host finds by name, besides the runtime's own ------------------------------------------

// Names and functions are generated from one list; crt_config.h adds the board's functions.
#ifndef BOARDSMITH_BOARD_FUNCTIONS
#define BOARDSMITH_BOARD_FUNCTIONS(X)
#endif
#if (BOARDSMITH_UPLOAD_BYTES) > 0
#define UPLOAD_FUNCTIONS(X)      \
  BOARDSMITH_UPLOAD_FUNCTIONS(X) \
  X("boardsmith.timed_interrupts", samples_interrupts_packed)
#else
#define UPLOAD_FUNCTIONS(X)
#endif
#define FUNCTIONS(X)                              \
  X("boardsmith.crc32", boardsmith_crc32_packed)  \
  X("boardsmith.build_id", about_build_id_packed) \
  X("boardsmith.fault", fault_packed)             \
  X("boardsmith.budget", fault_budget_packed)     \
  X("boardsmith.platform", about_platform_packed) \
  UPLOAD_FUNCTIONS(X)                             \
  BOARDSMITH_BOARD_FUNCTIONS(X)

#define DECLARE(name, fn) \
  int fn(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle);
#define NAME(name, fn) name "\0"
#define ENTRY(name, fn) fn,
#define ONE(name, fn) +1
BOARDSMITH_BOARD_FUNCTIONS(DECLARE)

static const struct {
  uint16_t count;
  char text[sizeof(FUNCTIONS(NAME))];  // the literal's NUL ends the list
} names = {0 FUNCTIONS(ONE), FUNCTIONS(NAME)};

static const TVMBackendPackedCFunc functions[] = {FUNCTIONS(ENTRY)};

const TVMFuncRegistry boardsmith_functions = {(const char*)&names, functions};

// ---- The loop ------------------------------------------------------------------------------------------------------

static ssize_t send_bytes(void* context, const uint8_t* data, size_t size_bytes) {
  (void)context;  // only one port
  return (boardsmith_port.send(boardsmith_port.ctx, data, (uint32_t)size_bytes) == 0) ? (ssize_t)size_bytes : -1;
}

static void flush(void) {
  if (boardsmith_port.flush(boardsmith_port.ctx) != 0) {
    boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_BROKEN, 0);
  }
}

// Passes received bytes to the server and sends its answers.
static void serve(microtvm_rpc_server_t server, uint8_t* data, size_t size_bytes) {
  size_t before;
  tvm_crt_error_t error;
  do {
    before = size_bytes;
    error = MicroTVMRpcServerLoop(server, &data, &size_bytes);
    if (error == kTvmErrorPlatformShutdown) {
      flush();
      boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_SHUTDOWN, 0);
    }
  } while ((size_bytes > 0U) && (size_bytes < before));
  fault_log();
  flush();
  if (size_bytes > 0U) {  // the server does not take the rest: unrecoverable
    TVMPlatformAbort(error);
  }
}

int main(void) {
  if (TVMPlatformInitialize() != kTvmErrorNoError) {
    TVMPlatformAbort(kTvmErrorPlatformMemoryManagerInitialized);
  }
  const microtvm_rpc_server_t server = MicroTVMRpcServerInit(send_bytes, NULL);
  flush();
  uint32_t quiet = QUIET_TICKS;
  for (;;) {
    uint8_t* data = NULL;
    const int32_t got =
        boardsmith_port.receive(boardsmith_port.ctx, &data, (quiet < QUIET_TICKS) ? TICK_MS : PORT_FOREVER);
    if (got < 0) {
      boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_CLOSED, 0);
    }
    quiet = (got > 0) ? 0U : (quiet + 1U);
    serve(server, data, (size_t)got);
  }
}
