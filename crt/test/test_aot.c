// SPDX-License-Identifier: Apache-2.0
//
// The AOT executor and its module, with a model written by hand in the form of TVM's.
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>

#include "platform.h"
#include "timer.h"

// ---- A model: sum = x + y (int8[2,3]), twice = 2 * x ---------------------------------------------

static const int64_t matrix[2] = {2, 3};
static const int64_t pool_shape[1] = {100};
static const struct TVMTensorInfo inputs[] = {{"x", matrix, 2, {kDLInt, 8, 1}}, {"x_in", matrix, 2, {kDLInt, 8, 1}}};
static const struct TVMTensorInfo outputs[] = {{"output0", matrix, 2, {kDLInt, 8, 1}},
                                               {"output1", matrix, 2, {kDLInt, 16, 1}}};
static const struct TVMTensorInfo pools[] = {{"global_workspace_1_var", pool_shape, 1, {kDLUInt, 8, 1}},
                                             {"sram_2_var", pool_shape, 1, {kDLUInt, 8, 1}}};
static struct TVMMetadata metadata = {1, inputs, 2, outputs, 2, pools, 2, NULL, 0, "tvmgen_hand_made"};

static int run_error;
static int runs;

static int running;
static TVMFunctionHandle begun;
void boardsmith_call_begins(TVMFunctionHandle f) {
  assert_int_equal(running, 0);
  running = 1;
  begun = f;
}
void boardsmith_call_ends(void) {
  assert_int_equal(running, 1);
  running = 0;
}

static int hand_made_run(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)r, (void)rc, (void)h;
  assert_int_equal(n, 6);
  for (int i = 0; i < n; i++) {
    assert_int_equal(codes[i], kTVMDLTensorHandle);
  }
  const DLTensor* x = args[0].v_handle;
  const DLTensor* y = args[1].v_handle;
  const DLTensor* sum = args[2].v_handle;
  const DLTensor* twice = args[3].v_handle;
  assert_null(((const DLTensor*)args[4].v_handle)->data);           // the model's own pool
  (void)memset(((const DLTensor*)args[5].v_handle)->data, 1, 100);  // the user's
  for (int i = 0; i < 6; i++) {
    ((int8_t*)sum->data)[i] = (int8_t)(((int8_t*)x->data)[i] + ((int8_t*)y->data)[i]);
    ((int16_t*)twice->data)[i] = (int16_t)(2 * ((int8_t*)x->data)[i]);
  }
  runs++;
  return run_error;
}

static int get_c_metadata(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)args, (void)codes, (void)h;
  assert_int_equal(n, 0);
  r[0].v_handle = &metadata;
  rc[0] = kTVMOpaqueHandle;
  return 0;
}

static int metadata_fails(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)args, (void)codes, (void)n, (void)r, (void)rc, (void)h;
  return 0x99;
}

// Returns nothing.
static int metadata_null(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)args, (void)codes, (void)n, (void)r, (void)rc, (void)h;
  return 0;
}

#define LONG_NAME                                                                                                      \
  "a_name_of_more_than_120_bytes_a_name_of_more_than_120_bytes_a_name_of_more_than_120_bytes_a_name_of_more_than_120_" \
  "bytes"

static const TVMBackendPackedCFunc funcs[] = {hand_made_run, get_c_metadata, metadata_fails, metadata_null,
                                              get_c_metadata};
static const TVMFuncRegistry registry = {
    "\005\000tvmgen_hand_made_run\000tvmgen_hand_made_get_c_metadata\000tvmgen_broken_get_c_metadata\000"
    "tvmgen_null_get_c_metadata\000tvmgen_" LONG_NAME "_get_c_metadata\000",
    funcs};
static const TVMModule lib = {&registry};
const TVMModule* TVMSystemLibEntryPoint(void) { return &lib; }

