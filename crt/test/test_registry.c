// SPDX-License-Identifier: Apache-2.0
//
// Function registries: their bytes, look-ups, and one that grows.
#include <tvm/runtime/crt/internal/common/func_registry.h>

#include "platform.h"
#include "timer.h"

static int f0(TVMValue* a, int* c, int n, TVMValue* r, int* rc, void* h) {
  (void)a, (void)c, (void)n, (void)r, (void)rc, (void)h;
  return 0;
}
static int f1(TVMValue* a, int* c, int n, TVMValue* r, int* rc, void* h) {
  (void)a, (void)c, (void)n, (void)r, (void)rc, (void)h;
  return 1;
}

static const TVMBackendPackedCFunc funcs[] = {f0, f1};
// The literal as TVM generates it: its own NUL is the last one.
static const TVMFuncRegistry two = {"\002\000add\000__tvm_main__\000", funcs};

static void test_const_registry(void** state) {
  (void)state;
  tvm_function_index_t index = 99;
  TVMBackendPackedCFunc f = NULL;
  assert_int_equal(TVMFuncRegistry_GetNumFuncs(&two), 2);
  assert_string_equal(TVMFuncRegistry_Get0thFunctionName(&two), "add");
  assert_int_equal(TVMFuncRegistry_Lookup(&two, "add", &index), kTvmErrorNoError);
  assert_int_equal(index, 0);
  assert_int_equal(TVMFuncRegistry_Lookup(&two, "__tvm_main__", &index), kTvmErrorNoError);
  assert_int_equal(index, 1);
  const char* const absent[] = {"", "ad", "add ", "addx", "__tvm_main_", "main", "%", "add%"};
  for (size_t i = 0; i < (sizeof absent / sizeof absent[0]); i++) {
    assert_int_equal(TVMFuncRegistry_Lookup(&two, absent[i], &index), kTvmErrorFunctionNameNotFound);
    assert_int_equal(index, 1);  // as it was
  }
  assert_int_equal(TVMFuncRegistry_GetByIndex(&two, 1, &f), kTvmErrorNoError);
  assert_ptr_equal(f, f1);
  assert_int_equal(TVMFuncRegistry_GetByIndex(&two, 2, &f), kTvmErrorFunctionIndexInvalid);
  assert_int_equal(TVMFuncRegistry_GetByIndex(&two, 0xffff, &f), kTvmErrorFunctionIndexInvalid);
  assert_ptr_equal(f, f1);
}

static void test_empty_registry(void** state) {
  (void)state;
  const TVMFuncRegistry none = {"\000\000", NULL};
  tvm_function_index_t index;
  TVMBackendPackedCFunc f;
  assert_int_equal(TVMFuncRegistry_GetNumFuncs(&none), 0);
  assert_string_equal(TVMFuncRegistry_Get0thFunctionName(&none), "");
  assert_int_equal(TVMFuncRegistry_Lookup(&none, "x", &index), kTvmErrorFunctionNameNotFound);
  assert_int_equal(TVMFuncRegistry_GetByIndex(&none, 0, &f), kTvmErrorFunctionIndexInvalid);
}

