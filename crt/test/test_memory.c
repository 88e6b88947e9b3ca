// SPDX-License-Identifier: Apache-2.0
//
// Device memory, windows, workspaces, byte arrays, and both memory managers.
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/stack_allocator.h>

#include "platform.h"
#include "timer.h"

static void test_data_space(void** state) {
  (void)state;
  void* a = NULL;
  void* b = NULL;
  platform_reset();
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 100, 64, int8, &a), 0);
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 0, 0, int8, &b), 0);
  assert_ptr_equal(a, platform_memory.live[0]);  // its alignment is the platform's
  (void)memset(a, 1, 128);                       // rounded up, and all of it may be used
  assert_int_equal(boardsmith_memory_known(a, 128, 1), 1);
  assert_int_equal(boardsmith_memory_known(a, 129, 1), 0);
  assert_int_equal(boardsmith_memory_known((uint8_t*)a + 127, 1, 1), 1);
  assert_int_equal(boardsmith_memory_known((uint8_t*)a + 127, 2, 0), 0);
  assert_int_equal(boardsmith_memory_known((uint8_t*)a + 128, 0, 0), 1);
  assert_int_equal(boardsmith_memory_known((uint8_t*)a + 129, 0, 0), 0);
  assert_int_equal(boardsmith_memory_known((uint8_t*)a - 1, 1, 0), 0);
  assert_int_equal(boardsmith_memory_known((uint8_t*)a - 1, 2, 0), 0);
  assert_int_equal(boardsmith_memory_known(a, SIZE_MAX, 0), 0);
  assert_int_equal(boardsmith_memory_known((uint8_t*)a + 64, SIZE_MAX - 32U, 0), 0);
  assert_int_equal(boardsmith_memory_known(NULL, 0, 0), 0);
  assert_int_equal(boardsmith_memory_known(NULL, SIZE_MAX, 0), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, (uint8_t*)a + 1), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, NULL), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, &a), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(platform_memory.count, 2);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, a), 0);
  assert_int_equal(boardsmith_memory_known(a, 1, 0), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, a), kTvmErrorFunctionCallInvalidArg);  // twice
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, b), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_data_space_refused(void** state) {
  (void)state;
  void* a = &state;
  platform_reset();
  const size_t sizes[] = {SIZE_MAX,      SIZE_MAX - 1U,        SIZE_MAX - 63U,
                          SIZE_MAX / 2U, (SIZE_MAX / 2U) + 1U, (SIZE_MAX / 2U) - 16U};
  for (size_t i = 0; i < (sizeof sizes / sizeof sizes[0]); i++) {
    for (size_t alignment = 0; alignment <= 64U; alignment += 64U) {
      // A size whose rounding overflows is an error.
      const int want = ((alignment != 0U) && (sizes[i] > (SIZE_MAX - 63U))) ? kTvmErrorFunctionCallInvalidArg
                                                                            : kTvmErrorPlatformNoMemory;
      assert_int_equal(TVMDeviceAllocDataSpace(cpu, sizes[i], alignment, int8, &a), want);
    }
  }
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 4, 3, int8, &a), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 4, (SIZE_MAX / 2U) + 1U, int8, &a), kTvmErrorPlatformNoMemory);
  platform_memory.fail_at = platform_memory.taken;
  assert_int_equal(TVMDeviceAllocDataSpace(cpu, 4, 1, int8, &a), kTvmErrorPlatformNoMemory);
  assert_ptr_equal(a, &state);  // as it was
}

// Many allocations, freed in another order: the list stays consistent.
static void test_data_space_list(void** state) {
  (void)state;
  void* p[50];
  platform_reset();
  for (size_t i = 0; i < 50U; i++) {
    assert_int_equal(TVMDeviceAllocDataSpace(cpu, i, 1, int8, &p[i]), 0);
  }
  for (size_t i = 0; i < 50U; i++) {
    const size_t k = (i * 17U) % 50U;
    assert_int_equal(boardsmith_memory_known(p[k], k, 1), 1);
    assert_int_equal(TVMDeviceFreeDataSpace(cpu, p[k]), 0);
    for (size_t j = 0; j < 50U; j++) {
      // Which are still there follows from the order.
      const size_t turn = (j * 3U) % 50U;  // 3 * 17 = 51
      assert_int_equal(boardsmith_memory_known(p[j], j, 0), (turn > i) ? 1 : 0);
    }
  }
  assert_int_equal(platform_memory.count, 0);
}

