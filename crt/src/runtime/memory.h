// SPDX-License-Identifier: Apache-2.0
//
// Memory that the runtime allocated from the platform and tracks, and which of it the host may access.
#ifndef BOARDSMITH_RUNTIME_MEMORY_H_
#define BOARDSMITH_RUNTIME_MEMORY_H_

#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

// Memory that the runtime allocated from the platform. The block follows the memory that it describes, so that the
// memory keeps the platform's alignment. size_bytes is the usable size; further bytes may precede the block.
typedef boardsmith_window_t block_t;

// Owner of memory, an array or a module: the session, if the runtime allocated it for a request of the host, otherwise
// the firmware. A call that frees for the session or the firmware frees only what that owner has; OWNER_ANYONE frees
// all. OWNER_SESSION is also a bit of block_t.writable.
enum { OWNER_FIRMWARE = 0, OWNER_ANYONE = 1, OWNER_SESSION = 2 };

// Kinds of memory: tables of TVMNDArray, into which handles point; arrays' data and shapes, which are freed only with
// an array or executor; device memory, which is freed by its address; windows that users registered. The host may
// access all but the first.
enum { MEMORY_TABLES, MEMORY_ARRAYS, MEMORY_DATA, MEMORY_WINDOWS, MEMORY_KINDS };

// Allocates and frees the platform's memory, for the only device.
int boardsmith_take(size_t size_bytes, void** out);
int boardsmith_give(void* memory);

// Allocates size_bytes followed by extra_bytes, and adds the block to list. The contents are zero. On
// kTvmErrorPlatformNoMemory *out is unchanged.
int boardsmith_block_take(block_t** list, size_t size_bytes, size_t extra_bytes, void** out);

// Returns the link to the block whose memory, extra bytes included, contains address; it points to NULL if there is
// none.
block_t** boardsmith_block_at(block_t** list, const void* address);

// Removes the block from its list and frees its memory; returns an error if link points to NULL.
int boardsmith_block_free(block_t** link);

// TVMDeviceAllocDataSpace for the only device.
int boardsmith_data_allocate(size_t size_bytes, size_t alignment, void** out);

// TVMDeviceFreeDataSpace, for memory of this owner.
int boardsmith_data_free(const void* data, unsigned owner);

// Returns 1 if [data, data + byte_offset + size_bytes) of the host's tensor lies in one live allocation or one window,
// a writable one if writable is not 0; else 0.
int boardsmith_tensor_holds(const DLTensor* t, size_t size_bytes, int writable);

// The same for all of the tensor's elements.
int boardsmith_tensor_known(const DLTensor* t, int writable);

// Returns the address of the first element of a known tensor.
static inline uint8_t* tensor_data(const DLTensor* t) { return &((uint8_t*)t->data)[t->byte_offset]; }

#endif  // BOARDSMITH_RUNTIME_MEMORY_H_
