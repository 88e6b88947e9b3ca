// SPDX-License-Identifier: Apache-2.0
//
// The graph executor and its module, with operators written by hand and graphs as TVM writes them.
#include <stdbool.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/graph_executor_module.h>

#include "platform.h"
#include "timer.h"

// ---- A model: sum = (x + p0) reshaped, twice = 2 * x -------------------------------------------------------------

static int run_error;
static int runs;

static int add(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)r, (void)rc, (void)h;
  assert_int_equal(n, 3);
  for (int i = 0; i < n; i++) {
    const DLTensor* t = args[i].v_handle;
    assert_int_equal(codes[i], kTVMDLTensorHandle);
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->byte_offset, 0);
    assert_null(t->strides);
  }
  for (int i = 0; i < 6; i++) {
    ((int8_t*)((const DLTensor*)args[2].v_handle)->data)[i] =
        (int8_t)(((const int8_t*)((const DLTensor*)args[0].v_handle)->data)[i] +
                 ((const int8_t*)((const DLTensor*)args[1].v_handle)->data)[i]);
  }
  runs++;
  return run_error;
}

static int twice(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)codes, (void)r, (void)rc, (void)h;
  assert_int_equal(n, 2);
  const DLTensor* to = args[1].v_handle;
  assert_int_equal(to->dtype.bits, 16);
  for (int i = 0; i < 6; i++) {
    ((int16_t*)to->data)[i] = (int16_t)(2 * ((const int8_t*)((const DLTensor*)args[0].v_handle)->data)[i]);
  }
  runs++;
  return 0;
}

static const int8_t linked[6] = {10, 20, 30, 40, 50, 60};
static int linked_id;     // the storage that the module has
static int linked_error;  // of the look-up

static int lookup_linked(TVMValue* args, int* codes, int n, TVMValue* r, int* rc, void* h) {
  (void)h;
  assert_int_equal(n, 1);
  assert_int_equal(codes[0], kTVMArgInt);
  r->v_handle = (args[0].v_int64 == linked_id) ? (void*)(uintptr_t)linked : NULL;
  *rc = (r->v_handle != NULL) ? kTVMOpaqueHandle : kTVMNullptr;
  return linked_error;
}

static const TVMBackendPackedCFunc funcs[] = {add, twice, lookup_linked};
static const TVMFuncRegistry registry = {"\002\000add\000twice\000", funcs};
static const TVMFuncRegistry linked_registry = {"\003\000add\000twice\000_lookup_linked_param\000", funcs};
static const TVMModule lib = {&registry};
static const TVMModule linked_lib = {&linked_registry};

#define OP_OF(op, name, outputs, flat, inputs)                                                                    \
  "{\"op\": \"" op "\", \"name\": \"n\", \"attrs\": {\"num_outputs\": \"" outputs "\", \"flatten_data\": \"" flat \
  "\", \"func_name\": \"" name "\", \"hash\": \"1\"}, \"inputs\": [" inputs "]}"
#define OP(name, inputs) OP_OF("tvm_op", name, "1", "0", inputs)
#define INPUT(name) "{\"op\": \"null\", \"name\": \"" name "\", \"inputs\": []}"
#define NODES                                                                                              \
  "[\n " INPUT("x") ", \t" INPUT("a \\\"p\\\"\\\\\\n\\r\\t") "," OP("add", "[0, 0, 0], [1, 0, 0]") "," OP( \
      "__nop", "[2, 0, 0]") "," OP("twice", "[0, 0, 0]") "]"
#define P0 "a \"p\"\\\n\r\t"
#define TYPES "\"int8\", \"int8\", \"int8\", \"int8\", \"int16\""
#define SHAPES "[2, 3], [2, 3], [2, 3], [6], [2, 3, 1]"
#define ATTRS_OF(types, storages, shapes)       \
  "{\"dltype\": [\"list_str\", [" types         \
  "]], \"device_index\": [\"list_int\", [1]], " \
  "\"storage_id\": [\"list_int\", [" storages "]], \"shape\": [\"list_shape\", [" shapes "]]}"
