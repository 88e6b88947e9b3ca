// SPDX-License-Identifier: Apache-2.0
//
// What the firmware tells of itself and of the machine: functions that the host finds by name.
#ifndef BOARDSMITH_ABOUT_H_
#define BOARDSMITH_ABOUT_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

enum { BUILD_ID_BYTES = 16 };

// What names this build, in a file of its own that the build writes.
extern const uint8_t boardsmith_build_id[BUILD_ID_BYTES];

// boardsmith.build_id([int nonce]) -> bytes: the build id, the CRC-32 (u32, least significant byte first) of the nonce's 8
// bytes, likewise, and the image, then the chip's id. An answer of an earlier request has another CRC.
int about_build_id_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                          void* resource_handle);

// boardsmith.platform() -> bytes: what the port reads from the machine now (SPEC.md).
int about_platform_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                          void* resource_handle);

#endif  // BOARDSMITH_ABOUT_H_
