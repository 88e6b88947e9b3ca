// SPDX-License-Identifier: Apache-2.0
//
// The RPC server: bytes of one link in, calls made, bytes out.
#ifndef TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_
#define TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>  // ssize_t
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// Sends num_bytes and returns how many it sent; it may wait, but for a limited time.
// Fewer than num_bytes, or a negative number, is a broken link.
typedef ssize_t (*microtvm_rpc_channel_write_t)(void* context, const uint8_t* data, size_t num_bytes);

typedef void* microtvm_rpc_server_t;

// Starts the runtime and the server and tells the host that the device was reset.
// Memory must be ready (TVMPlatformInitialize). A failure ends in TVMPlatformAbort. There is
// one server; a second call starts it anew.
microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func, void* write_func_ctx);

// Takes *new_data_size_bytes received bytes (0 is fine: time passes) and does what
// they ask for, replies included; *new_data and *new_data_size_bytes are moved over
// what was taken. Call again while bytes are left. Never waits for input. Returns 0 or a
// framing error after which the next call goes on (kTvmErrorFramingShortPacket,
// kTvmErrorFramingInvalidEscape); kTvmErrorPlatformShutdown once the host ended the
// session for good.
tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t** new_data, size_t* new_data_size_bytes);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_MICROTVM_RPC_SERVER_H_