#define STORAGES "0, 1, 2, 2, 3"
#define ATTRS ATTRS_OF(TYPES, STORAGES, SHAPES)
#define ROWS "0, 1, 2, 3, 4, 5"
#define HEADS "[3, 0, 0], [4, 0, 0]"
#define GRAPH_OF(nodes, arg_nodes, heads, attrs, rows)                                               \
  "{\"nodes\": " nodes ", \"arg_nodes\": [" arg_nodes "], \"heads\": [" heads "], \"attrs\": " attrs \
  ", \"node_row_ptr\": [" rows "], \"metadata\": {\"signature\": [true, -1.5e3, {}]}}"
#define GRAPH GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, ROWS)

static TVMModuleHandle start_with(const TVMModule* module) {
  TVMModuleHandle m = NULL;
  platform_reset();
  run_error = 0;
  linked_error = 0;
  linked_id = 1;
  runs = 0;
  assert_int_equal(TVMModCreateFromCModule(module, &m), 0);
  return m;
}

static TVMModuleHandle start(void) { return start_with(&lib); }

static int make(TVMModuleHandle m, const char* json, TVMGraphExecutor** ex) {
  // A copy of the text's length, so that AddressSanitizer detects reads behind it.
  const size_t bytes = strlen(json) + 1U;
  char* const copy = malloc(bytes);
  (void)memcpy(copy, json, bytes);
  const int error = TVMGraphExecutor_Create(copy, m, &cpu, ex);
  free(copy);
  return error;
}

static void check_output(TVMGraphExecutor* ex, int index, int bits, const int* want) {
  int16_t data[6];
  int64_t shape[1] = {6};
  DLTensor out = {data, cpu, 1, {kDLInt, (uint8_t)bits, 1}, shape, NULL, 0};
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, index, &out), 0);
  for (int i = 0; i < 6; i++) {
    assert_int_equal((bits == 8) ? ((int8_t*)data)[i] : data[i], want[i]);
  }
}

// The parameter file of {P0: int8[2, 3]}.
#define LIST_HEAD "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
#define NAME_OF_P0 "\11\0\0\0\0\0\0\0" P0
#define ARRAY_HEAD "\1\0\0\0\0\0\0\0\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
#define ARRAY_TYPE "\2\0\0\0\0\10\1\0"
#define ARRAY_SHAPE "\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
#define ARRAY_DATA "\6\0\0\0\0\0\0\0\1\2\3\4\5\6"
#define PARAMS LIST_HEAD NAME_OF_P0 ARRAY_HEAD ARRAY_TYPE ARRAY_SHAPE ARRAY_DATA

static int load(TVMGraphExecutor* ex, const char* blob, size_t bytes) {
  char* const copy = malloc(bytes + 1U);
  (void)memcpy(&copy[1], blob, bytes);  // not aligned
  const int error = TVMGraphExecutor_LoadParams(ex, &copy[1], (uint32_t)bytes);
  free(copy);
  return error;
}

// ---- The C API ---------------------------------------------------------------------------------------------------

static void test_executor(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMGraphExecutor* ex = NULL;
  int8_t x[7] = {99, 1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  DLTensor in = {x, cpu, 2, int8, shape, NULL, 1};
  assert_int_equal(make(m, GRAPH, &ex), 0);
  assert_int_equal(platform_memory.count, 5);  // the executor and four storages
  assert_int_equal(TVMGraphExecutor_GetNumInputs(ex), 2);
  assert_int_equal(TVMGraphExecutor_GetNumOutputs(ex), 2);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "x"), 0);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, P0), 1);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, ""), -1);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "xx"), -1);
  assert_string_equal(TVMGetLastError(), "not found: xx");
  assert_int_equal(load(ex, PARAMS, sizeof PARAMS - 1U), 0);
  check_output(ex, 0, 8, (int[]){0, 0, 0, 0, 0, 0});
  TVMGraphExecutor_SetInput(ex, "x", &in);
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  assert_int_equal(runs, 2);
  check_output(ex, 0, 8, (int[]){2, 4, 6, 8, 10, 12});
  check_output(ex, 1, 16, (int[]){2, 4, 6, 8, 10, 12});
  x[1] = 7;  // the input is not copied
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  check_output(ex, 0, 8, (int[]){8, 4, 6, 8, 10, 12});
  TVMGraphExecutor_SetInput(ex, "y", &in);
  assert_string_equal(TVMGetLastError(), "not found: y");
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, 2, &in), kTvmErrorExecutorModuleNoSuchInput);
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, -1, &in), kTvmErrorExecutorModuleNoSuchInput);
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, 1, &in), kTvmErrorFunctionCallInvalidArg);  // of another size
  run_error = 0x77;
  assert_int_equal(TVMGraphExecutor_Run(ex), 0x77);
  assert_int_equal(runs, 5);  // the operator after it is not called
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
  assert_null(ex);
  assert_int_equal(platform_memory.count, 0);
}

