// SPDX-License-Identifier: Apache-2.0
//
// Calls that do not match the signatures of the system library's functions.
#include "platform.h"
#include "timer.h"

static int runs;    // calls that reached a function
static int begins;  // calls that were reported

void boardsmith_call_begins(TVMFunctionHandle f) {
  (void)f;
  begins++;
}

#define PACKED TVMValue *a, int *c, int n, TVMValue *r, int *rc, void *h

// Counts; it would dereference its arguments.
static int operate(PACKED) {
  (void)a, (void)c, (void)n, (void)r, (void)rc, (void)h;
  runs++;
  return 0;
}
static int scaled(PACKED) { return operate(a, c, n, r, rc, h); }
static int pooled(PACKED) { return operate(a, c, n, r, rc, h); }
static int unlisted(PACKED) { return operate(a, c, n, r, rc, h); }

static TVMFunctionHandle inner;  // that outer calls with its own arguments
static int outer(PACKED) {
  (void)h;
  return TVMFuncCall(inner, a, c, n, r, rc);
}

enum { MATMUL, SCALED, POOLED, UNLISTED, OUTER };
static const TVMBackendPackedCFunc funcs[] = {operate, scaled, pooled, unlisted, outer, NULL};
static const TVMFuncRegistry registry = {"\006\000matmul\000scaled\000pooled\000unlisted\000outer\000left.out\000",
                                         funcs};
static const TVMModule lib = {&registry};
const TVMModule* TVMSystemLibEntryPoint(void) { return &lib; }

const boardsmith_signature_t boardsmith_signatures[] = {
    {operate, 3, 3, 3},
    {scaled, 0, 2, 2},  // its tensors may lie among scalars
    {pooled, 2, 2, 3},  // two tensors and perhaps a pool
    {NULL, 0, 0, 0},
};
const boardsmith_signature_t* boardsmith_library_signatures(void) { return boardsmith_signatures; }

static TVMModuleHandle start(void) {
  TVMValue r;
  int rc;
  platform_reset();
  assert_int_equal(call_global("runtime.SystemLib", NULL, NULL, 0, &r, &rc), 0);
  runs = 0;
  begins = 0;
  return r.v_handle;
}

static TVMFunctionHandle function_of(TVMModuleHandle module, const char* name) {
  TVMFunctionHandle f = NULL;
  assert_int_equal(TVMModGetFunction(module, name, 0, &f), 0);
  return f;
}

// Calls with arguments of these types: T tensor, N array, i int, f float, s string, 0 null, o opaque handle, b bytes.
static int call_with(TVMFunctionHandle f, const char* types) {
  static const char letters[] = "TNif0sob";
  static const int codes_of[] = {kTVMDLTensorHandle, kTVMNDArrayHandle, kTVMArgInt,       kTVMArgFloat,
                                 kTVMNullptr,        kTVMStr,           kTVMOpaqueHandle, kTVMBytes};
  TVMValue args[8];
  int codes[8];
  TVMValue r;
  int rc;
  int n = 0;
  (void)memset(args, 0x11, sizeof args);
  for (; types[n] != '\0'; n++) {
    codes[n] = codes_of[strchr(letters, types[n]) - letters];
  }
  return TVMFuncCall(f, args, codes, n, &r, &rc);
}

enum { COUNT = kTvmErrorFunctionCallNumArguments, TYPE = kTvmErrorFunctionCallWrongArgType };

static const struct {
  int function;
  const char* types;
  int error;
  const char* text;
} calls[] = {
    {MATMUL, "TTT", 0, ""},
    {MATMUL, "TNT", 0, ""},
    {MATMUL, "TTTi", 0, ""},
    {MATMUL, "TTTis0ob", 0, ""},
    {MATMUL, "", COUNT, "takes 3 tensors, not 0: matmul"},
    {MATMUL, "TT", COUNT, "takes 3 tensors, not 2: matmul"},
    {MATMUL, "TTTT", COUNT, "takes 3 tensors, not 4: matmul"},
    {MATMUL, "TTTiT", COUNT, "takes 3 tensors, not 4: matmul"},
    {MATMUL, "iTT", TYPE, "takes 3 tensors, but argument 0 has type code 0: matmul"},
    {MATMUL, "TsT", TYPE, "takes 3 tensors, but argument 1 has type code 11: matmul"},
    {MATMUL, "TT0", TYPE, "takes 3 tensors, but argument 2 has type code 4: matmul"},
    {MATMUL, "ToT", TYPE, "takes 3 tensors, but argument 1 has type code 3: matmul"},
    {MATMUL, "iTTT", TYPE, "takes 3 tensors, but argument 0 has type code 0: matmul"},
    {MATMUL, "iiii", TYPE, "takes 3 tensors, but argument 0 has type code 0: matmul"},
    {SCALED, "iTT", 0, ""},
    {SCALED, "TfT", 0, ""},
    {SCALED, "TT", 0, ""},
    {SCALED, "T", COUNT, "takes 2 tensors, not 1: scaled"},
    {SCALED, "TTT", COUNT, "takes 2 tensors, not 3: scaled"},
    {SCALED, "Tii", TYPE, "takes 2 tensors, but argument 1 has type code 0: scaled"},
    {POOLED, "TT", 0, ""},
    {POOLED, "TTT", 0, ""},
    {POOLED, "TTo", 0, ""},
    {POOLED, "TTTT", COUNT, "takes 2 tensors, not 4: pooled"},
    {POOLED, "TiT", TYPE, "takes 2 tensors, but argument 1 has type code 0: pooled"},
    {UNLISTED, "", 0, ""},
    {UNLISTED, "i", 0, ""},
    {UNLISTED, "s0iTT", 0, ""},
};
static const char* const names[] = {"matmul", "scaled", "pooled", "unlisted"};

