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
  // Gives num_bytes; kTvmErrorPlatformNoMemory leaves *out_ptr.
  tvm_crt_error_t (*Allocate)(MemoryManagerInterface* interface, size_t num_bytes, DLDevice dev, void** out_ptr);
  // Takes ptr back; kTvmErrorFunctionCallInvalidArg, and nothing changes, if it is
  // not the start of a live allocation.
  tvm_crt_error_t (*Free)(MemoryManagerInterface* interface, void* ptr, DLDevice dev);
  int vleak_size;  // live allocations
};

// Makes a manager of whole pages out of memory_pool, which must stay. A page has
// 2^page_size_bytes_log2 bytes, 16 at least, and more where a pool would have over 32,767 of them. Every
// allocation is aligned to 16 bytes. First fit; free neighbours merge. The manager's own
// state, two bytes per page and about 40 more, lies at the end of the pool.
// kTvmErrorPlatformNoMemory if not one page is left.
tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface** manager, uint8_t* memory_pool,
                                        size_t memory_pool_size_bytes, size_t page_size_bytes_log2);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_