// Two inputs of type bool and float32x2, a scalar, keys in another order, "attr" instead of "attrs".
static void test_other_graph(void** state) {
  (void)state;
  static const char json[] =
      "{\"node_row_ptr\":[0,1,2,3],\"attrs\":{\"shape\":[\"list_shape\",[[],[4],[2]]],\"storage_id\":[\"list_int\","
      "[2,0,1]],\"dltype\":[\"list_str\",[\"bool\",\"float32x2\",\"bfloat16\"]]},\"heads\":[[1,0]],\"arg_nodes\":[2,0,"
      "1],"
      "\"unknown\":[{\"nodes\":[]},\"]\"],\"nodes\":[{\"inputs\":[],\"name\":\"a\\u00e9\",\"op\":\"null\"}," INPUT(
          "b") "," INPUT("c") "]}";
  const TVMModuleHandle m = start();
  TVMGraphExecutor* ex = NULL;
  uint64_t data[4];
  int64_t shape[1] = {4};
  DLTensor out = {data, cpu, 1, {kDLUInt, 64, 1}, shape, NULL, 0};
  assert_int_equal(make(m, json, &ex), 0);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "c"), 0);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "a\\u00e9"), 1);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "b"), 2);
  assert_int_equal(TVMGraphExecutor_GetOutput(ex, 0, &out), 0);
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
  // An empty graph.
  assert_int_equal(make(m, GRAPH_OF("[]", "", "", ATTRS_OF("", "", ""), "0"), &ex), 0);
  assert_int_equal(TVMGraphExecutor_GetNumInputs(ex), 0);
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
  assert_int_equal(platform_memory.count, 0);
}

