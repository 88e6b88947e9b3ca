// SPDX-License-Identifier: Apache-2.0
//
// The configuration of the figures in ceilings. MEASURE_PACKET_BYTES is set for the second firmware, whose buffer holds
// a whole copy.
#ifndef CRT_CONFIG_H_
#define CRT_CONFIG_H_

#ifndef MEASURE_PACKET_BYTES
#define MEASURE_PACKET_BYTES 512
#endif

#define TVM_CRT_MAX_NDIM 6
#define TVM_CRT_MAX_ARGS 10
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512
#define TVM_CRT_MAX_REGISTERED_MODULES 2
#define TVM_CRT_MAX_PACKET_SIZE_BYTES MEASURE_PACKET_BYTES
#define TVM_CRT_MAX_STRLEN_FUNCTION_NAME 120

#endif  // CRT_CONFIG_H_