// The registry uses no byte outside of its buffer: AddressSanitizer guards both ends.
static void test_mutable_registry(void** state) {
  (void)state;
  const size_t bytes = 8U * TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES;  // a multiple of 8
  TVMMutableFuncRegistry reg;
  TVMBackendPackedCFunc f = NULL;
  tvm_function_index_t index;
  uint8_t* buffer = malloc(bytes);
  assert_int_equal(TVMMutableFuncRegistry_Create(&reg, buffer, TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES - 1U),
                   kTvmErrorBufferTooSmall);
  assert_int_equal(TVMMutableFuncRegistry_Create(&reg, buffer, bytes), kTvmErrorNoError);
  assert_int_equal(reg.max_functions, 8);
  assert_ptr_equal(reg.registry.names, buffer);
  assert_ptr_equal(reg.registry.funcs, &buffer[bytes - (8U * sizeof(void*))]);
  assert_int_equal(TVMFuncRegistry_GetNumFuncs(&reg.registry), 0);

  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "foo", f0, 0), kTvmErrorNoError);
  assert_memory_equal(buffer, "\001\000foo\000", 7);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "foo", f1, 0), kTvmErrorFunctionAlreadyDefined);
  assert_int_equal(TVMFuncRegistry_GetByIndex(&reg.registry, 0, &f), kTvmErrorNoError);
  assert_ptr_equal(f, f0);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "foo", f1, 1), kTvmErrorNoError);
  assert_int_equal(TVMFuncRegistry_GetByIndex(&reg.registry, 0, &f), kTvmErrorNoError);
  assert_ptr_equal(f, f1);
  assert_int_equal(TVMFuncRegistry_GetNumFuncs(&reg.registry), 1);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "", f0, 0), kTvmErrorFunctionCallInvalidArg);

  // The names' room: 88 bytes, of which 2 are the count, 4 are "foo" and 1 is the end.
  const size_t room = bytes - (8U * sizeof(void*)) - 7U;
  char* name = malloc(room + 1U);
  (void)memset(name, 'n', room);
  name[room] = '\0';
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, name, f0, 0), kTvmErrorFunctionRegistryFull);
  assert_int_equal(TVMFuncRegistry_GetNumFuncs(&reg.registry), 1);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, &name[1], f0, 0), kTvmErrorNoError);
  assert_int_equal(TVMFuncRegistry_Lookup(&reg.registry, &name[1], &index), kTvmErrorNoError);
  assert_int_equal(index, 1);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "x", f0, 0), kTvmErrorFunctionRegistryFull);
  assert_int_equal(TVMFuncRegistry_GetNumFuncs(&reg.registry), 2);
  free(name);
  free(buffer);
}

static void test_mutable_registry_count(void** state) {
  (void)state;
  uint64_t buffer[512U / 8U];
  TVMMutableFuncRegistry reg;
  assert_int_equal(TVMMutableFuncRegistry_Create(&reg, (uint8_t*)buffer, sizeof buffer), 0);
  assert_int_equal(reg.max_functions, (sizeof(void*) == 8U) ? 26 : 34);
  for (size_t i = 0; i < reg.max_functions; i++) {
    char name[4];
    (void)snprintf(name, sizeof name, "f%u", (unsigned)i);
    assert_int_equal(TVMMutableFuncRegistry_Set(&reg, name, f0, 0), kTvmErrorNoError);
  }
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "g", f0, 0), kTvmErrorFunctionRegistryFull);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "f0", f1, 1), kTvmErrorNoError);  // still replaced
}

static void test_odd_size(void** state) {
  (void)state;
  TVMMutableFuncRegistry reg;
  TVMBackendPackedCFunc f = NULL;
  for (size_t bytes = TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES; bytes < 100U; bytes++) {
    uint8_t* buffer = malloc(bytes);
    assert_int_equal(TVMMutableFuncRegistry_Create(&reg, buffer, bytes), kTvmErrorNoError);
    assert_int_equal((uintptr_t)reg.registry.funcs % sizeof(void*), 0);
    const tvm_crt_error_t error = TVMMutableFuncRegistry_Set(&reg, "f", f1, 0);
    if (error == kTvmErrorNoError) {
      assert_int_equal(TVMFuncRegistry_GetByIndex(&reg.registry, 0, &f), kTvmErrorNoError);
      assert_ptr_equal(f, f1);
    } else {
      assert_int_equal(error, kTvmErrorFunctionRegistryFull);
    }
    free(buffer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_const_registry),   cmocka_unit_test(test_empty_registry),
      cmocka_unit_test(test_mutable_registry), cmocka_unit_test(test_mutable_registry_count),
      cmocka_unit_test(test_odd_size),
  };
  (void)platform_reset;
  (void)call_global;
  (void)int8;
  (void)cpu;
  return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