// A parameter that is part of the module takes no memory and cannot be written.
static void test_linked_parameter(void** state) {
  (void)state;
  const TVMModuleHandle m = start_with(&linked_lib);
  TVMGraphExecutor* ex = NULL;
  assert_int_equal(make(m, GRAPH, &ex), 0);
  assert_int_equal(platform_memory.count, 4);
  assert_int_equal(TVMGraphExecutor_Run(ex), 0);
  check_output(ex, 0, 8, (int[]){10, 20, 30, 40, 50, 60});
  assert_int_equal(load(ex, PARAMS, sizeof PARAMS - 1U), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
  linked_error = 0x66;
  assert_int_equal(make(m, GRAPH, &ex), 0x66);
  assert_int_equal(platform_memory.count, 0);
}

static void test_no_memory(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMGraphExecutor* ex = NULL;
  int failures = 0;
  for (int i = 0;; i++) {
    platform_memory.taken = 0;
    platform_memory.fail_at = i;
    const int error = make(m, GRAPH, &ex);
    if (error == 0) {
      break;
    }
    assert_int_equal(error, kTvmErrorPlatformNoMemory);
    assert_null(ex);
    assert_int_equal(platform_memory.count, 0);
    failures++;
  }
  assert_int_equal(failures, 6);  // while creating, the executor, four storages
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
  assert_int_equal(platform_memory.count, 0);
}

// ---- Malformed input ---------------------------------------------------------------------------------------------

#define DEEP8 "[[[[[[[["
#define WITH_NODE(node)                                                     \
  GRAPH_OF("[" INPUT("x") "," INPUT("b") "," node "]", "0, 1", "[2, 0, 0]", \
           ATTRS_OF("\"int8\", \"int8\", \"int8\"", "0, 1, 2", "[2, 3], [2, 3], [2, 3]"), "0, 1, 2, 3")
#define SUM "[0, 0, 0], [1, 0, 0]"
#define WITH_ATTRS(types, storages, shapes) GRAPH_OF(NODES, "0, 1", HEADS, ATTRS_OF(types, storages, shapes), ROWS)

static const struct {
  const char* json;
  const char* text;  // of the error
} malformed[] = {
    // No JSON.
    {"", "JSON"},
    {" ", "JSON"},
    {"{", "JSON"},
    {"{\"nodes", "JSON"},
    {"{\"nodes\\", "JSON"},
    {"{\"nodes\"", "JSON"},
    {"{\"nodes\":", "JSON"},
    {"{\"nodes\":}", "JSON"},
    {"{\"nodes\" 1}", "JSON"},
    {"{1: 2}", "JSON"},
    {"{} {}", "JSON"},
    {"[1, 2", "JSON"},
    {"[1 2]", "JSON"},
    {"[1,]", "JSON"},
    {"[,1]", "JSON"},
    {"[1}", "JSON"},
    {"{\"a\": 1]", "JSON"},
    {"[1]]", "JSON"},
    {"]", "JSON"},
    {"{\"a\": 1,}", "JSON"},
    {"\x01", "JSON"},
    {DEEP8 DEEP8 DEEP8 DEEP8 "[", "JSON"},
    {DEEP8 DEEP8 DEEP8 DEEP8 "1", "JSON"},
    {GRAPH "x", "JSON"},
    // No lists.
    {"{}", "lists"},
    {"[]", "lists"},
    {"1", "lists"},
    {"\"nodes\"", "lists"},
    {GRAPH_OF("{}", "", "", ATTRS_OF("", "", ""), "0"), "lists"},
    {GRAPH_OF("[]", "", "", "[]", "0"), "lists"},
    {GRAPH_OF("[]", "", "", "{\"dltype\": [\"list_str\"]}", "0"), "lists"},
    {GRAPH_OF("[]", "", "", "{\"dltype\": [\"list_str\", {}]}", "0"), "lists"},
    {GRAPH_OF("[]", "", "", "{\"dltype\": [\"list_str\", []]}", "0"), "attrs"},
    {WITH_ATTRS(TYPES ", \"int8\"", STORAGES, SHAPES), "attrs"},
    {WITH_ATTRS(TYPES, STORAGES ", 1", SHAPES), "attrs"},
    {WITH_ATTRS(TYPES, STORAGES, SHAPES ", [1]"), "attrs"},
    // Rows.
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, "0, 1, 2, 3, 5"), "node_row_ptr"},
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, ROWS ", 5"), "node_row_ptr"},
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, "1, 1, 2, 3, 4, 5"), "node_row_ptr"},
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, "0, 1, 3, 2, 4, 5"), "node_row_ptr"},
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, "0, 1, 2, 3, 4, 6"), "node_row_ptr"},
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, "0, 1, 2, 3, 4, 4294967301"), "node_row_ptr"},
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, "0, 1, 2, 3, 4, 5.0"), "node_row_ptr"},
    {GRAPH_OF(NODES, "0, 1", HEADS, ATTRS, "0, 1, 2, -1, 4, 5"), "node_row_ptr"},
    {GRAPH_OF("[]", "", "", ATTRS_OF("", "", ""), "[]"), "node_row_ptr"},
    // Nodes.
    {WITH_NODE("{}"), "op"},
    {WITH_NODE("[]"), "op"},
    {WITH_NODE("\"op\""), "op"},
    {WITH_NODE(OP_OF("tvm_ope", "add", "1", "0", SUM)), "op"},
    {WITH_NODE(OP_OF("tvm", "add", "1", "0", SUM)), "op"},
    {WITH_NODE("{\"op\": \"tvm_op\", \"inputs\": []}"), "op"},
    {WITH_NODE("{\"op\": \"tvm_op\", \"attrs\": {\"func_name\": 1}, \"inputs\": []}"), "op"},
    {WITH_NODE(OP_OF("tvm_op", "add", "2", "0", SUM)), "num_outputs"},
    {WITH_NODE(OP_OF("tvm_op", "add", "", "0", SUM)), "num_outputs"},
    {WITH_NODE(OP_OF("tvm_op", "add", "1x", "0", SUM)), "num_outputs"},
    {WITH_NODE(OP_OF("tvm_op", "add", "1", "1", SUM)), "flatten_data"},
    {WITH_NODE("{\"op\": \"tvm_op\", \"attrs\": {\"func_name\": \"add\", \"num_outputs\": \"1\"}}"), "inputs"},
    {WITH_NODE(OP("add", "[0, 0, 0], [2, 0, 0]")), "entry"},  // itself
    {WITH_NODE(OP("add", "[0, 0, 0], [3, 0, 0]")), "entry"},
    {WITH_NODE(OP("add", "[0, 0, 0], [2147483640, 0, 0]")), "entry"},
    {WITH_NODE(OP("add", "[0, 0, 0], [-1, 0, 0]")), "entry"},
    {WITH_NODE(OP("add", "[0, 0, 0], [1, 1, 0]")), "entry"},
    {WITH_NODE(OP("add", "[0, 0, 0], [1]")), "entry"},
    {WITH_NODE(OP("add", "[0, 0, 0], []")), "entry"},
    {WITH_NODE(OP("add", "[0, 0, 0], 1")), "entry"},
    {WITH_NODE(OP("add", "[0, 0, 0], [[1], 0, 0]")), "entry"},
    {GRAPH_OF("[" INPUT("x") "," OP("__nop", "[1, 0, 0]") "," INPUT("b") "]", "0, 2", "[1, 0, 0]",
              ATTRS_OF("\"int8\", \"int8\", \"int8\"", "0, 1, 2", "[2], [2], [2]"), "0, 1, 2, 3"),
     "entry"},
    // Inputs and outputs.
    {GRAPH_OF(NODES, "0, 5", HEADS, ATTRS, ROWS), "arg_nodes"},
    {GRAPH_OF(NODES, "0, 2", HEADS, ATTRS, ROWS), "arg_nodes"},  // an operator
    {GRAPH_OF(NODES, "0, \"a\"", HEADS, ATTRS, ROWS), "arg_nodes"},
    {GRAPH_OF("[{\"op\": \"null\"}]", "0", "", ATTRS_OF("\"int8\"", "0", "[1]"), "0, 1"), "arg_nodes"},
    {GRAPH_OF("[" INPUT("x") "]", "0", "", ATTRS_OF("", "", ""), "0, 0"), "arg_nodes"},  // without an output
    {GRAPH_OF(NODES, "0, 1", "[5, 0, 0]", ATTRS, ROWS), "entry"},
    {GRAPH_OF(NODES, "0, 1", "[4, 1, 0]", ATTRS, ROWS), "entry"},
    {GRAPH_OF(NODES, "0, 1", "4", ATTRS, ROWS), "entry"},
    // Storages, types, shapes.
    {WITH_ATTRS(TYPES, "0, 1, 2, 2, 5", SHAPES), "storage_id"},
    {WITH_ATTRS(TYPES, "0, 1, 2, 2, 1000000000", SHAPES), "storage_id"},
    {WITH_ATTRS(TYPES, "0, 1, 2, 2, -1", SHAPES), "storage_id"},
    {WITH_ATTRS(TYPES, "0, 1, 2, 2, 18446744073709551616", SHAPES), "storage_id"},
    {WITH_ATTRS("1, \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"int\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"int0\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"int65\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"int8x\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"int8x0\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"int8x65536\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"int8 \", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"handle\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS("\"bools\", \"int8\", \"int8\", \"int8\", \"int16\"", STORAGES, SHAPES), "dltype"},
    {WITH_ATTRS(TYPES, STORAGES, "[2, 3], [2, 3], [2, 3], [6], 6"), "shape"},
    {WITH_ATTRS(TYPES, STORAGES, "[2, 3], [2, 3], [2, 3], [6], [-6]"), "shape"},
    {WITH_ATTRS(TYPES, STORAGES, "[2, 3], [2, 3], [2, 3], [6], [99999999999999999999]"), "shape"},
    {WITH_ATTRS(TYPES, STORAGES, "[2, 3], [2, 3], [2, 3], [6], [65536, 65536]"), "shape"},
    {WITH_ATTRS(TYPES, STORAGES, "[2, 3], [2, 3], [2, 3], [6], [\"a\"]"), "shape"},
};

