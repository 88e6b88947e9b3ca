// SPDX-License-Identifier: Apache-2.0
//
// Modules, global functions, handles, calls, the last error.
#include <tvm/runtime/crt/packed_func.h>

#include "platform.h"
#include "timer.h"

static int seen_args;
static void* seen_resource;

static int count_args(TVMValue* a, int* c, int n, TVMValue* r, int* rc, void* h) {
  (void)a, (void)c;
  seen_args = n;
  seen_resource = h;
  assert_null(r->v_handle);
  assert_int_equal(*rc, kTVMNullptr);
  return 0;
}
static int answer_42(TVMValue* a, int* c, int n, TVMValue* r, int* rc, void* h) {
  (void)a, (void)c, (void)n, (void)h;
  r->v_int64 = 42;
  *rc = kTVMArgInt;
  return 0;
}
static int fails(TVMValue* a, int* c, int n, TVMValue* r, int* rc, void* h) {
  (void)a, (void)c, (void)n, (void)r, (void)rc, (void)h;
  return 0x1234;
}

static const TVMBackendPackedCFunc funcs[] = {count_args, answer_42, fails};
static const TVMFuncRegistry lib_registry = {"\003\000count\000answer\000fails\000", funcs};
static const TVMModule lib = {&lib_registry};
static const TVMModule other = {&lib_registry};
const TVMModule* TVMSystemLibEntryPoint(void) { return &lib; }

static const TVMBackendPackedCFunc flash_funcs[] = {answer_42, NULL};
const TVMFuncRegistry boardsmith_functions = {"\002\000in.flash\000left.out\000", flash_funcs};

#define H(x) ((void*)(uintptr_t)(x))

static TVMModuleHandle system_lib(void) {
  TVMValue r;
  int rc;
  assert_int_equal(call_global("runtime.SystemLib", NULL, NULL, 0, &r, &rc), 0);
  assert_int_equal(rc, kTVMModuleHandle);
  return r.v_handle;
}

static void test_global_handles(void** state) {
  (void)state;
  platform_reset();
  static const char* const names[] = {"runtime.SystemLib",
                                      "tvm.rpc.server.ModuleGetFunction",
                                      "runtime.RPCTimeEvaluator",
                                      "tvm.rpc.server.GetCRTMaxPacketSize",
                                      "tvm.contrib.random.random_fill",
                                      "tvm.aot_executor.create",
                                      "in.flash"};
  TVMFunctionHandle h = H(1);
  for (size_t i = 0; i < (sizeof names / sizeof names[0]); i++) {
    assert_int_equal(TVMFuncGetGlobal(names[i], &h), 0);
    // The wire's example: 0x80028000 is runtime.SystemLib. The firmware's own functions count by themselves.
    assert_ptr_equal(h, H((i < 6U) ? (0x80028000U + i) : 0x80038000U));
  }
  assert_int_equal(TVMFuncGetGlobal("no.such", &h), 0);
  assert_null(h);
  assert_int_equal(TVMFuncFree(H(0x80028000U)), 0);
  assert_int_equal(platform_memory.taken, 0);  // nothing of this costs memory
}

