// SPDX-License-Identifier: Apache-2.0
//
// A memory manager of whole pages.
//
// The pool is a sequence of runs, each free or one live allocation. The entry of a run's first page is its length in
// pages, negative if it is in use; entries of other pages are undefined. An allocation merges the free runs that it
// passes.
#include <tvm/runtime/crt/page_allocator.h>

#include <tvm/runtime/crt/platform.h>

#include "contracts.h"

#define PAGES_MOST ((size_t)INT16_MAX)

enum {
  POOL_ALIGNMENT = 16,  // of the first page, so of every allocation
  LEAST_PAGE_LOG2 = 4
};

typedef struct manager {
  MemoryManagerInterface interface;  // must be first: users hold its address
  uint8_t* pool;
  size_t pages;
  size_t page_log2;
  size_t peak;  // pages up to the highest one that was ever in use
  int16_t runs[];
} manager_t;

// See MemoryManagerInterface.Allocate.
static tvm_crt_error_t take_pages(MemoryManagerInterface* interface, size_t num_bytes, DLDevice dev, void** out_ptr) {
  (void)dev;  // there is one memory
  manager_t* const m = (manager_t*)(void*)interface;
  int16_t* const runs = m->runs;
  // 0 bytes also take a page, so that each allocation has its own address.
  const size_t needed = ((num_bytes - (size_t)(num_bytes != 0U)) >> m->page_log2) + 1U;
  size_t at = 0;
  while (at < m->pages) {
    int pages = runs[at];
    CRT_ASSERT((pages != 0) && ((size_t)((pages < 0) ? -pages : pages) <= (m->pages - at)));
    if (pages < 0) {
      pages = -pages;
    } else {
      while (((at + (size_t)pages) < m->pages) && (runs[at + (size_t)pages] >= 0)) {
        pages += runs[at + (size_t)pages];
      }
      runs[at] = (int16_t)pages;
      if ((size_t)pages >= needed) {
        if ((size_t)pages > needed) {
          runs[at + needed] = (int16_t)(pages - (int)needed);
        }
        runs[at] = (int16_t) - (int)needed;
        if ((at + needed) > m->peak) {
          m->peak = at + needed;
        }
        interface->vleak_size++;
        *out_ptr = &m->pool[at << m->page_log2];
        return kTvmErrorNoError;
      }
    }
    at += (size_t)pages;
  }
  return kTvmErrorPlatformNoMemory;
}

// See MemoryManagerInterface.Free.
static tvm_crt_error_t give_pages(MemoryManagerInterface* interface, void* ptr, DLDevice dev) {
  (void)dev;
  manager_t* const m = (manager_t*)(void*)interface;
  const uintptr_t offset = (uintptr_t)ptr - (uintptr_t)m->pool;
  size_t at = 0;
  while (at < m->pages) {
    int16_t* const run = &m->runs[at];
    const int pages = (*run < 0) ? -*run : *run;
    CRT_ASSERT((pages != 0) && ((size_t)pages <= (m->pages - at)));
    if ((offset == ((uintptr_t)at << m->page_log2)) && (*run < 0)) {
      *run = (int16_t)pages;
      interface->vleak_size--;
      return kTvmErrorNoError;
    }
    at += (size_t)pages;
  }
  return kTvmErrorFunctionCallInvalidArg;
}

tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface** manager, uint8_t* memory_pool,
                                        size_t memory_pool_size_bytes, size_t page_size_bytes_log2) {
  const size_t skip = (0U - (uintptr_t)memory_pool) & (POOL_ALIGNMENT - 1U);
  const size_t fixed = skip + sizeof(manager_t) + _Alignof(manager_t);
  size_t log2 = (page_size_bytes_log2 < LEAST_PAGE_LOG2) ? LEAST_PAGE_LOG2 : page_size_bytes_log2;
  if ((memory_pool_size_bytes < fixed) || (log2 >= (sizeof(size_t) * 8U))) {
    return kTvmErrorPlatformNoMemory;
  }
  const size_t left = memory_pool_size_bytes - fixed;
  while ((left >> log2) > PAGES_MOST) {
    log2++;
  }
  size_t pages = left >> log2;
  while (((pages << log2) + (pages * sizeof(int16_t))) > left) {
    pages--;
  }
  if (pages == 0U) {
    return kTvmErrorPlatformNoMemory;
  }
  uint8_t* const pool = &memory_pool[skip];
  // A page is a multiple of the manager's alignment, so the manager is aligned after the last page.
  manager_t* const m = (manager_t*)(void*)&pool[pages << log2];
  m->interface.Allocate = take_pages;
  m->interface.Free = give_pages;
  m->interface.vleak_size = 0;
  m->pool = pool;
  m->pages = pages;
  m->page_log2 = log2;
  m->peak = 0;
  m->runs[0] = (int16_t)pages;
  *manager = &m->interface;
  return kTvmErrorNoError;
}

size_t PageMemoryManagerPeak(const MemoryManagerInterface* manager) {
  const manager_t* const m = (const manager_t*)(const void*)manager;
  return (m->peak << m->page_log2) + (m->peak * sizeof(int16_t)) + sizeof(manager_t) + _Alignof(manager_t);
}