static void test_malformed_graphs(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  for (size_t i = 0; i < (sizeof malformed / sizeof malformed[0]); i++) {
    TVMGraphExecutor* ex = NULL;
    char text[64];
    const int error = make(m, malformed[i].json, &ex);
    if (error != kTvmErrorFunctionCallInvalidArg) {
      print_error("%d for %s\n", error, malformed[i].json);
    }
    assert_int_equal(error, kTvmErrorFunctionCallInvalidArg);
    (void)snprintf(text, sizeof text, "malformed graph: %s", malformed[i].text);
    if (strcmp(TVMGetLastError(), text) != 0) {
      print_error("for %s\n", malformed[i].json);
    }
    assert_string_equal(TVMGetLastError(), text);
    assert_null(ex);
    assert_int_equal(platform_memory.count, 0);
  }
}

static void test_bad_modules(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMGraphExecutor* ex = NULL;
  assert_int_equal(make(m, WITH_NODE(OP("sub", SUM)), &ex), kTvmErrorFunctionNameNotFound);
  assert_string_equal(TVMGetLastError(), "not found: sub");
  assert_int_equal(make(m, WITH_NODE(OP("%", SUM)), &ex), kTvmErrorFunctionNameNotFound);
  assert_int_equal(make((void*)(uintptr_t)0x8001, GRAPH, &ex), -1);
  // More memory than there is.
  assert_int_equal(make(m, WITH_ATTRS(TYPES, STORAGES, "[2, 3], [2, 3], [2, 3], [6], [1000000000]"), &ex),
                   kTvmErrorPlatformNoMemory);
  assert_null(ex);
  assert_int_equal(platform_memory.count, 0);
}