static void test_with_scope(void** state) {
  (void)state;
  const int64_t shape[3] = {2, 3, 5};
  const int64_t bad[2] = {2, -1};
  const int64_t huge[3] = {1LL << 31, 1LL << 31, 1LL << 31};
  const DLDataType wide = {kDLFloat, 64, 16};  // 128 bytes an element
  void* a = NULL;
  platform_reset();
  assert_int_equal(TVMDeviceAllocDataSpaceWithScope(cpu, 3, shape, int8, "global", &a), 0);
  assert_int_equal(boardsmith_memory_known(a, 64, 1), 1);  // 30, rounded up
  assert_int_equal(boardsmith_memory_known(a, 65, 1), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, a), 0);
  assert_int_equal(TVMDeviceAllocDataSpaceWithScope(cpu, 0, NULL, wide, NULL, &a), 0);
  assert_int_equal(boardsmith_memory_known(a, 128, 1), 1);
  assert_int_equal(TVMDeviceFreeDataSpace(cpu, a), 0);
  assert_int_equal(TVMDeviceAllocDataSpaceWithScope(cpu, 2, bad, int8, NULL, &a), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMDeviceAllocDataSpaceWithScope(cpu, 3, huge, int8, NULL, &a), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(platform_memory.count, 0);
}

static void test_windows(void** state) {
  (void)state;
  uint8_t memory[64];
  boardsmith_window_t w;
  boardsmith_window_t ro;
  platform_reset();
  boardsmith_window_add(&w, memory, 32, 1);
  boardsmith_window_add(&ro, &memory[32], 32, 0);
  assert_int_equal(boardsmith_memory_known(memory, 32, 1), 1);
  assert_int_equal(boardsmith_memory_known(memory, 33, 0), 0);  // not across two windows
  assert_int_equal(boardsmith_memory_known(&memory[32], 32, 0), 1);
  assert_int_equal(boardsmith_memory_known(&memory[40], 1, 1), 0);  // read-only
  assert_int_equal(TVMInitializeRuntime(), 0);
  assert_int_equal(boardsmith_memory_known(memory, 32, 1), 1);  // their owners registered them
  boardsmith_window_add(&w, memory, 64, 1);                     // moved
  assert_int_equal(boardsmith_memory_known(memory, 64, 1), 1);
  boardsmith_window_remove(&w);
  boardsmith_window_remove(&w);
  assert_int_equal(boardsmith_memory_known(memory, 1, 1), 0);
  assert_int_equal(boardsmith_memory_known(&memory[32], 1, 0), 1);
  boardsmith_window_remove(&ro);
  assert_int_equal(boardsmith_memory_known(&memory[32], 1, 0), 0);
}

static int parallel_calls;
static int parallel_task(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  assert_int_equal(task_id, 0);
  assert_int_equal(env->num_task, 1);
  assert_ptr_equal(cdata, &parallel_calls);
  parallel_calls++;
  return 5;
}

static void test_backend(void** state) {
  (void)state;
  platform_reset();
  void* a = TVMBackendAllocWorkspace(1, 0, 100, 2, 32);
  assert_non_null(a);
  assert_int_equal(TVMBackendFreeWorkspace(1, 0, a), 0);
  assert_int_not_equal(TVMBackendFreeWorkspace(1, 0, a), 0);
  assert_null(TVMBackendAllocWorkspace(1, 0, UINT64_MAX, 0, 8));
  assert_string_equal(TVMGetLastError(), "out of workspace memory");
  assert_null(TVMBackendAllocWorkspace(1, 0, 1ULL << 32, 0, 8));
  platform_memory.fail_at = platform_memory.taken;
  assert_null(TVMBackendAllocWorkspace(1, 0, 8, 0, 8));
  assert_int_equal(TVMBackendParallelLaunch(parallel_task, &parallel_calls, 4), 0);
  assert_int_equal(parallel_calls, 1);
}

static void test_byte_array(void** state) {
  (void)state;
  void* array = NULL;
  void* data = NULL;
  static TVMByteArray constant = {"abc", 3};
  platform_reset();
  assert_int_equal(TVMPlatformMemoryAllocate(sizeof(TVMByteArray), cpu, &array), 0);
  assert_int_equal(TVMPlatformMemoryAllocate(10, cpu, &data), 0);
  ((TVMByteArray*)array)->data = data;
  ((TVMByteArray*)array)->size = 10;
  assert_int_equal(TVMByteArrayFree(array), 0);
  assert_int_equal(platform_memory.count, 0);
  // Array and bytes in one allocation.
  assert_int_equal(TVMPlatformMemoryAllocate(sizeof(TVMByteArray) + 10U, cpu, &array), 0);
  ((TVMByteArray*)array)->data = (const char*)array + sizeof(TVMByteArray);
  assert_int_equal(TVMByteArrayFree(array), 0);
  assert_int_equal(platform_memory.count, 0);
  assert_int_not_equal(TVMByteArrayFree(&constant), 0);  // reported, not crashed
}