static void test_register(void** state) {
  (void)state;
  TVMValue r;
  int rc;
  TVMFunctionHandle h;
  platform_reset();
  assert_int_equal(TVMFuncRegisterGlobal("mine", H(count_args), 0), 0);
  assert_int_equal(platform_memory.taken, 1);
  assert_int_equal(TVMFuncGetGlobal("mine", &h), 0);
  assert_ptr_equal(h, H(0x80048000U));
  assert_int_equal(TVMFuncRegisterGlobal("mine", H(answer_42), 0), kTvmErrorFunctionAlreadyDefined);
  assert_int_equal(call_global("mine", NULL, NULL, 7, &r, &rc), 0);
  assert_int_equal(seen_args, 7);
  assert_null(seen_resource);  // a global function has no registry
  assert_int_equal(TVMFuncRegisterGlobal("mine", H(answer_42), 1), 0);
  assert_int_equal(call_global("mine", NULL, NULL, 0, &r, &rc), 0);
  assert_int_equal(r.v_int64, 42);

  // Names in flash are known, too; an override hides them.
  assert_int_equal(TVMFuncRegisterGlobal("runtime.SystemLib", H(answer_42), 0), kTvmErrorFunctionAlreadyDefined);
  assert_int_equal(TVMFuncRegisterGlobal("in.flash", H(fails), 0), kTvmErrorFunctionAlreadyDefined);
  assert_int_equal(TVMFuncRegisterGlobal("in.flash", H(fails), 1), 0);
  assert_int_equal(call_global("in.flash", NULL, NULL, 0, &r, &rc), 0x1234);

  assert_int_equal(TVMBackendRegisterSystemLibSymbol("symbol", H(answer_42)), 0);
  assert_int_equal(TVMBackendRegisterSystemLibSymbol("symbol", H(answer_42)), kTvmErrorFunctionAlreadyDefined);
  char name[600];
  (void)memset(name, 'x', sizeof name);
  name[599] = '\0';
  assert_int_equal(TVMFuncRegisterGlobal(name, H(fails), 0), kTvmErrorFunctionRegistryFull);

  platform_reset();
  assert_int_equal(TVMFuncGetGlobal("mine", &h), 0);
  assert_null(h);  // a new runtime has forgotten it
  platform_memory.fail_at = 0;
  assert_int_equal(TVMFuncRegisterGlobal("mine", H(answer_42), 0), kTvmErrorPlatformNoMemory);
  assert_int_equal(TVMFuncRegisterGlobal("mine", H(answer_42), 0), 0);
}

static void test_modules(void** state) {
  (void)state;
  TVMModuleHandle a;
  TVMModuleHandle b;
  TVMModuleHandle c = H(5);
  TVMFunctionHandle f = NULL;
  TVMValue r;
  int rc;
  platform_reset();
  a = system_lib();
  assert_ptr_equal(a, H(0x8000));
  assert_ptr_equal(system_lib(), a);
  assert_int_equal(TVMModCreateFromCModule(&other, &b), 0);
  assert_ptr_equal(b, H(0x8001));
  assert_int_equal(TVMModCreateFromCModule(&other, &c), -1);
  assert_ptr_equal(c, H(5));
  assert_string_equal(TVMGetLastError(), "no free module slot");

  assert_int_equal(TVMModGetFunction(b, "answer", 1, &f), 0);
  assert_ptr_equal(f, H(0x80018001U));
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 0, &r, &rc), 0);
  assert_int_equal(r.v_int64, 42);
  assert_int_equal(rc, kTVMArgInt);
  assert_int_equal(TVMModGetFunction(b, "count", 0, &f), 0);
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 3, &r, &rc), 0);
  assert_ptr_equal(seen_resource, &lib_registry);
  assert_int_equal(rc, kTVMNullptr);
  assert_int_equal(TVMModGetFunction(b, "fails", 0, &f), 0);
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 3, &r, &rc), 0x1234);

  f = H(9);
  assert_int_equal(TVMModGetFunction(b, "absent", 0, &f), kTvmErrorFunctionNameNotFound);
  assert_ptr_equal(f, H(9));
  assert_int_equal(TVMModGetFunction(b, "", 0, &f), kTvmErrorFunctionNameNotFound);

  assert_int_equal(TVMModFree(a), 0);  // the system library stays
  assert_int_equal(TVMModGetFunction(a, "answer", 0, &f), 0);
  assert_int_equal(TVMModFree(b), 0);
  assert_int_equal(TVMModFree(b), -1);
  assert_string_equal(TVMGetLastError(), "invalid handle: 00008001");
  assert_int_equal(TVMModGetFunction(b, "answer", 0, &f), -1);
  assert_int_equal(TVMModCreateFromCModule(&other, &c), 0);
  assert_ptr_equal(c, H(0x8001));
}

static void expect_bad_call(uintptr_t handle) {
  TVMValue r;
  int rc = 77;
  char text[32];
  TVMAPISetLastError("");
  assert_int_equal(TVMFuncCall(H(handle), NULL, NULL, 0, &r, &rc), -1);
  (void)snprintf(text, sizeof text, "invalid handle: %08x", (unsigned)handle);
  assert_string_equal(TVMGetLastError(), text);
}