// The registry of TVM 0.9 to 0.11: only the main function, which gets every pool from the executor.
static int main_function(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  const DLTensor* own = args[4].v_handle;
  assert_int_equal(boardsmith_memory_known(own->data, 100, 1), 1);
  (void)memset(own->data, 1, 100);
  TVMValue without_own[6];
  (void)memcpy(without_own, args, sizeof without_own);
  DLTensor nothing = *own;
  nothing.data = NULL;
  without_own[4].v_handle = &nothing;
  return hand_made_run(without_own, codes, n, r, rc, h);
}
static const TVMBackendPackedCFunc old_funcs[] = {main_function, get_c_metadata};
static const TVMFuncRegistry old_registry = {
    "\002\000tvmgen_hand_made___tvm_main__\000tvmgen_hand_made_get_c_metadata\000", old_funcs};
static const TVMModule old_lib = {&old_registry};

static TVMModuleHandle start(void) {
  TVMValue r;
  int rc;
  platform_reset();
  assert_int_equal(TVMAotExecutorModule_Register(), kTvmErrorNoError);
  run_error = 0;
  runs = 0;
  metadata.version = 1;
  metadata.num_workspace_pools = 2;
  assert_int_equal(call_global("runtime.SystemLib", NULL, NULL, 0, &r, &rc), 0);
  return r.v_handle;
}

// ---- The C API ----------------------------------------------------------------------------------

static void check_run_of(TVMAotExecutor* ex, uintptr_t function) {
  int8_t* x = ex->args[0].dl_tensor.data;
  int8_t* y = ex->args[1].dl_tensor.data;
  for (int i = 0; i < 6; i++) {
    x[i] = (int8_t)i;
    y[i] = (int8_t)(10 * i);
  }
  assert_int_equal(TVMAotExecutor_Run(ex), 0);
  assert_ptr_equal(begun, (void*)function);  // the model's run function is the outermost call
  assert_int_equal(running, 0);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(((int8_t*)ex->args[2].dl_tensor.data)[i], 11 * i);
    assert_int_equal(((int16_t*)ex->args[3].dl_tensor.data)[i], 2 * i);
  }
}

static void check_run(TVMAotExecutor* ex) { check_run_of(ex, 0x80008000U); }

static void test_executor(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMAotExecutor* ex = NULL;
  const char* name = "as it was";
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), 0);
  assert_ptr_equal(ex->metadata, &metadata);
  assert_ptr_equal(ex->module_handle, m);
  assert_int_equal(ex->num_args, 6);
  assert_int_equal(TVMAotExecutor_GetNumInputs(ex), 2);
  assert_int_equal(TVMAotExecutor_GetNumOutputs(ex), 2);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "x"), 0);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "x_in"), 1);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "x_"), -1);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "x_in2"), -1);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, ""), -1);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "output0"), -1);
  assert_string_equal(TVMGetLastError(), "not found: output0");
  assert_int_equal(TVMAotExecutor_GetInputName(ex, -1, &name), kTvmErrorExecutorModuleNoSuchInput);
  assert_int_equal(TVMAotExecutor_GetInputName(ex, 2, &name), kTvmErrorExecutorModuleNoSuchInput);
  assert_string_equal(name, "as it was");
  assert_int_equal(TVMAotExecutor_GetInputName(ex, 1, &name), 0);
  assert_string_equal(name, "x_in");
  for (int i = 0; i < 4; i++) {
    const DLTensor* t = &ex->args[i].dl_tensor;
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(((uint8_t*)t->data)[5], 0);
    assert_int_equal(boardsmith_memory_known(t->data, (i == 3) ? 12 : 6, 1), 1);
  }
  check_run(ex);
  run_error = 0x77;
  assert_int_equal(TVMAotExecutor_Run(ex), 0x77);
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
  assert_int_equal(platform_memory.count, 0);
}

