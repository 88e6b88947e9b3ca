// SPDX-License-Identifier: Apache-2.0
//
// Configuration of a fuzzer: the smallest packet buffer, so that messages reach its end.
#ifndef CRT_CONFIG_H_
#define CRT_CONFIG_H_

#define TVM_CRT_MAX_PACKET_SIZE_BYTES 128
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512
#define BOARDSMITH_SIGNATURES

#endif  // CRT_CONFIG_H_
