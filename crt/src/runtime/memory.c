// SPDX-License-Identifier: Apache-2.0
//
// Memory that the runtime allocates from the platform and tracks, windows on other memory, and the check whether the
// host may access an address.
#include "memory.h"

#include <string.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/platform.h>

#include "contracts.h"
#include "state.h"

static const DLDevice cpu = {kDLCPU, 0};

int boardsmith_take(size_t size_bytes, void** out) { return (int)TVMPlatformMemoryAllocate(size_bytes, cpu, out); }

int boardsmith_give(void* memory) { return (int)TVMPlatformMemoryFree(memory, cpu); }

int boardsmith_block_take(block_t** list, size_t size_bytes, size_t extra_bytes, void** out) {
  const size_t alignment = _Alignof(block_t);
  // At least one byte of padding: an allocation of 0 bytes also has an address before its block.
  const size_t at = (size_bytes + extra_bytes + alignment) & ~(alignment - 1U);
  void* base;
  int error = (int)kTvmErrorPlatformNoMemory;
  if ((size_bytes | extra_bytes) < (SIZE_MAX / 4U)) {  // no overflow in the sums
    error = boardsmith_take(at + sizeof(block_t), &base);
  }
  if (error == 0) {
    block_t* const block = (block_t*)((uintptr_t)base + at);
    CRT_ASSERT(((uintptr_t)base % alignment) == 0U);
    (void)memset(base, 0, at);
    block->next = *list;
    block->base = (uintptr_t)base;
    block->size_bytes = size_bytes;
    block->writable = 1 | boardsmith_runtime.session;
    *list = block;
    *out = base;
  }
  return error;
}

block_t** boardsmith_block_at(block_t** list, const void* address) {
  // A block follows its memory, so its address is the end of the memory.
  while ((*list != NULL) && (((uintptr_t)address < (*list)->base) || ((uintptr_t)address >= (uintptr_t)*list))) {
    list = &(*list)->next;
  }
  return list;
}

int boardsmith_block_free(block_t** link) {
  block_t* const block = *link;
  if (block == NULL) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  CRT_ASSERT((block->base + block->size_bytes) < (uintptr_t)block);  // not a window
  *link = block->next;
  return boardsmith_give((void*)block->base);
}

int boardsmith_data_allocate(size_t size_bytes, size_t alignment, void** out) {
  const size_t mask = alignment - (size_t)(alignment != 0U);
  const size_t padded_bytes = (size_bytes + mask) & ~mask;  // the padding may be used
  if (((alignment & mask) != 0U) || (padded_bytes < size_bytes)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  return boardsmith_block_take(&boardsmith_runtime.memory[MEMORY_DATA], padded_bytes, 0, out);
}

int boardsmith_data_free(const void* data, unsigned owner) {
  block_t** link = &boardsmith_runtime.memory[MEMORY_DATA];
  while ((*link != NULL) && ((*link)->base != (uintptr_t)data)) {
    link = &(*link)->next;
  }
  if ((owner == (unsigned)OWNER_SESSION) && (*link != NULL) && (((*link)->writable & OWNER_SESSION) == 0)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  return boardsmith_block_free(link);
}

int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint, void** out_data) {
  (void)dev;  // there is one memory
  (void)type_hint;
  return boardsmith_data_allocate(nbytes, alignment, out_data);
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t* shape, DLDataType dtype,
                                     const char* mem_scope, void** out_data) {
  (void)mem_scope;
  size_t size_bytes = 0;
  size_t alignment = 64;
  const int error = boardsmith_tensor_bytes(ndim, shape, dtype, &size_bytes);
  if (error != 0) {
    return error;
  }
  while (alignment < (((size_t)dtype.bits / 8U) * dtype.lanes)) {
    alignment *= 2U;
  }
  return TVMDeviceAllocDataSpace(dev, size_bytes, alignment, dtype, out_data);
}

int TVMDeviceFreeDataSpace(DLDevice dev, void* ptr) {
  (void)dev;
  return boardsmith_data_free(ptr, OWNER_ANYONE);
}

void boardsmith_window_add(boardsmith_window_t* window, void* base, size_t size_bytes, int writable) {
  boardsmith_window_t** const windows = &boardsmith_runtime.memory[MEMORY_WINDOWS];
  boardsmith_window_remove(window);
  window->next = *windows;
  window->base = (uintptr_t)base;
  window->size_bytes = size_bytes;
  window->writable = writable;
  *windows = window;
}

void boardsmith_window_remove(boardsmith_window_t* window) {
  boardsmith_window_t** link = &boardsmith_runtime.memory[MEMORY_WINDOWS];
  for (; *link != NULL; link = &(*link)->next) {
    if (*link == window) {
      *link = window->next;
      return;
    }
  }
}

int boardsmith_memory_known(const void* addr, size_t size_bytes, int writable) {
  for (unsigned i = MEMORY_ARRAYS; i < MEMORY_KINDS; i++) {
    for (const block_t* b = boardsmith_runtime.memory[i]; b != NULL; b = b->next) {
      const uintptr_t offset = (uintptr_t)addr - b->base;  // large if addr is below base
      if ((size_bytes <= b->size_bytes) && (offset <= (b->size_bytes - size_bytes)) &&
          ((writable == 0) || (b->writable != 0))) {
        return 1;
      }
    }
  }
  return 0;
}

int boardsmith_tensor_holds(const DLTensor* t, size_t size_bytes, int writable) {
  if (((t->byte_offset | size_bytes) >> 31) != 0U) {
    return 0;  // not memory, and the sum could overflow
  }
  return boardsmith_memory_known(t->data, (size_t)t->byte_offset + size_bytes, writable);
}

int boardsmith_tensor_known(const DLTensor* t, int writable) {
  size_t bytes;
  return (boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes) == 0)
             ? boardsmith_tensor_holds(t, bytes, writable)
             : 0;
}