// A user replaces the model's buffers.
static void test_own_buffers(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMAotExecutor* ex = NULL;
  int8_t mine[6];
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), 0);
  ex->args[0].dl_tensor.data = mine;
  check_run(ex);
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_main_without_wrapper(void** state) {
  (void)state;
  (void)start();
  TVMModuleHandle m = NULL;
  TVMAotExecutor* ex = NULL;
  assert_int_equal(TVMModCreateFromCModule(&old_lib, &m), 0);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), 0);
  check_run_of(ex, 0x80018000U);
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_two_executors(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMAotExecutor* a = NULL;
  TVMAotExecutor* b = NULL;
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &a, "hand_made"), 0);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &b, "hand_made"), 0);
  check_run(a);
  check_run(b);
  assert_int_equal(TVMAotExecutor_Release(a, cpu), 0);
  check_run(b);
  assert_int_equal(TVMAotExecutor_Release(b, cpu), 0);
  assert_int_equal(platform_memory.count, 0);
}

// Memory that runs out at any allocation leaves nothing behind.
static void test_no_memory(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMAotExecutor* ex = NULL;
  int failures = 0;
  for (int i = 0;; i++) {
    platform_memory.taken = 0;
    platform_memory.fail_at = i;
    const int error = TVMAotExecutor_Create(m, cpu, &ex, "hand_made");
    if (error == 0) {
      break;
    }
    assert_int_equal(error, kTvmErrorPlatformNoMemory);
    assert_null(ex);
    assert_int_equal(platform_memory.count, 0);
    failures++;
  }
  assert_int_equal(failures, 6);  // the executor, four tensors, one pool
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_bad_models(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMAotExecutor* ex = NULL;
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand"), kTvmErrorFunctionNameNotFound);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, ""), kTvmErrorFunctionNameNotFound);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "%"), kTvmErrorFunctionNameNotFound);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made_get_c_metadata"), kTvmErrorFunctionNameNotFound);
  assert_int_equal(TVMAotExecutor_Create((void*)(uintptr_t)0x8001, cpu, &ex, "hand_made"), -1);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "broken"), 0x99);
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "null"), kTvmErrorExecutorModuleBadContext);
  metadata.version = 2;
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), kTvmErrorExecutorModuleBadContext);
  assert_int_equal(platform_memory.count, 0);
  metadata.version = 1;
  const char* const name = metadata.mod_name;
  metadata.mod_name = "tvmgen_absent";  // no function runs it
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), kTvmErrorFunctionNameNotFound);
  assert_int_equal(platform_memory.count, 0);
  metadata.mod_name = name;
  assert_int_equal(TVMAotExecutor_Create(m, cpu, &ex, LONG_NAME), 0);  // a name of any length
  assert_int_equal(TVMAotExecutor_Run(ex), 0);                         // the metadata's name is hand_made
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
}

// Wrong metadata is refused.
static void test_bad_metadata(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMAotExecutor* ex = NULL;
  const struct TVMMetadata good = metadata;
  const int64_t counts[] = {-1, -3, INT32_MAX, INT32_MIN, 1 << 16, INT64_MAX};
  for (size_t i = 0; i < (sizeof counts / sizeof counts[0]); i++) {
    metadata.num_inputs = counts[i];
    assert_int_not_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), 0);
    metadata = good;
    metadata.num_outputs = counts[i];
    assert_int_not_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), 0);
    metadata = good;
    metadata.num_workspace_pools = counts[i];
    assert_int_not_equal(TVMAotExecutor_Create(m, cpu, &ex, "hand_made"), 0);
    metadata = good;
  }
  assert_null(ex);
  assert_int_equal(platform_memory.count, 0);
}

// ---- The module ---------------------------------------------------------------------------------

