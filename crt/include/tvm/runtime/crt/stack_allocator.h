// SPDX-License-Identifier: Apache-2.0
//
// A memory manager for workspaces that are freed in reverse order: standalone AOT
// firmware behind TVMPlatformMemoryAllocate, or a single operator.
#ifndef TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>

#include "crt_config.h"

#ifdef __cplusplus
extern "C" {
#endif

// Alignment of every allocation, a power of two.
#ifndef TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES
#define TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES 16
#endif

typedef struct {
  uint8_t* next_alloc;
  uint8_t* workspace;
  size_t workspace_size;
} tvm_workspace_t;

// Uses the aligned part of g_aot_memory. Returns kTvmErrorPlatformNoMemory if it has none.
tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t* tvm_runtime_workspace, uint8_t* g_aot_memory,
                                        size_t workspace_size);

// Allocates nbytes (> 0); on kTvmErrorPlatformNoMemory *current_alloc is unchanged. With
// TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK in crt_config.h each allocation is followed by
// a tag, which costs one more unit of alignment.
tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t* tvm_runtime_workspace, int32_t nbytes,
                                            void** current_alloc);

// Frees ptr and everything allocated after it. Returns kTvmErrorPlatformStackAllocBadFree if ptr is outside the used
// part or, with the check, is not the newest allocation.
tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t* tvm_runtime_workspace, void* ptr);

// The same with the check chosen per call. All calls on one workspace must agree.
tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t* tvm_runtime_workspace, int32_t nbytes,
                                                 void** current_alloc, uint8_t do_lifo_check);
tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t* tvm_runtime_workspace, void* ptr, uint8_t do_lifo_check);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_