static void test_calls(void** state) {
  (void)state;
  for (size_t i = 0; i < (sizeof calls / sizeof calls[0]); i++) {
    const TVMFunctionHandle f = function_of(start(), names[calls[i].function]);
    TVMAPISetLastError("");
    assert_int_equal(call_with(f, calls[i].types), calls[i].error);
    assert_int_equal(runs, (calls[i].error == 0) ? 1 : 0);
    assert_int_equal(begins, (calls[i].error == 0) ? 1 : 0);
    assert_string_equal(TVMGetLastError(), calls[i].text);
    assert_int_equal(call_with(f, "TTT") != 0, calls[i].function == SCALED);  // the runtime goes on
  }
  assert_int_not_equal(call_with(function_of(start(), "left.out"), ""), 0);
}

// Makes a time evaluator of a function of a module.
static TVMFunctionHandle evaluator_of(TVMModuleHandle module, const char* name) {
  TVMValue args[12];
  int codes[12];
  TVMValue r;
  int rc;
  (void)memset(args, 0, sizeof args);
  (void)memset(codes, 0, sizeof codes);
  args[0].v_handle = module;
  codes[0] = kTVMModuleHandle;
  args[1].v_str = name;
  codes[1] = kTVMStr;
  args[4].v_int64 = 5;  // calls of each of 2 results
  args[5].v_int64 = 2;
  args[11].v_str = "";
  codes[11] = kTVMStr;
  assert_int_equal(call_global("runtime.RPCTimeEvaluator", args, codes, 12, &r, &rc), 0);
  return r.v_handle;
}

static void test_time_evaluator(void** state) {
  (void)state;
  for (size_t i = 0; i < (sizeof calls / sizeof calls[0]); i++) {
    const TVMFunctionHandle f = evaluator_of(start(), names[calls[i].function]);
    const int taken = platform_memory.count;
    TVMAPISetLastError("");
    assert_int_equal(call_with(f, calls[i].types), calls[i].error);
    assert_int_equal(runs, (calls[i].error == 0) ? 11 : 0);  // with the first one, which is not timed
    assert_string_equal(TVMGetLastError(), calls[i].text);
    assert_int_equal(platform_memory.count, taken + ((calls[i].error == 0) ? 1 : 0));  // the results
  }
}

// Calls by code of the device are not checked.
static void test_nested(void** state) {
  (void)state;
  const TVMModuleHandle module = start();
  inner = function_of(module, "matmul");
  assert_int_equal(call_with(function_of(module, "outer"), "is"), 0);
  assert_int_equal(runs, 1);
  inner = evaluator_of(module, "matmul");
  assert_int_equal(call_with(function_of(module, "outer"), "is"), COUNT);  // an evaluator never passes it on
  assert_int_equal(runs, 1);
}

// Functions that users register take anything, also those that a model has.
static void test_users_functions(void** state) {
  (void)state;
  TVMFunctionHandle f = NULL;
  TVMModuleHandle module = NULL;
  start();
  assert_int_equal(TVMFuncRegisterGlobal("mine", (TVMFunctionHandle)(uintptr_t)operate, 0), 0);
  assert_int_equal(TVMFuncGetGlobal("mine", &f), 0);
  assert_int_equal(call_with(f, "i"), 0);
  assert_int_equal(TVMModCreateFromCModule(&lib, &module), 0);
  assert_int_equal(call_with(function_of(module, "matmul"), "i"), 0);
  assert_int_equal(call_with(evaluator_of(module, "matmul"), "i"), 0);
  assert_int_equal(runs, 13);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_time_evaluator),
      cmocka_unit_test(test_nested),
      cmocka_unit_test(test_users_functions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