static int create(TVMModuleHandle m, const char* name, TVMModuleHandle* out) {
  TVMValue args[3];
  int codes[3] = {kTVMModuleHandle, kDLDevice, kTVMStr};
  TVMValue r;
  int rc;
  args[0].v_handle = m;
  args[1].v_device = cpu;
  args[2].v_str = name;
  const int error = call_global("tvm.aot_executor.create", args, codes, 3, &r, &rc);
  if (error == 0) {
    assert_int_equal(rc, kTVMModuleHandle);
    *out = r.v_handle;
  }
  return error;
}

static int call(TVMModuleHandle m, const char* name, int n, int code, TVMValue arg, TVMValue* r, int* rc) {
  TVMFunctionHandle f;
  assert_int_equal(TVMModGetFunction(m, name, 0, &f), 0);
  return TVMFuncCall(f, (n == 0) ? NULL : &arg, (n == 0) ? NULL : &code, n, r, rc);
}

static int call_int(TVMModuleHandle m, const char* name, int64_t i, TVMValue* r, int* rc) {
  return call(m, name, 1, kTVMArgInt, (TVMValue){.v_int64 = i}, r, rc);
}
static int call_str(TVMModuleHandle m, const char* name, const char* s, TVMValue* r, int* rc) {
  return call(m, name, 1, kTVMStr, (TVMValue){.v_str = s}, r, rc);
}
static int call_none(TVMModuleHandle m, const char* name, TVMValue* r, int* rc) {
  return call(m, name, 0, 0, (TVMValue){.v_int64 = 0}, r, rc);
}

