// SPDX-License-Identifier: 0BSD
//
// What the runtime is compiled with; the comments in crt/include and crt/src name the other macros.
#ifndef CRT_CONFIG_H_
#define CRT_CONFIG_H_

#define TVM_CRT_MAX_PACKET_SIZE_BYTES 512  // of the RPC server, which this program leaves out
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512

#endif  // CRT_CONFIG_H_
