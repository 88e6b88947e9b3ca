// SPDX-License-Identifier: Apache-2.0
//
// Functions that the host looks up by name: build id, and properties of the chip.
#ifndef BOARDSMITH_ABOUT_H_
#define BOARDSMITH_ABOUT_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

// boardsmith.build_id([int nonce]) -> bytes: the build id; the CRC-32 over the nonce's 8 bytes and the image (u32; CRC
// and nonce with the least significant byte first); the chip's id. With another nonce the CRC differs.
int about_build_id_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                          void* resource_handle);

// boardsmith.platform() -> bytes: properties that the port reads from the chip at the call (boardsmith.md, "Platform").
int about_platform_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                          void* resource_handle);

// Returns how many bytes of the arena, at least, all allocations since the start needed (platform.c).
uint32_t platform_arena_used(void);

#endif  // BOARDSMITH_ABOUT_H_