static void test_module_functions(void** state) {
  (void)state;
  // The functions that TVM's host looks up, without get_input_info, load_params, share_params.
  static const char* const names[] = {"run",       "get_num_inputs",  "get_num_outputs", "get_output",
                                      "get_input", "get_input_index", "get_input_name",  "set_input"};
  const TVMModuleHandle lib_module = start();
  TVMModuleHandle m = NULL;
  TVMFunctionHandle f;
  TVMValue r;
  int rc;
  assert_int_equal(create(lib_module, "hand_made", &m), 0);
  assert_ptr_equal(m, (void*)(uintptr_t)0x8001);
  for (size_t i = 0; i < 8U; i++) {
    assert_int_equal(TVMModGetFunction(m, names[i], 0, &f), 0);
    assert_ptr_equal(f, (void*)(uintptr_t)(0x80018000U + i));
  }
  assert_int_equal(TVMFuncCall((void*)(uintptr_t)0x80018008U, NULL, NULL, 0, &r, &rc), -1);
  assert_string_equal(TVMGetLastError(), "invalid handle: 80018008");

  assert_int_equal(call_none(m, "get_num_inputs", &r, &rc), 0);
  assert_int_equal(rc, kTVMArgInt);
  assert_int_equal(r.v_int64, 2);
  assert_int_equal(call_none(m, "get_num_outputs", &r, &rc), 0);
  assert_int_equal(r.v_int64, 2);
  assert_int_equal(call_str(m, "get_input_index", "x_in", &r, &rc), 0);
  assert_int_equal(rc, kTVMArgInt);
  assert_int_equal(r.v_int64, 1);
  assert_int_equal(call_int(m, "get_input_name", 1, &r, &rc), 0);
  assert_int_equal(rc, kTVMStr);
  assert_string_equal(r.v_str, "x_in");

  assert_int_equal(call_int(m, "get_input", 0, &r, &rc), 0);
  assert_int_equal(rc, kTVMNDArrayHandle);
  DLTensor* x = r.v_handle;
  assert_int_equal(call_str(m, "get_input", "x_in", &r, &rc), 0);
  DLTensor* y = r.v_handle;
  assert_int_equal(call_int(m, "get_output", 1, &r, &rc), 0);
  DLTensor* twice = r.v_handle;
  assert_int_equal(twice->dtype.bits, 16);
  for (int i = 0; i < 6; i++) {
    ((int8_t*)x->data)[i] = (int8_t)i;
    ((int8_t*)y->data)[i] = 1;
  }
  assert_int_equal(call_none(m, "run", &r, &rc), 0);
  assert_int_equal(rc, kTVMNullptr);
  assert_int_equal(runs, 1);
  assert_int_equal(((int16_t*)twice->data)[5], 10);
  assert_int_equal(TVMArrayFree(x), 0);
  assert_int_equal(TVMArrayFree(y), 0);
  assert_int_equal(TVMArrayFree(twice), 0);
  run_error = 0x77;
  assert_int_equal(call_none(m, "run", &r, &rc), 0x77);
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_module_refuses(void** state) {
  (void)state;
  const TVMModuleHandle lib_module = start();
  TVMModuleHandle m = NULL;
  TVMValue r;
  int rc;
  static const char* const one_argument[] = {"get_input", "get_input_index", "get_output", "get_input_name"};
  assert_int_equal(create(lib_module, "hand_made", &m), 0);
  for (size_t i = 0; i < 4U; i++) {
    assert_int_equal(call_none(m, "set_input", &r, &rc), kTvmErrorFunctionCallNotImplemented);
    assert_int_equal(call_none(m, one_argument[i], &r, &rc), kTvmErrorFunctionCallNumArguments);
    assert_int_equal(call(m, one_argument[i], 1, kTVMOpaqueHandle, (TVMValue){.v_int64 = 0}, &r, &rc),
                     kTvmErrorFunctionCallWrongArgType);
  }
  static const int64_t bad[] = {2, -1, INT64_MAX, INT64_MIN, 1LL << 32, (1LL << 32) + 1};
  for (size_t i = 0; i < 6U; i++) {
    assert_int_equal(call_int(m, "get_input", bad[i], &r, &rc), kTvmErrorExecutorModuleNoSuchInput);
    assert_int_equal(call_int(m, "get_output", bad[i], &r, &rc), kTvmErrorExecutorModuleNoSuchInput);
    assert_int_equal(call_int(m, "get_input_name", bad[i], &r, &rc), kTvmErrorExecutorModuleNoSuchInput);
  }
  assert_int_equal(call_str(m, "get_input", "y", &r, &rc), kTvmErrorExecutorModuleNoSuchInput);
  assert_string_equal(TVMGetLastError(), "not found: y");
  assert_int_equal(call_str(m, "get_input_index", "y", &r, &rc), kTvmErrorExecutorModuleNoSuchInput);
  assert_int_not_equal(call_str(m, "get_output", "x", &r, &rc), 0);
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(platform_memory.count, 0);
}

static void test_create_refuses(void** state) {
  (void)state;
  const TVMModuleHandle lib_module = start();
  TVMModuleHandle m = NULL;
  TVMModuleHandle again = NULL;
  TVMValue args[3];
  int codes[3] = {kTVMModuleHandle, kDLDevice, kTVMStr};
  TVMValue r;
  int rc;
  args[0].v_handle = lib_module;
  args[1].v_device = cpu;
  args[2].v_str = "hand_made";
  assert_int_equal(call_global("tvm.aot_executor.create", args, codes, 2, &r, &rc), kTvmErrorFunctionCallNumArguments);
  for (int i = 0; i < 3; i++) {
    const int right = codes[i];
    codes[i] = kTVMOpaqueHandle;
    assert_int_equal(call_global("tvm.aot_executor.create", args, codes, 3, &r, &rc),
                     kTvmErrorFunctionCallWrongArgType);
    codes[i] = right;
  }
  args[1].v_device = (DLDevice){kDLCUDA, 0};
  assert_int_equal(call_global("tvm.aot_executor.create", args, codes, 3, &r, &rc), kTvmErrorExecutorModuleBadContext);
  args[1].v_device = (DLDevice){kDLCPU, 1};
  assert_int_equal(call_global("tvm.aot_executor.create", args, codes, 3, &r, &rc), kTvmErrorExecutorModuleBadContext);
  assert_int_equal(create(lib_module, "absent", &m), kTvmErrorFunctionNameNotFound);
  assert_int_equal(create(lib_module, "hand_made", &m), 0);
  assert_int_equal(create(lib_module, "hand_made", &again), kTvmErrorExecutorModuleAlreadyCreated);
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(create(lib_module, "hand_made", &again), 0);
  assert_int_equal(TVMModFree(again), 0);
  // No slot for it: nothing stays.
  TVMModuleHandle other;
  assert_int_equal(TVMModCreateFromCModule(&lib, &other), 0);
  assert_int_equal(create(lib_module, "hand_made", &m), -1);
  assert_int_equal(platform_memory.count, 0);
  assert_int_equal(TVMModFree(other), 0);
  assert_int_equal(create(lib_module, "hand_made", &m), 0);
}

// Arrays outlive the module while references exist, and the executor's own arrays cannot be freed.
static void test_array_lifetime(void** state) {
  (void)state;
  const TVMModuleHandle lib_module = start();
  TVMModuleHandle m = NULL;
  TVMValue r;
  int rc;
  assert_int_equal(create(lib_module, "hand_made", &m), 0);
  assert_int_equal(call_int(m, "get_input", 0, &r, &rc), 0);
  DLTensor* x = r.v_handle;
  assert_int_equal(call_int(m, "get_input", 0, &r, &rc), 0);
  assert_ptr_equal(r.v_handle, x);
  assert_int_equal(TVMArrayFree(x), 0);
  assert_int_equal(TVMArrayFree(x), 0);
  assert_int_equal(TVMArrayFree(x), kTvmErrorFunctionCallInvalidArg);  // the executor's own reference
  assert_int_equal(call_none(m, "run", &r, &rc), 0);
  assert_int_equal(call_int(m, "get_output", 0, &r, &rc), 0);
  DLTensor* sum = r.v_handle;
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(boardsmith_memory_known(sum->data, 6, 1), 1);
  assert_int_equal(TVMArrayFree(x), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(create(lib_module, "hand_made", &m), 0);  // while the old array is still held
  assert_int_equal(TVMArrayFree(sum), 0);
  assert_int_equal(TVMArrayFree(sum), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(platform_memory.count, 0);
}

// An evaluator of `run` outlives the module: it only fails.
static void test_timed_run(void** state) {
  (void)state;
  const TVMModuleHandle lib_module = start();
  TVMModuleHandle m = NULL;
  TVMValue args[12];
  int codes[12] = {kTVMModuleHandle, kTVMStr, 0, 0, 0, 0, 0, 0, 0, 0, 0, kTVMStr};
  TVMValue r;
  int rc;
  assert_int_equal(create(lib_module, "hand_made", &m), 0);
  (void)memset(args, 0, sizeof args);
  args[0].v_handle = m;
  args[1].v_str = "run";
  args[4].v_int64 = 3;
  args[5].v_int64 = 2;
  args[11].v_str = "";
  assert_int_equal(call_global("runtime.RPCTimeEvaluator", args, codes, 12, &r, &rc), 0);
  TVMFunctionHandle f = r.v_handle;
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 0, &r, &rc), 0);
  assert_int_equal(runs, 7);
  assert_int_equal(TVMByteArrayFree(r.v_handle), 0);
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 0, &r, &rc), -1);
  assert_int_equal(platform_memory.count, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_executor),         cmocka_unit_test(test_own_buffers),
      cmocka_unit_test(test_two_executors),    cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_bad_models),       cmocka_unit_test(test_bad_metadata),
      cmocka_unit_test(test_module_functions), cmocka_unit_test(test_module_refuses),
      cmocka_unit_test(test_create_refuses),   cmocka_unit_test(test_array_lifetime),
      cmocka_unit_test(test_timed_run),        cmocka_unit_test(test_main_without_wrapper),
  };
  (void)int8;
  return cmocka_run_group_tests_name("aot", tests, NULL, NULL);
}