// ---- Pages --------------------------------------------------------------------------------------

enum { POOL = 8192 };

static MemoryManagerInterface* pages(uint8_t* pool, size_t size, size_t log2) {
  MemoryManagerInterface* m = NULL;
  assert_int_equal(PageMemoryManagerCreate(&m, pool, size, log2), kTvmErrorNoError);
  assert_int_equal(m->vleak_size, 0);
  return m;
}

// Takes single pages until there is none left; returns how many there were.
static size_t take_all(MemoryManagerInterface* m, size_t bytes, void** out) {
  size_t n = 0;
  while (m->Allocate(m, bytes, cpu, &out[n]) == kTvmErrorNoError) {
    (void)memset(out[n], 0x11, bytes);
    n++;
  }
  return n;
}

static void test_pages_exhaustion(void** state) {
  (void)state;
  uint8_t* pool = malloc(POOL);
  void* p[64];
  MemoryManagerInterface* m = pages(pool, POOL, 8);
  void* untouched = &p;
  const size_t n = take_all(m, 256, p);
  assert_in_range(n, 30, 31);  // 32 less what the manager needs
  assert_int_equal(m->vleak_size, (int)n);
  assert_int_equal(m->Allocate(m, 1, cpu, &untouched), kTvmErrorPlatformNoMemory);
  assert_ptr_equal(untouched, &p);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal((uintptr_t)p[i] % 16U, 0);
    for (size_t j = 0; j < i; j++) {
      assert_ptr_not_equal(p[i], p[j]);
    }
  }
  // Freed in an odd order, all of it is one run again.
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(m->Free(m, p[(i * 7U) % n], cpu), kTvmErrorNoError);
  }
  assert_int_equal(m->vleak_size, 0);
  assert_int_equal(m->Allocate(m, 256U * n, cpu, &p[0]), kTvmErrorNoError);
  (void)memset(p[0], 1, 256U * n);
  assert_int_equal(m->Free(m, p[0], cpu), kTvmErrorNoError);
  assert_int_equal(m->Allocate(m, (256U * n) + 1U, cpu, &p[0]), kTvmErrorPlatformNoMemory);
  free(pool);
}

static void test_pages_first_fit(void** state) {
  (void)state;
  uint8_t* pool = malloc(POOL);
  MemoryManagerInterface* m = pages(pool, POOL, 8);
  void* a;
  void* b;
  void* c;
  void* d;
  assert_int_equal(m->Allocate(m, 1000, cpu, &a), 0);  // 4 pages
  assert_int_equal(m->Allocate(m, 1, cpu, &b), 0);
  assert_ptr_equal(b, (uint8_t*)a + 1024);
  // The peak is 5 pages: in a pool of that size these two fit, and in one byte less they do not.
  const size_t peak = PageMemoryManagerPeak(m);
  uint8_t* small = aligned_alloc(16, 2048);
  MemoryManagerInterface* exact = pages(small, peak, 8);
  assert_int_equal(exact->Allocate(exact, 1000, cpu, &c), 0);
  assert_int_equal(exact->Allocate(exact, 1, cpu, &c), 0);
  exact = pages(small, peak - 1U, 8);
  assert_int_equal(exact->Allocate(exact, 1000, cpu, &c), 0);
  assert_int_equal(exact->Allocate(exact, 1, cpu, &c), kTvmErrorPlatformNoMemory);
  free(small);
  assert_int_equal(m->Free(m, a, cpu), 0);
  assert_int_equal(m->Allocate(m, 257, cpu, &c), 0);  // 2 of the 4
  assert_ptr_equal(c, a);
  assert_int_equal(m->Allocate(m, 512, cpu, &d), 0);  // the other 2
  assert_ptr_equal(d, (uint8_t*)a + 512);
  assert_int_equal(m->Allocate(m, 0, cpu, &a), 0);  // 0 bytes also take a page
  assert_ptr_equal(a, (uint8_t*)b + 256);
  assert_int_equal(PageMemoryManagerPeak(m), peak + 258U);
  assert_int_equal(m->Allocate(m, SIZE_MAX, cpu, &a), kTvmErrorPlatformNoMemory);
  assert_int_equal(m->Allocate(m, SIZE_MAX - 255U, cpu, &a), kTvmErrorPlatformNoMemory);
  free(pool);
}

