// SPDX-License-Identifier: Apache-2.0
//
// Limits in crt_config.h are enforced.
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/packed_func.h>
#include <tvm/runtime/crt/stack_allocator.h>

#include "platform.h"
#include "timer.h"

static char logged[2][256];
static int log_lines;

void TVMLogf(const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)boardsmith_vformat(logged[log_lines % 2], sizeof logged[0], fmt, args);
  va_end(args);
  log_lines++;
}

static int64_t count = 10;
static const int64_t shape[1] = {1};
static const struct TVMTensorInfo infos[12] = {
    {"a", shape, 1, {kDLInt, 8, 1}}, {"b", shape, 1, {kDLInt, 8, 1}}, {"c", shape, 1, {kDLInt, 8, 1}},
    {"d", shape, 1, {kDLInt, 8, 1}}, {"e", shape, 1, {kDLInt, 8, 1}}, {"f", shape, 1, {kDLInt, 8, 1}},
    {"g", shape, 1, {kDLInt, 8, 1}}, {"h", shape, 1, {kDLInt, 8, 1}}, {"i", shape, 1, {kDLInt, 8, 1}},
    {"j", shape, 1, {kDLInt, 8, 1}}, {"k", shape, 1, {kDLInt, 8, 1}}, {"l", shape, 1, {kDLInt, 8, 1}}};
static struct TVMMetadata metadata = {1, infos, 10, NULL, 0, NULL, 0, NULL, 0, "tvmgen_m"};

static int get_metadata(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)args, (void)codes, (void)n, (void)h;
  metadata.num_inputs = count;
  r->v_handle = &metadata;
  *rc = kTVMOpaqueHandle;
  return 0;
}

static const TVMBackendPackedCFunc funcs[] = {get_metadata, get_metadata, get_metadata, get_metadata};
static const TVMFuncRegistry registry = {
    "\004\000tvmgen_m_get_c_metadata\000tvmgen_seventeen_bytes___get_c_metadata\000"
    "tvmgen_eighteen_bytes____get_c_metadata\000tvmgen_m_run\000",
    funcs};
static const TVMModule lib = {&registry};

static void test_max_args(void** state) {
  (void)state;
  TVMModuleHandle m;
  TVMAotExecutor* ex = NULL;
  platform_reset();
  assert_int_equal(TVMModCreateFromCModule(&lib, &m), 0);
  count = TVM_CRT_MAX_ARGS;
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "m"), 0);
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
  count = TVM_CRT_MAX_ARGS + 1;
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "m"), kTvmErrorFunctionCallNumArguments);
  assert_int_equal(platform_memory.count, 0);
  assert_int_equal(sizeof(((TVMArgs*)NULL)->values), 8U * TVM_CRT_MAX_ARGS);
}

// A name has to be shorter than TVM_CRT_MAX_STRLEN_FUNCTION_NAME, 40.
static void test_max_name(void** state) {
  (void)state;
  TVMModuleHandle m;
  TVMAotExecutor* ex = NULL;
  count = 1;
  platform_reset();
  assert_int_equal(strlen("tvmgen_seventeen_bytes___get_c_metadata"), 39);
  assert_int_equal(TVMModCreateFromCModule(&lib, &m), 0);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "seventeen_bytes__"), 0);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "eighteen_bytes____"), kTvmErrorFunctionCallInvalidArg);
}

static void test_max_ndim(void** state) {
  (void)state;
  const int64_t ones[7] = {1, 1, 1, 1, 1, 1, 1};
  TVMNDArray a;
  size_t bytes;
  platform_reset();
  assert_int_equal(boardsmith_tensor_bytes(7, ones, int8, &bytes), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(boardsmith_tensor_bytes(6, ones, int8, &bytes), 0);
  assert_int_equal(TVMNDArray_Empty(7, ones, int8, cpu, &a), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMNDArray_Empty(6, ones, int8, cpu, &a), 0);
}

// Three modules, so globals have module index 3.
static void test_max_modules(void** state) {
  (void)state;
  TVMModuleHandle m;
  TVMFunctionHandle f;
  TVMValue r;
  int rc;
  platform_reset();
  for (uintptr_t i = 0; i < 3U; i++) {
    assert_int_equal(TVMModCreateFromCModule(&lib, &m), 0);
    assert_ptr_equal(m, (void*)(0x8000U + i));
  }
  assert_int_equal(TVMModCreateFromCModule(&lib, &m), -1);
  assert_int_equal(TVMFuncGetGlobal("runtime.SystemLib", &f), 0);
  assert_ptr_equal(f, (void*)(uintptr_t)0x80038000U);
  assert_int_equal(TVMFuncCall((void*)(uintptr_t)0x80078000U, NULL, NULL, 0, &r, &rc), -1);
  assert_string_equal(TVMGetLastError(), "invalid handle: 80078000");
  assert_int_equal(call_global("tvm.rpc.server.GetCRTMaxPacketSize", NULL, NULL, 0, &r, &rc), 0);
  assert_int_equal(r.v_int64, 2037);  // not more than TVM's host can receive
  assert_int_equal(call_global("tvm.rpc.server.GetCRTMaxPacketSize", &r, &rc, 1, &r, &rc), 0);
  assert_int_equal(rc, kTVMArgInt);
  assert_int_equal(r.v_int64, TVM_CRT_MAX_PACKET_SIZE_BYTES - 11);  // without the limit of TVM's host
}

// 256 bytes: 13 functions with 64-bit pointers, 17 with 32-bit ones.
static void test_registry_size(void** state) {
  (void)state;
  int n = 0;
  char name[8];
  platform_reset();
  for (;;) {
    (void)snprintf(name, sizeof name, "f%d", n);
    const int error = TVMFuncRegisterGlobal(name, (TVMFunctionHandle)(uintptr_t)get_metadata, 0);
    if (error != 0) {
      assert_int_equal(error, kTvmErrorFunctionRegistryFull);
      break;
    }
    n++;
  }
  assert_int_equal(n, 256U / (11U + sizeof(void*)));
}

static void test_lifo_check(void** state) {
  (void)state;
  _Alignas(16) uint8_t memory[64];
  tvm_workspace_t w;
  void* a;
  void* b;
  assert_int_equal(StackMemoryManager_Init(&w, memory, sizeof memory), 0);
  assert_int_equal(StackMemoryManager_Allocate(&w, 12, &a), 0);
  assert_int_equal(StackMemoryManager_Allocate(&w, 12, &b), 0);
  assert_int_equal(StackMemoryManager_Free(&w, a), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free(&w, b), 0);
  assert_int_equal(StackMemoryManager_Free(&w, a), 0);
}

static void test_logging(void** state) {
  (void)state;
  log_lines = 0;
  LOG_DEBUG("debug %d", 3);
  assert_int_equal(log_lines, 1);
  assert_string_equal(logged[0], "debug 3");
  CHECK(log_lines == 1);
  CHECK_EQ(1, 1, "not said");
  CHECK_NE(1, 2, "not said %d", 1);
  CHECK_LT(1, 2, "not said");
  CHECK_LE(2, 2, "not said");
  CHECK_GT(2, 1, "not said");
  CHECK_GE(2, 2, "not said");
  assert_int_equal(log_lines, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_max_args),    cmocka_unit_test(test_max_name),      cmocka_unit_test(test_max_ndim),
      cmocka_unit_test(test_max_modules), cmocka_unit_test(test_registry_size), cmocka_unit_test(test_lifo_check),
      cmocka_unit_test(test_logging),
  };
  return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