// Every beginning of a graph, and every graph in which one byte is another, is refused or makes an executor.
static void test_damaged_graphs(void** state) {
  (void)state;
  static const char bytes[] = "\"\\[]{},:0 9x";
  const TVMModuleHandle m = start();
  char json[] = GRAPH;
  for (size_t i = 0; i < (sizeof json - 1U); i++) {
    const char right = json[i];
    for (size_t k = 0; k < sizeof bytes; k++) {  // with the NUL
      TVMGraphExecutor* ex = NULL;
      json[i] = bytes[k];
      if (make(m, json, &ex) == 0) {
        assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
      }
      assert_int_equal(platform_memory.count, 0);
    }
    json[i] = right;
  }
}

// Parameter files that are cut off or in which one byte is another.
static void test_damaged_parameters(void** state) {
  (void)state;
  const TVMModuleHandle m = start();
  TVMGraphExecutor* ex = NULL;
  static const char right[] = PARAMS;
  const size_t bytes = sizeof right - 1U;
  char blob[sizeof right + 1U];
  assert_int_equal(make(m, GRAPH, &ex), 0);
  for (size_t i = 0; i < bytes; i++) {
    assert_int_equal(load(ex, right, i), kTvmErrorFunctionCallInvalidArg);
    (void)memcpy(blob, right, bytes);
    blob[i] = (char)(blob[i] ^ 0x81);
    // Not checked: the reserved words, the device, the data.
    const bool any = ((i >= 8U) && (i < 16U)) || ((i >= 57U) && (i < 73U)) || (i >= (bytes - 6U));
    assert_int_equal(load(ex, blob, bytes), any ? 0 : kTvmErrorFunctionCallInvalidArg);
  }
  assert_string_equal(TVMGetLastError(), "parameters do not match the graph");
  (void)memcpy(blob, right, bytes);
  assert_int_equal(load(ex, blob, bytes + 1U), kTvmErrorFunctionCallInvalidArg);  // a byte too many
  assert_int_equal(TVMGraphExecutor_Release(&ex), 0);
}

// ---- The module --------------------------------------------------------------------------------------------------

static int create(TVMModuleHandle library, const char* json, TVMModuleHandle* m) {
  TVMValue args[4];
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  TVMValue r;
  int rc;
  args[0].v_str = json;
  args[1].v_handle = library;
  args[2].v_int64 = kDLCPU;
  args[3].v_int64 = 0;
  const int error = call_global("tvm.graph_executor.create", args, codes, 4, &r, &rc);
  if (error == 0) {
    assert_int_equal(rc, kTVMModuleHandle);
    *m = r.v_handle;
  }
  return error;
}

static int call(TVMModuleHandle m, const char* name, int n, TVMValue* args, int* codes, TVMValue* r) {
  TVMFunctionHandle f = NULL;
  int rc;
  assert_int_equal(TVMModGetFunction(m, name, 0, &f), 0);
  return TVMFuncCall(f, args, codes, n, r, &rc);
}

static int call_one(TVMModuleHandle m, const char* name, int code, TVMValue arg, TVMValue* r) {
  return call(m, name, 1, &arg, &code, r);
}

static TVMModuleHandle start_module(void) {
  const TVMModuleHandle library = start();
  assert_int_equal(TVMGraphExecutorModule_Register(), kTvmErrorNoError);
  assert_int_equal(TVMGraphExecutorModule_Register(), kTvmErrorFunctionAlreadyDefined);
  return library;
}

