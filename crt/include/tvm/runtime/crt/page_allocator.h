// SPDX-License-Identifier: Apache-2.0
//
// A memory manager for one pool of RAM.
#ifndef TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MemoryManagerInterface MemoryManagerInterface;
struct MemoryManagerInterface {
  // Allocates num_bytes; on kTvmErrorPlatformNoMemory *out_ptr is unchanged.
  tvm_crt_error_t (*Allocate)(MemoryManagerInterface* interface, size_t num_bytes, DLDevice dev, void** out_ptr);
  // Frees ptr; kTvmErrorFunctionCallInvalidArg without any change if it is not the start of a live allocation.
  tvm_crt_error_t (*Free)(MemoryManagerInterface* interface, void* ptr, DLDevice dev);
  int vleak_size;  // live allocations
};

// Makes a manager of whole pages in memory_pool, which must stay valid. A page has 2^page_size_bytes_log2 bytes, at
// least 16, and more if the pool would have over 32,767 pages. Every allocation is aligned to 16 bytes. First fit; free
// neighbours merge. The manager's state, two bytes per page and about 40 more, is at the end of the pool. Returns
// kTvmErrorPlatformNoMemory if no page is left.
tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface** manager, uint8_t* memory_pool,
                                        size_t memory_pool_size_bytes, size_t page_size_bytes_log2);

// Returns the size in bytes of the smallest aligned pool, with pages of this manager's size, in which all allocations
// so far fit.
size_t PageMemoryManagerPeak(const MemoryManagerInterface* manager);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_