// A function of the table that the image does not have, as the AOT executor's where a linker took it out of the
// archive.
static void test_left_out(void** state) {
  (void)state;
  TVMValue r;
  int rc;
  TVMFunctionHandle f = NULL;
  platform_reset();
  assert_int_equal(TVMFuncGetGlobal("left.out", &f), 0);
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 0, &r, &rc), -1);
}

static void test_bad_handles(void** state) {
  (void)state;
  TVMFunctionHandle f;
  platform_reset();
  assert_ptr_equal(system_lib(), H(0x8000));
  expect_bad_call(0x80008003U);
  expect_bad_call(0x8000ffffU);
  expect_bad_call(0x80028006U);
  expect_bad_call(0x80038001U);
  expect_bad_call(0x80048000U);  // nothing registered yet
  expect_bad_call(0x80018000U);
  expect_bad_call(0x80068000U);
  expect_bad_call(0xfffe8000U);
  // Handles without their valid bits are invalid, null for instance.
  TVMValue r;
  int rc;
  const uintptr_t bad[] = {
    0,
    1,
    0x8000U,
    0x80000000U,
    0x00008000U,
    0x00018001U,
    0x80008000U ^ 0x8000U,
#if UINTPTR_MAX > 0xffffffffU
    0x180008000U,
    0xffffffff80008000U,
#endif
    UINTPTR_MAX
  };
  for (size_t i = 0; i < (sizeof bad / sizeof bad[0]); i++) {
    assert_int_not_equal(TVMFuncCall(H(bad[i]), NULL, NULL, 0, &r, &rc), 0);
  }
  const uintptr_t bad_modules[] = {0, 1, 0x7fffU, 0x8001U, 0x8002U, 0x8003U, 0xffffU, 0x18000U, UINTPTR_MAX};
  for (size_t i = 0; i < (sizeof bad_modules / sizeof bad_modules[0]); i++) {
    assert_int_equal(TVMModFree(H(bad_modules[i])), -1);
    assert_int_equal(TVMModGetFunction(H(bad_modules[i]), "answer", 0, &f), -1);
  }
  assert_int_equal(TVMModFree(H(0x8002)), -1);
  assert_string_equal(TVMGetLastError(), "invalid handle: 00008002");
}

static void test_module_get_function(void** state) {
  (void)state;
  TVMValue args[3];
  int codes[3] = {kTVMModuleHandle, kTVMStr, kTVMArgInt};
  TVMValue r;
  int rc;
  platform_reset();
  args[0].v_handle = system_lib();
  args[1].v_str = "answer";
  args[2].v_int64 = 1;
  assert_int_equal(call_global("tvm.rpc.server.ModuleGetFunction", args, codes, 3, &r, &rc), 0);
  assert_int_equal(rc, kTVMPackedFuncHandle);
  assert_ptr_equal(r.v_handle, H(0x80008001U));
  args[1].v_str = "absent";
  assert_int_equal(call_global("tvm.rpc.server.ModuleGetFunction", args, codes, 3, &r, &rc), 0);
  assert_int_equal(rc, kTVMNullptr);
  args[1].v_str = "answer";
  for (int i = 0; i < 3; i++) {
    const int right = codes[i];
    codes[i] = kTVMOpaqueHandle;
    assert_int_equal(call_global("tvm.rpc.server.ModuleGetFunction", args, codes, 3, &r, &rc), 0);
    assert_int_equal(rc, kTVMNullptr);
    codes[i] = right;
  }
  assert_int_equal(call_global("tvm.rpc.server.ModuleGetFunction", args, codes, 2, &r, &rc), 0);
  assert_int_equal(rc, kTVMNullptr);
  args[0].v_handle = H(0x8001);
  assert_int_equal(call_global("tvm.rpc.server.ModuleGetFunction", args, codes, 3, &r, &rc), 0);
  assert_int_equal(rc, kTVMNullptr);
}

static void test_packet_size(void** state) {
  (void)state;
  TVMValue r;
  int rc;
  platform_reset();
  assert_int_equal(call_global("tvm.rpc.server.GetCRTMaxPacketSize", NULL, NULL, 0, &r, &rc), 0);
  assert_int_equal(rc, kTVMArgInt);
  assert_int_equal(r.v_int64, TVM_CRT_MAX_PACKET_SIZE_BYTES - 11);
}

