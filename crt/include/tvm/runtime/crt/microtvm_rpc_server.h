// SPDX-License-Identifier: Apache-2.0
//
// The RPC server: receives bytes of one link, executes requests, sends replies.
#ifndef TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_
#define TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>  // ssize_t
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// Sends num_bytes and returns how many it sent. May block, but only for a limited time. A result below num_bytes means
// a broken link.
typedef ssize_t (*microtvm_rpc_channel_write_t)(void* context, const uint8_t* data, size_t num_bytes);

typedef void* microtvm_rpc_server_t;

// Starts the runtime and the server and reports a reset to the host. Call TVMPlatformInitialize first. A failure calls
// TVMPlatformAbort. There is one server; a second call restarts it.
microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func, void* write_func_ctx);

// Processes *new_data_size_bytes received bytes (call it with 0 too, for timeouts), executes the requests and replies.
// Moves *new_data and *new_data_size_bytes past the processed bytes; call again while bytes are left. Never waits for
// input. Returns 0; a framing error after which the next call continues (kTvmErrorFramingShortPacket,
// kTvmErrorFramingInvalidEscape); or kTvmErrorPlatformShutdown once the host has shut the server down.
tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t** new_data, size_t* new_data_size_bytes);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_