static void test_pages_bad_free(void** state) {
  (void)state;
  uint8_t* pool = malloc(POOL);
  MemoryManagerInterface* m = pages(pool, POOL, 8);
  void* a;
  void* b;
  assert_int_equal(m->Allocate(m, 600, cpu, &a), 0);
  assert_int_equal(m->Allocate(m, 1, cpu, &b), 0);
  uint8_t* const bad[] = {NULL,        (uint8_t*)a + 1, (uint8_t*)a + 256,    (uint8_t*)a - 256, (uint8_t*)b + 256,
                          pool + POOL, (uint8_t*)&pool, (uint8_t*)UINTPTR_MAX};
  for (size_t i = 0; i < (sizeof bad / sizeof bad[0]); i++) {
    assert_int_equal(m->Free(m, bad[i], cpu), kTvmErrorFunctionCallInvalidArg);
  }
  assert_int_equal(m->vleak_size, 2);
  assert_int_equal(m->Free(m, a, cpu), 0);
  assert_int_equal(m->Free(m, a, cpu), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(m->Free(m, b, cpu), 0);
  assert_int_equal(m->vleak_size, 0);
  free(pool);
}

// Every size of pool and page, at every alignment: all pages lie in it and can be used.
static void test_pages_any_pool(void** state) {
  (void)state;
  void* p[256];
  for (size_t size = 0; size < 700U; size += 7U) {
    for (size_t log2 = 0; log2 < 10U; log2 += 3U) {
      uint8_t* block = malloc(size + 8U);
      uint8_t* pool = &block[size % 2U * 8U];
      MemoryManagerInterface* m = NULL;
      if (PageMemoryManagerCreate(&m, pool, size, log2) == kTvmErrorNoError) {
        const size_t page = (size_t)1 << ((log2 < 4U) ? 4U : log2);
        assert_true(take_all(m, page, p) >= 1U);
      } else {
        assert_null(m);
        assert_true(size < (((size_t)1 << ((log2 < 4U) ? 4U : log2)) + 100U));
      }
      free(block);
    }
  }
  MemoryManagerInterface* m = NULL;
  uint64_t small[16];
  for (size_t log2 = 7; log2 < 200U; log2++) {
    assert_int_equal(PageMemoryManagerCreate(&m, (uint8_t*)small, sizeof small, log2), kTvmErrorPlatformNoMemory);
  }
}

// Nearly all of a large pool can be allocated, in larger pages if necessary.
static void test_pages_large_pool(void** state) {
  (void)state;
  const size_t size = (size_t)32 << 20;
  uint8_t* pool = malloc(size);
  MemoryManagerInterface* m = pages(pool, size, 8);
  void* p = NULL;
  assert_int_equal(m->Allocate(m, size - (size >> 6), cpu, &p), 0);
  ((uint8_t*)p)[size - (size >> 6) - 1U] = 1;
  assert_int_equal(m->Free(m, p, cpu), 0);
  free(pool);
}

// Random allocations and frees, compared with a model.
static void test_pages_random(void** state) {
  (void)state;
  uint8_t* pool = malloc(POOL);
  MemoryManagerInterface* m = pages(pool, POOL, 6);
  uint8_t* p[40] = {NULL};
  size_t size[40];
  uint32_t r = 12345;
  for (int step = 0; step < 20000; step++) {
    r = (r * 1664525U) + 1013904223U;
    const size_t i = (r >> 8) % 40U;
    if (p[i] == NULL) {
      size[i] = (r >> 16) % 900U;
      void* out = NULL;
      if (m->Allocate(m, size[i], cpu, &out) == kTvmErrorNoError) {
        p[i] = out;
        (void)memset(out, (int)i, size[i]);
      }
    } else {
      for (size_t k = 0; k < size[i]; k++) {
        assert_int_equal(p[i][k], i);
      }
      assert_int_equal(m->Free(m, p[i], cpu), 0);
      p[i] = NULL;
    }
  }
  free(pool);
}

// ---- Stack --------------------------------------------------------------------------------------

static void test_stack(void** state) {
  (void)state;
  uint64_t memory[32];
  tvm_workspace_t w;
  void* a = NULL;
  void* b = NULL;
  void* c = &w;
  uint8_t* start = (uint8_t*)memory + 1;
  assert_int_equal(StackMemoryManager_Init(&w, start, 200), 0);
  assert_int_equal((uintptr_t)w.workspace % 16U, 0);
  assert_ptr_equal(w.next_alloc, w.workspace);
  assert_int_equal(w.workspace_size, 200U - (size_t)(w.workspace - start));
  assert_int_equal(StackMemoryManager_Allocate(&w, 1, &a), 0);
  assert_int_equal(StackMemoryManager_Allocate(&w, 17, &b), 0);
  assert_ptr_equal(b, (uint8_t*)a + 16);
  assert_ptr_equal(w.next_alloc, (uint8_t*)b + 32);
  for (uint8_t lifo_check = 0; lifo_check < 2U; lifo_check++) {  // 0 bytes are an allocation of their own
    void* none = NULL;
    assert_int_equal(StackMemoryManager_Allocate_Body(&w, 0, &none, lifo_check), 0);
    assert_ptr_equal(none, (uint8_t*)b + 32);
    assert_int_equal(StackMemoryManager_Free_Body(&w, none, lifo_check), 0);
    assert_int_equal(StackMemoryManager_Free_Body(&w, none, lifo_check), kTvmErrorPlatformStackAllocBadFree);
  }
  assert_int_equal(StackMemoryManager_Allocate(&w, -1, &c), kTvmErrorPlatformNoMemory);
  assert_int_equal(StackMemoryManager_Allocate(&w, INT32_MAX, &c), kTvmErrorPlatformNoMemory);
  assert_int_equal(StackMemoryManager_Allocate(&w, 200, &c), kTvmErrorPlatformNoMemory);
  assert_ptr_equal(c, &w);
  assert_int_equal(StackMemoryManager_Free(&w, (uint8_t*)b + 32), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free(&w, (uint8_t*)a - 1), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free(&w, NULL), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free(&w, b), 0);
  assert_int_equal(StackMemoryManager_Free(&w, b), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free(&w, a), 0);
  int n = 0;
  while (StackMemoryManager_Allocate(&w, 16, &c) == kTvmErrorNoError) {
    (void)memset(c, 1, 16);
    n++;
  }
  assert_in_range(n, 11, 12);
  assert_int_equal(StackMemoryManager_Init(&w, start, 1), kTvmErrorPlatformNoMemory);
  assert_int_equal(StackMemoryManager_Init(&w, start, 0), kTvmErrorPlatformNoMemory);
}

static void test_stack_lifo(void** state) {
  (void)state;
  _Alignas(16) uint8_t memory[256];
  tvm_workspace_t w;
  void* a;
  void* b;
  void* c;
  uint32_t tag;
  assert_int_equal(StackMemoryManager_Init(&w, memory, sizeof memory), 0);
  assert_int_equal(StackMemoryManager_Allocate_Body(&w, 16, &a, 1), 0);  // 16 and a tag: 32
  assert_ptr_equal(w.next_alloc, &memory[32]);
  (void)memcpy(&tag, &memory[28], 4);
  assert_int_equal(tag, 32U ^ 0xabcd1234U);
  assert_int_equal(StackMemoryManager_Allocate_Body(&w, 12, &b, 1), 0);  // the tag fits
  assert_ptr_equal(w.next_alloc, &memory[48]);
  assert_int_equal(StackMemoryManager_Free_Body(&w, a, 1), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free_Body(&w, &memory[46], 1), kTvmErrorPlatformStackAllocBadFree);
  assert_ptr_equal(w.next_alloc, &memory[48]);
  assert_int_equal(StackMemoryManager_Free_Body(&w, b, 1), 0);
  assert_int_equal(StackMemoryManager_Free_Body(&w, b, 1), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free_Body(&w, a, 1), 0);
  assert_int_equal(StackMemoryManager_Allocate_Body(&w, 253, &c, 1), kTvmErrorPlatformNoMemory);
  assert_int_equal(StackMemoryManager_Allocate_Body(&w, 252, &c, 1), 0);
  (void)memset(c, 1, 252);
  assert_int_equal(StackMemoryManager_Free_Body(&w, c, 1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_data_space),      cmocka_unit_test(test_data_space_refused),
      cmocka_unit_test(test_data_space_list), cmocka_unit_test(test_with_scope),
      cmocka_unit_test(test_windows),         cmocka_unit_test(test_backend),
      cmocka_unit_test(test_byte_array),      cmocka_unit_test(test_pages_exhaustion),
      cmocka_unit_test(test_pages_first_fit), cmocka_unit_test(test_pages_bad_free),
      cmocka_unit_test(test_pages_any_pool),  cmocka_unit_test(test_pages_large_pool),
      cmocka_unit_test(test_pages_random),    cmocka_unit_test(test_stack),
      cmocka_unit_test(test_stack_lifo),
  };
  (void)call_global;
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