static void test_system_lib_without_slot(void** state) {
  (void)state;
  TVMModuleHandle h;
  TVMValue r;
  int rc;
  platform_reset();
  assert_int_equal(TVMModCreateFromCModule(&other, &h), 0);
  assert_int_equal(TVMModCreateFromCModule(&other, &h), 0);
  assert_int_equal(call_global("runtime.SystemLib", NULL, NULL, 0, &r, &rc), -1);
  assert_int_equal(rc, kTVMNullptr);
  assert_int_equal(TVMModFree(h), 0);
  assert_ptr_equal(system_lib(), h);
}

static void test_last_error(void** state) {
  (void)state;
  char text[300];
  (void)memset(text, 'e', sizeof text);
  text[299] = '\0';
  TVMAPISetLastError("one");
  assert_string_equal(TVMGetLastError(), "one");
  TVMAPISetLastError(TVMGetLastError());
  assert_string_equal(TVMGetLastError(), "one");
  TVMAPIErrorf("%s %d %08x", "two", -2, 0xabcU);
  assert_string_equal(TVMGetLastError(), "two -2 00000abc");
  TVMAPISetLastError(text);
  assert_int_equal(strlen(TVMGetLastError()), 127);
  TVMAPISetLastError("");
  assert_string_equal(TVMGetLastError(), "");
  TVMAPIErrorf("%s", text);
  assert_int_equal(strlen(TVMGetLastError()), 127);
}

static void test_packed_func(void** state) {
  (void)state;
  TVMPackedFunc pf;
  TVMValue values[12];
  uint32_t codes[12] = {0};
  (void)memset(values, 0, sizeof values);
  platform_reset();
  TVMArgs args = TVMArgs_Create(values, codes, 2);
  assert_int_equal(TVMPackedFunc_InitGlobalFunc(&pf, "no.such", &args), kTvmErrorFunctionNameNotFound);
  assert_int_equal(TVMPackedFunc_InitGlobalFunc(&pf, "in.flash", &args), 0);
  pf.Call(&pf);
  assert_int_equal(pf.status, 0);
  assert_int_equal(pf.ret_value.values[0].v_int64, 42);
  assert_int_equal(TVMPackedFunc_InitModuleFunc(&pf, system_lib(), "absent", NULL), kTvmErrorFunctionNameNotFound);
  assert_int_equal(TVMPackedFunc_InitModuleFunc(&pf, system_lib(), "count", NULL), 0);
  pf.SetArgs(&pf, &args);
  pf.Call(&pf);
  assert_int_equal(seen_args, 2);
  assert_int_equal(TVMArgs_Create(values, codes, 12).values_count, TVM_CRT_MAX_ARGS);
}

static void test_set_return(void** state) {
  (void)state;
  TVMValue from[2] = {{.v_int64 = 1}, {.v_int64 = 2}};
  int from_codes[2] = {kTVMArgInt, kTVMOpaqueHandle};
  TVMValue to[2];
  int to_codes[2];
  struct {
    TVMValue* value;
    int* type_code;
  } ret = {to, to_codes};
  assert_int_equal(TVMCFuncSetReturn(&ret, from, from_codes, 2), 0);
  assert_memory_equal(from, to, sizeof to);
  assert_memory_equal(from_codes, to_codes, sizeof to_codes);
}

static void test_streams(void** state) {
  (void)state;
  TVMStreamHandle s = H(3);
  assert_int_equal(TVMStreamCreate(kDLCPU, 0, &s), 0);
  assert_null(s);
  assert_int_equal(TVMSetStream(kDLCPU, 0, s), 0);
  assert_int_equal(TVMSynchronize(kDLCPU, 0, s), 0);
  assert_int_equal(TVMStreamFree(kDLCPU, 0, s), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_global_handles), cmocka_unit_test(test_register),
      cmocka_unit_test(test_modules),        cmocka_unit_test(test_left_out),
      cmocka_unit_test(test_bad_handles),    cmocka_unit_test(test_module_get_function),
      cmocka_unit_test(test_packet_size),    cmocka_unit_test(test_system_lib_without_slot),
      cmocka_unit_test(test_last_error),     cmocka_unit_test(test_packed_func),
      cmocka_unit_test(test_set_return),     cmocka_unit_test(test_streams),
  };
  (void)int8;
  return cmocka_run_group_tests_name("module", tests, NULL, NULL);
}
