// SPDX-License-Identifier: Apache-2.0
//
// Memory that the runtime took from the platform and keeps track of, and which of it the host may touch.
#ifndef BOARDSMITH_RUNTIME_MEMORY_H_
#define BOARDSMITH_RUNTIME_MEMORY_H_

#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

// Memory that the runtime took from the platform. The block stands behind the memory that it describes, so that the
// memory itself keeps the platform's alignment. size_bytes is what the taker may use freely; there may be more between
// it and the block.
typedef boardsmith_window_t block_t;

// Whose memory, an array or a module is: the session's, if the runtime took it for one of the host's requests, and
// otherwise the firmware's. A call that frees for the session or the firmware frees only what is theirs, one for anyone
// all. OWNER_SESSION is a bit of block_t.writable, too.
enum { OWNER_FIRMWARE = 0, OWNER_ANYONE = 1, OWNER_SESSION = 2 };

// Kinds of memory: tables of TVMNDArray that handles may point into; arrays' data and shapes, which are freed with an
// array or an executor and in no other way; device memory, which is freed as it was allocated; what users registered.
// The host may touch all but the first.
enum { MEMORY_TABLES, MEMORY_ARRAYS, MEMORY_DATA, MEMORY_WINDOWS, MEMORY_KINDS };

// The platform's memory, for the one device there is.
int boardsmith_take(size_t size_bytes, void** out);
int boardsmith_give(void* memory);

// Takes size_bytes, and extra_bytes behind them, and puts the block into list. The contents are zero.
// kTvmErrorPlatformNoMemory leaves *out.
int boardsmith_block_take(block_t** list, size_t size_bytes, size_t extra_bytes, void** out);

// Returns the link to the block whose memory holds address (the extra bytes too); what it points to is NULL if there is
// none.
block_t** boardsmith_block_at(block_t** list, const void* address);

// Takes the block out of its list and gives its memory back to the platform; an error if link points to NULL.
int boardsmith_block_free(block_t** link);

// TVMDeviceAllocDataSpace for the one device there is.
int boardsmith_data_allocate(size_t size_bytes, size_t alignment, void** out);

// TVMDeviceFreeDataSpace, of what is the owner's.
int boardsmith_data_free(const void* data, unsigned owner);

// Returns 1 if [data, data + byte_offset + size_bytes) of a tensor that the host describes lies in one live allocation or
// one window, a writable one if writable is not 0; else 0.
int boardsmith_tensor_holds(const DLTensor* t, size_t size_bytes, int writable);

// The same for all of the tensor's elements.
int boardsmith_tensor_known(const DLTensor* t, int writable);

// Returns where the elements begin of a tensor that is known.
static inline uint8_t* tensor_data(const DLTensor* t) { return &((uint8_t*)t->data)[t->byte_offset]; }

#endif  // BOARDSMITH_RUNTIME_MEMORY_H_
