// SPDX-License-Identifier: Apache-2.0
//
// A memory manager for workspaces that are freed in reverse order.
#include <string.h>
#include <tvm/runtime/crt/stack_allocator.h>

#include "contracts.h"

#define ALIGNMENT ((size_t)(TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES))
#define TAG_BYTES sizeof(uint32_t)
#define TAG_XOR 0xabcd1234U

_Static_assert((TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES & (TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES - 1)) == 0,
               "an alignment must be a power of two");

#ifdef TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK
enum { LIFO_CHECK = 1 };
#else
enum { LIFO_CHECK = 0 };
#endif

// The tag ends an allocation: its total size, XORed with a constant.
static uint32_t tag_of(size_t total) { return (uint32_t)total ^ TAG_XOR; }

tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t* tvm_runtime_workspace, uint8_t* g_aot_memory,
                                        size_t workspace_size) {
  const size_t skip = (0U - (uintptr_t)g_aot_memory) & (ALIGNMENT - 1U);
  if (workspace_size <= skip) {
    return kTvmErrorPlatformNoMemory;
  }
  tvm_runtime_workspace->workspace = &g_aot_memory[skip];
  tvm_runtime_workspace->next_alloc = tvm_runtime_workspace->workspace;
  tvm_runtime_workspace->workspace_size = workspace_size - skip;
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t* tvm_runtime_workspace, int32_t nbytes,
                                                 void** current_alloc, uint8_t do_lifo_check) {
  tvm_workspace_t* const w = tvm_runtime_workspace;
  CRT_ASSERT((size_t)(w->next_alloc - w->workspace) <= w->workspace_size);
  const size_t left = w->workspace_size - (size_t)(w->next_alloc - w->workspace);
  const size_t tag_bytes = (do_lifo_check != 0U) ? TAG_BYTES : 0U;
  if ((nbytes < 0) || ((size_t)nbytes > left)) {
    return kTvmErrorPlatformNoMemory;
  }
  // An allocation of 0 bytes takes as much as one of 1, so that it can be freed like any other.
  const size_t bytes = (nbytes == 0) ? 1U : (size_t)nbytes;
  const size_t total = (bytes + tag_bytes + (ALIGNMENT - 1U)) & ~(ALIGNMENT - 1U);
  if (total > left) {
    return kTvmErrorPlatformNoMemory;
  }
  uint8_t* const start = w->next_alloc;
  w->next_alloc = &start[total];
  if (do_lifo_check != 0U) {
    const uint32_t tag = tag_of(total);
    (void)memcpy(&start[total - TAG_BYTES], &tag, TAG_BYTES);
  }
  *current_alloc = start;
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t* tvm_runtime_workspace, int32_t nbytes,
                                            void** current_alloc) {
  return StackMemoryManager_Allocate_Body(tvm_runtime_workspace, nbytes, current_alloc, LIFO_CHECK);
}

tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t* tvm_runtime_workspace, void* ptr, uint8_t do_lifo_check) {
  tvm_workspace_t* const w = tvm_runtime_workspace;
  const size_t in_use = (size_t)(w->next_alloc - w->workspace);
  CRT_ASSERT(in_use <= w->workspace_size);
  const size_t at = (size_t)((uintptr_t)ptr - (uintptr_t)w->workspace);
  if (at >= in_use) {
    return kTvmErrorPlatformStackAllocBadFree;
  }
  if (do_lifo_check != 0U) {
    uint32_t tag = 0;
    if ((in_use - at) < TAG_BYTES) {
      return kTvmErrorPlatformStackAllocBadFree;
    }
    (void)memcpy(&tag, &w->workspace[in_use - TAG_BYTES], TAG_BYTES);
    if (tag != tag_of(in_use - at)) {
      return kTvmErrorPlatformStackAllocBadFree;
    }
  }
  w->next_alloc = &w->workspace[at];
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t* tvm_runtime_workspace, void* ptr) {
  return StackMemoryManager_Free_Body(tvm_runtime_workspace, ptr, LIFO_CHECK);
}