static void test_module_functions(void** state) {
  (void)state;
  const TVMModuleHandle library = start_module();
  const int before = platform_memory.count;
  TVMModuleHandle m = NULL;
  TVMValue r;
  const TVMByteArray params = {PARAMS, sizeof PARAMS - 1U};
  assert_int_equal(create(library, GRAPH, &m), 0);
  assert_int_equal(call(m, "get_num_inputs", 0, NULL, NULL, &r), 0);
  assert_int_equal(r.v_int64, 2);
  assert_int_equal(call(m, "get_num_outputs", 0, NULL, NULL, &r), 0);
  assert_int_equal(r.v_int64, 2);
  assert_int_equal(call_one(m, "get_input_index", kTVMStr, (TVMValue){.v_str = P0}, &r), 0);
  assert_int_equal(r.v_int64, 1);
  assert_int_equal(call_one(m, "load_params", kTVMBytes, (TVMValue){.v_handle = (void*)(uintptr_t)&params}, &r), 0);

  assert_int_equal(call_one(m, "get_input", kTVMStr, (TVMValue){.v_str = "x"}, &r), 0);
  DLTensor* const x = r.v_handle;
  assert_int_equal(boardsmith_memory_known(x->data, 6, 1), 1);
  int8_t data[6] = {1, 2, 3, 4, 5, 6};
  DLTensor in = *x;
  in.data = data;
  TVMValue args[2] = {{.v_str = "x"}, {.v_handle = &in}};
  int codes[2] = {kTVMStr, kTVMDLTensorHandle};
  assert_int_equal(call(m, "set_input", 2, args, codes, &r), 0);
  data[0] = 99;  // it was copied
  assert_int_equal(call(m, "run", 0, NULL, NULL, &r), 0);
  assert_int_equal(call_one(m, "get_output", kTVMArgInt, (TVMValue){.v_int64 = 0}, &r), 0);
  DLTensor* const sum = r.v_handle;
  assert_int_equal(sum->ndim, 1);
  assert_int_equal(sum->shape[0], 6);
  assert_memory_equal(sum->data, "\2\4\6\10\12\14", 6);
  run_error = 0x77;
  assert_int_equal(call(m, "run", 0, NULL, NULL, &r), 0x77);

  // References outlive the module, their data do not.
  const void* const address = sum->data;
  assert_int_equal(TVMArrayFree(x), 0);
  assert_int_equal(TVMArrayFree(x), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMModFree(m), 0);
  assert_int_equal(boardsmith_memory_known(address, 6, 0), 0);
  assert_int_equal(platform_memory.count, before + 1);
  TVMModuleHandle again = NULL;
  assert_int_equal(create(library, GRAPH, &again), 0);
  assert_int_equal(TVMArrayFree(sum), 0);
  assert_int_equal(TVMModFree(again), 0);
  assert_int_equal(platform_memory.count, before);
}

static void test_module_refuses(void** state) {
  (void)state;
  const TVMModuleHandle library = start_with(&linked_lib);
  TVMModuleHandle m = NULL;
  TVMValue r;
  assert_int_equal(TVMGraphExecutorModule_Register(), kTvmErrorNoError);
  linked_id = 0;
  assert_int_equal(create(library, GRAPH, &m), 0);
  static const char* const one_argument[] = {"get_input", "get_input_index", "get_output", "load_params"};
  for (size_t i = 0; i < 4U; i++) {
    assert_int_equal(call(m, one_argument[i], 0, NULL, NULL, &r), kTvmErrorFunctionCallNumArguments);
    assert_int_equal(call_one(m, one_argument[i], kTVMOpaqueHandle, (TVMValue){.v_int64 = 0}, &r),
                     kTvmErrorFunctionCallWrongArgType);
  }
  static const int64_t bad[] = {2, -1, INT64_MAX, INT64_MIN, 1LL << 32};
  for (size_t i = 0; i < 5U; i++) {
    assert_int_equal(call_one(m, "get_input", kTVMArgInt, (TVMValue){.v_int64 = bad[i]}, &r),
                     kTvmErrorExecutorModuleNoSuchInput);
    assert_int_equal(call_one(m, "get_output", kTVMArgInt, (TVMValue){.v_int64 = bad[i]}, &r),
                     kTvmErrorExecutorModuleNoSuchInput);
  }
  assert_int_equal(call_one(m, "get_input", kTVMStr, (TVMValue){.v_str = "y"}, &r), kTvmErrorExecutorModuleNoSuchInput);
  assert_string_equal(TVMGetLastError(), "not found: y");
  assert_int_equal(call_one(m, "get_output", kTVMStr, (TVMValue){.v_str = "x"}, &r), kTvmErrorFunctionCallWrongArgType);
  assert_int_equal(call_one(m, "run", kTVMArgInt, (TVMValue){.v_int64 = 0}, &r), kTvmErrorFunctionCallNumArguments);
  assert_int_equal(call(m, "get_input_info", 0, NULL, NULL, &r), kTvmErrorFunctionCallNotImplemented);
  assert_int_equal(call(m, "share_params", 0, NULL, NULL, &r), kTvmErrorFunctionCallNotImplemented);
  int8_t data[12] = {0};
  int64_t shape[1] = {6};
  DLTensor in = {data, cpu, 1, int8, shape, NULL, 0};
  TVMValue args[2] = {{.v_str = P0}, {.v_handle = &in}};
  int codes[2] = {kTVMStr, kTVMOpaqueHandle};
  assert_int_equal(call(m, "set_input", 2, args, codes, &r), kTvmErrorFunctionCallWrongArgType);
  codes[1] = kTVMDLTensorHandle;
  assert_int_equal(call(m, "set_input", 2, args, codes, &r), 0);
  shape[0] = 7;
  assert_int_equal(call(m, "set_input", 2, args, codes, &r), kTvmErrorFunctionCallInvalidArg);
  shape[0] = 6;
  args[0].v_str = "x";  // part of the module: cannot be written
  assert_int_equal(call(m, "set_input", 2, args, codes, &r), kTvmErrorFunctionCallInvalidArg);
  assert_memory_equal(linked, "\12\24\36\50\62\74", 6);
}

static void test_create_refuses(void** state) {
  (void)state;
  const TVMModuleHandle library = start_module();
  const int before = platform_memory.count;
  TVMModuleHandle m = NULL;
  TVMModuleHandle again = NULL;
  TVMValue args[4];
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  TVMValue r;
  int rc;
  args[0].v_str = GRAPH;
  args[1].v_handle = library;
  args[2].v_int64 = kDLCPU;
  args[3].v_int64 = 0;
  assert_int_equal(call_global("tvm.graph_executor.create", args, codes, 3, &r, &rc),
                   kTvmErrorFunctionCallNumArguments);
  for (int i = 0; i < 4; i++) {
    const int right = codes[i];
    codes[i] = kTVMOpaqueHandle;
    assert_int_equal(call_global("tvm.graph_executor.create", args, codes, 4, &r, &rc),
                     kTvmErrorFunctionCallWrongArgType);
    codes[i] = right;
  }
  args[2].v_int64 = kDLCUDA;
  assert_int_equal(call_global("tvm.graph_executor.create", args, codes, 4, &r, &rc),
                   kTvmErrorExecutorModuleBadContext);
  args[2].v_int64 = kDLCPU;
  args[3].v_int64 = 1;
  assert_int_equal(call_global("tvm.graph_executor.create", args, codes, 4, &r, &rc),
                   kTvmErrorExecutorModuleBadContext);
  assert_int_equal(create(library, "{}", &m), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(create(library, GRAPH, &m), 0);
  assert_int_equal(create(library, GRAPH, &again), kTvmErrorExecutorModuleAlreadyCreated);
  assert_int_equal(TVMModFree(m), 0);
  // No slot for it: nothing stays.
  TVMModuleHandle other;
  assert_int_equal(TVMModCreateFromCModule(&lib, &other), 0);
  assert_int_equal(create(library, GRAPH, &m), -1);
  assert_int_equal(platform_memory.count, before);
  assert_int_equal(TVMModFree(other), 0);
  assert_int_equal(create(library, GRAPH, &m), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_executor),         cmocka_unit_test(test_other_graph),
      cmocka_unit_test(test_linked_parameter), cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_malformed_graphs), cmocka_unit_test(test_bad_modules),
      cmocka_unit_test(test_damaged_graphs),   cmocka_unit_test(test_damaged_parameters),
      cmocka_unit_test(test_module_functions), cmocka_unit_test(test_module_refuses),
      cmocka_unit_test(test_create_refuses),
  };
  return cmocka_run_group_tests_name("graph_executor", tests, NULL, NULL);
}
