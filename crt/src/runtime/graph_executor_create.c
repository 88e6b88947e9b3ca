// SPDX-License-Identifier: Apache-2.0
//
// Makes a graph executor from the graph's JSON. The graph comes from the host: each of its numbers is checked before it
// is used.
#include <stdbool.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>

#include "crt_config.h"
#include "graph_executor_json.h"
#include "graph_executor_parts.h"
#include "state.h"
#include "text.h"

#ifndef BOARDSMITH_NO_GRAPH_EXECUTOR

#ifdef TVM_CRT_MAX_ARGS
#define ARGUMENTS_MOST ((uint32_t)(TVM_CRT_MAX_ARGS))
#else
#define ARGUMENTS_MOST 0xffffU
#endif
#define ITEMS_MOST 0xffffU      // in a list of the graph
#define EXTENTS_MOST 0xffffffU  // of all shapes together: their size fits a size_t
#define BYTES_MOST 0xffffffU    // of the names of all inputs, which may be one name many times
#define LINKED "_lookup_linked_param"

// ---- The graph in JSON ----------------------------------------------------------------------------------------------

typedef struct node {
  const char* json;  // NULL behind the last node
  uint32_t entry;    // its first output; the next node's is behind its last
  bool is_call;
} node_t;

typedef struct graph {
  const char* nodes;
  const char* arg_nodes;
  const char* heads;
  const char* rows;
  const char* types;
  const char* storage_ids;
  const char* shapes;
  uint32_t num_nodes;
  uint32_t num_entries;
  uint32_t num_storages;
  uint32_t num_extents;  // of all shapes
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t num_calls;
  uint32_t num_args;   // of all calls
  uint32_t most_args;  // of one call
  size_t name_bytes;   // of all inputs
  size_t text_bytes;   // of the longest name of an operator
  node_t* node;
  char* text;
} graph_t;

// Sets the last error.
static int malformed(const char* part) {
  TVMAPIErrorf("malformed graph: %s", part);
  return (int)kTvmErrorFunctionCallInvalidArg;
}

// Returns the list of a graph's attribute, which is ["type of list", list].
static const char* list_of(const char* attributes, const char* key) {
  return boardsmith_json_next(boardsmith_json_first(boardsmith_json_member(attributes, key), '['));
}

static const char* attribute_of(const char* node, const char* key) {
  const char* attributes = boardsmith_json_member(node, "attrs");
  if (attributes == NULL) {
    attributes = boardsmith_json_member(node, "attr");
  }
  return boardsmith_json_member(attributes, key);
}

// Finds the graph's lists and counts their items.
static int find_lists(graph_t* g, const char* json) {
  const char* const root = boardsmith_json_parse(json);
  if (root == NULL) {
    return malformed("JSON");
  }
  const char* const attributes = boardsmith_json_member(root, "attrs");
  g->nodes = boardsmith_json_member(root, "nodes");
  g->arg_nodes = boardsmith_json_member(root, "arg_nodes");
  g->heads = boardsmith_json_member(root, "heads");
  g->rows = boardsmith_json_member(root, "node_row_ptr");
  g->types = list_of(attributes, "dltype");
  g->storage_ids = list_of(attributes, "storage_id");
  g->shapes = list_of(attributes, "shape");
  g->num_nodes = boardsmith_json_count(g->nodes);
  g->num_inputs = boardsmith_json_count(g->arg_nodes);
  g->num_outputs = boardsmith_json_count(g->heads);
  g->num_entries = boardsmith_json_count(g->types);
  // A list that does not exist has UINT32_MAX items.
  if ((g->num_nodes > ITEMS_MOST) || (g->num_inputs > ITEMS_MOST) || (g->num_outputs > ITEMS_MOST) ||
      (g->num_entries > ITEMS_MOST)) {
    return malformed("lists");
  }
  if (boardsmith_json_count(g->rows) != (g->num_nodes + 1U)) {
    return malformed("node_row_ptr");
  }
  if ((boardsmith_json_count(g->storage_ids) != g->num_entries) ||
      (boardsmith_json_count(g->shapes) != g->num_entries)) {
    return malformed("attrs");
  }
  return 0;
}

// Allocates the table of nodes, and space for the name of an operator behind it. The caller frees g->node.
static int take_nodes(graph_t* g) {
  void* memory;
  for (const char* p = boardsmith_json_first(g->nodes, '['); p != NULL; p = boardsmith_json_next(p)) {
    const size_t bytes = boardsmith_json_text_bytes(attribute_of(p, "func_name"));
    g->text_bytes = (bytes > g->text_bytes) ? bytes : g->text_bytes;
  }
  const size_t table_bytes = (g->num_nodes + 1U) * sizeof(node_t);
  const int error = boardsmith_take(table_bytes + g->text_bytes + 1U, &memory);
  if (error == 0) {
    (void)memset(memory, 0, table_bytes);
    g->node = memory;
    g->text = &((char*)memory)[table_bytes];
  }
  return error;
}

// Fills in the nodes' first entries.
static int read_rows(graph_t* g) {
  uint32_t last = 0;
  node_t* node = g->node;
  for (const char* p = boardsmith_json_first(g->rows, '['); p != NULL; p = boardsmith_json_next(p)) {
    if ((boardsmith_json_number(p, &node->entry) == 0) || (node->entry < last)) {
      return malformed("node_row_ptr");
    }
    last = node->entry;
    node++;
  }
  return ((g->node->entry == 0U) && (last == g->num_entries)) ? 0 : malformed("node_row_ptr");
}

// Reads [node, output, version], an output of one of the first nodes.
static int read_entry(const graph_t* g, const char* json, uint32_t num_nodes, uint32_t* entry) {
  uint32_t id;
  uint32_t output;
  const char* const first = boardsmith_json_first(json, '[');
  if ((boardsmith_json_number(first, &id) == 0) ||
      (boardsmith_json_number(boardsmith_json_next(first), &output) == 0) || (id >= num_nodes) ||
      (output >= (g->node[id + 1U].entry - g->node[id].entry))) {
    return malformed("entry");
  }
  *entry = g->node[id].entry + output;
  return 0;
}

// Reads a node that is not an input. Those without a function only give their input another shape.
static int read_call(graph_t* g, node_t* node) {
  const uint32_t inputs = boardsmith_json_count(boardsmith_json_member(node->json, "inputs"));
  const uint32_t outputs = node[1].entry - node->entry;
  uint32_t number;
  const char* const name = attribute_of(node->json, "func_name");
  if ((boardsmith_json_equals(boardsmith_json_member(node->json, "op"), "tvm_op") == 0) ||
      (boardsmith_json_text_bytes(name) == 0U)) {
    return malformed("op");
  }
  if ((boardsmith_json_number(attribute_of(node->json, "num_outputs"), &number) == 0) || (number != outputs)) {
    return malformed("num_outputs");
  }
  if ((attribute_of(node->json, "flatten_data") != NULL) &&
      (boardsmith_json_equals(attribute_of(node->json, "flatten_data"), "0") == 0)) {
    return malformed("flatten_data");
  }
  if ((inputs > ITEMS_MOST) || ((inputs + outputs) > ARGUMENTS_MOST)) {
    return malformed("inputs");
  }
  if (boardsmith_json_equals(name, "__nop") == 0) {
    node->is_call = true;
    g->num_calls++;
    g->num_args += inputs + outputs;
    g->most_args = ((inputs + outputs) > g->most_args) ? (inputs + outputs) : g->most_args;
  }
  return 0;
}

// Fills in the nodes, and counts calls and their arguments.
static int read_nodes(graph_t* g) {
  int error = read_rows(g);
  node_t* node = g->node;
  for (const char* p = boardsmith_json_first(g->nodes, '['); (p != NULL) && (error == 0); p = boardsmith_json_next(p)) {
    node->json = p;
    if (boardsmith_json_equals(boardsmith_json_member(p, "op"), "null") == 0) {
      error = read_call(g, node);
    }
    node++;
  }
  return error;
}

// Returns the name of the input at json, which is a node's number; NULL if there is none.
static const char* input_name(const graph_t* g, const char* json, uint32_t* entry) {
  uint32_t id;
  if ((boardsmith_json_number(json, &id) == 0) || (id >= g->num_nodes) ||
      (g->node[id].entry == g->node[id + 1U].entry) ||
      (boardsmith_json_equals(boardsmith_json_member(g->node[id].json, "op"), "null") == 0)) {
    return NULL;
  }
  *entry = g->node[id].entry;
  return boardsmith_json_member(g->node[id].json, "name");
}

// Counts the bytes of the inputs' names, the storages, and the extents of all shapes.
static int count_rest(graph_t* g) {
  uint32_t number;
  for (const char* p = boardsmith_json_first(g->arg_nodes, '['); p != NULL; p = boardsmith_json_next(p)) {
    const size_t bytes = boardsmith_json_text_bytes(input_name(g, p, &number));
    if ((bytes == 0U) || (bytes > (BYTES_MOST - g->name_bytes))) {
      return malformed("arg_nodes");
    }
    g->name_bytes += bytes;
  }
  for (const char* p = boardsmith_json_first(g->storage_ids, '['); p != NULL; p = boardsmith_json_next(p)) {
    if ((boardsmith_json_number(p, &number) == 0) || (number >= g->num_entries)) {
      return malformed("storage_id");
    }
    g->num_storages = (number >= g->num_storages) ? (number + 1U) : g->num_storages;
  }
  for (const char* p = boardsmith_json_first(g->shapes, '['); p != NULL; p = boardsmith_json_next(p)) {
    const uint32_t extents = boardsmith_json_count(p);
    if (extents > (EXTENTS_MOST - g->num_extents)) {
      return malformed("shape");
    }
    g->num_extents += extents;
  }
  return 0;
}

// Reads a data type such as "float32" or "int8x4".
static int read_type(const char* json, DLDataType* type) {
  static const struct {
    const char* name;
    uint8_t code;
  } kinds[] = {{"int", kDLInt}, {"uint", kDLUInt}, {"float", kDLFloat}, {"bfloat", kDLBfloat}};
  uint32_t bits = 1;
  uint32_t lanes = 1;
  const char* p = NULL;
  type->code = (uint8_t)kDLUInt;
  if (*json == '"') {
    p = boardsmith_text_after(&json[1], "bool");
    for (unsigned i = 0; (p == NULL) && (i < (sizeof kinds / sizeof kinds[0])); i++) {
      p = boardsmith_text_after(&json[1], kinds[i].name);
      if (p != NULL) {
        type->code = kinds[i].code;
        p = boardsmith_json_digits(p, &bits);
        break;
      }
    }
  }
  if ((p != NULL) && (*p == 'x')) {
    p = boardsmith_json_digits(&p[1], &lanes);
  }
  if ((p == NULL) || (*p != '"') || (bits == 0U) || (bits > 64U) || (lanes == 0U) || (lanes > 0xffffU)) {
    return malformed("dltype");
  }
  type->bits = (uint8_t)bits;
  type->lanes = (uint16_t)lanes;
  return 0;
}

// ---- Creation -------------------------------------------------------------------------------------------------------

// Fills in the entries' types and shapes, and the sizes of the storages in their byte_offset.
static int make_entries(const graph_t* g, TVMNDArray* array, TVMNDArray* storages, int64_t* extent) {
  const char* type = boardsmith_json_first(g->types, '[');
  const char* storage_id = boardsmith_json_first(g->storage_ids, '[');
  const char* shape = boardsmith_json_first(g->shapes, '[');
  for (uint32_t i = 0; i < g->num_entries; i++) {
    DLTensor* const t = &array->dl_tensor;
    uint32_t storage = 0;
    size_t bytes;
    const int error = read_type(type, &t->dtype);
    if (error != 0) {
      return error;
    }
    (void)boardsmith_json_number(storage_id, &storage);  // checked before
    t->device.device_type = kDLCPU;
    t->shape = extent;
    for (const char* p = boardsmith_json_first(shape, '['); p != NULL; p = boardsmith_json_next(p)) {
      uint32_t number;
      if (boardsmith_json_number(p, &number) == 0) {
        return malformed("shape");
      }
      *extent = (int64_t)number;
      extent++;
      t->ndim++;
    }
    if (boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes) != 0) {
      return malformed("shape");
    }
    t->data = &storages[storage];  // until it has memory
    if (bytes > storages[storage].dl_tensor.byte_offset) {
      storages[storage].dl_tensor.byte_offset = bytes;
    }
    array->reference_count = ARRAY_IN_USE;
    array++;
    type = boardsmith_json_next(type);
    storage_id = boardsmith_json_next(storage_id);
    shape = boardsmith_json_next(shape);
  }
  return 0;
}

// Stores the address of a parameter that is part of the module, NULL if it is not.
static int find_linked(TVMFunctionHandle lookup, uint32_t storage, void** data) {
  TVMValue id;
  TVMValue result;
  int id_type = (int)kTVMArgInt;
  int type;
  id.v_int64 = (int64_t)storage;
  const int error = TVMFuncCall(lookup, &id, &id_type, 1, &result, &type);
  *data = result.v_handle;
  return error;
}

// Gives the storages memory, and the entries their storage's. Parameters that are part of the module have memory.
static int make_storages(const graph_t* g, TVMModuleHandle module, TVMNDArray* entries, TVMNDArray* storages) {
  static const DLDataType byte = {kDLUInt, 8, 1};
  TVMFunctionHandle lookup = NULL;
  (void)boardsmith_module_find(module, "%", LINKED, &lookup);  // stays NULL if there is none
  boardsmith_runtime.last_error[0] = '\0';
  for (uint32_t i = 0; i < g->num_storages; i++) {
    TVMNDArray* const array = &storages[i];
    const int64_t bytes = (int64_t)array->dl_tensor.byte_offset;
    const struct TVMTensorInfo info = {NULL, &bytes, 1, byte};
    int error = (lookup != NULL) ? find_linked(lookup, i, &array->dl_tensor.data) : 0;
    array->dl_tensor.byte_offset = 0;
    if ((error == 0) && (array->dl_tensor.data == NULL)) {
      error = boardsmith_array_make(&info, array);
    }
    if (error != 0) {
      return error;
    }
    array->reference_count = ARRAY_IN_USE;
  }
  for (uint32_t i = 0; i < g->num_entries; i++) {
    entries[i].dl_tensor.data = ((const TVMNDArray*)entries[i].dl_tensor.data)->dl_tensor.data;
  }
  return 0;
}

// Fills in inputs, with their names, and outputs.
static int make_ends(const graph_t* g, TVMGraphExecutor* ex, char* names) {
  uint32_t entry;
  input_t* input = ex->inputs;
  for (const char* p = boardsmith_json_first(g->arg_nodes, '['); p != NULL; p = boardsmith_json_next(p)) {
    const size_t length = boardsmith_json_text(input_name(g, p, &entry), names);
    input->name = names;
    input->tensor = &ex->entries[entry].dl_tensor;
    names = &names[length + 1U];
    input++;
  }
  DLTensor** output = ex->outputs;
  for (const char* p = boardsmith_json_first(g->heads, '['); p != NULL; p = boardsmith_json_next(p)) {
    const int error = read_entry(g, p, g->num_nodes, &entry);
    if (error != 0) {
      return error;
    }
    *output = &ex->entries[entry].dl_tensor;
    output++;
  }
  return 0;
}

// Fills in the calls. A node may use only outputs of nodes before it.
static int make_calls(const graph_t* g, TVMGraphExecutor* ex, TVMModuleHandle module, TVMValue* arg) {
  operator_call_t* call = ex->calls;
  for (uint32_t i = 0; i < g->num_nodes; i++) {
    const node_t* const node = &g->node[i];
    TVMValue* const args = arg;
    const char* const inputs = boardsmith_json_member(node->json, "inputs");
    for (const char* p = boardsmith_json_first(inputs, '['); p != NULL; p = boardsmith_json_next(p)) {
      uint32_t entry;
      const int error = read_entry(g, p, i, &entry);
      if (error != 0) {
        return error;
      }
      if (node->is_call) {
        arg->v_handle = &ex->entries[entry].dl_tensor;
        arg++;
      }
    }
    if (!node->is_call) {
      continue;
    }
    for (uint32_t entry = node->entry; entry < node[1].entry; entry++) {
      arg->v_handle = &ex->entries[entry].dl_tensor;
      arg++;
    }
    (void)boardsmith_json_text(attribute_of(node->json, "func_name"), g->text);
    const int error = boardsmith_module_find(module, "%", g->text, &call->function);
    if (error != 0) {
      return error;
    }
    call->args = args;
    call->num_args = (uint32_t)(arg - args);
    call++;
  }
  return 0;
}

// Allocates the executor and fills it in. After an error the caller frees the newest table.
static int make(const graph_t* g, TVMModuleHandle module, TVMNDArray* entries) {
  TVMNDArray* const storages = &entries[g->num_entries];
  int64_t* const extents = (int64_t*)(void*)&storages[g->num_storages];
  TVMValue* const args = (TVMValue*)(void*)&extents[g->num_extents];
  TVMGraphExecutor* const ex = (TVMGraphExecutor*)(void*)&args[g->num_args];
  ex->entries = entries;
  ex->inputs = (input_t*)(void*)&ex[1];
  ex->calls = (operator_call_t*)(void*)&ex->inputs[g->num_inputs];
  ex->outputs = (DLTensor**)(void*)&ex->calls[g->num_calls];
  ex->type_codes = (int*)(void*)&ex->outputs[g->num_outputs];
  ex->num_inputs = g->num_inputs;
  ex->num_outputs = g->num_outputs;
  ex->num_calls = g->num_calls;
  for (uint32_t i = 0; i < g->most_args; i++) {
    ex->type_codes[i] = (int)kTVMDLTensorHandle;
  }
  int error = make_entries(g, entries, storages, extents);
  if (error == 0) {
    error = make_ends(g, ex, (char*)(void*)&ex->type_codes[g->most_args]);
  }
  if (error == 0) {
    error = make_calls(g, ex, module, args);
  }
  return (error == 0) ? make_storages(g, module, entries, storages) : error;
}

static int create(graph_t* g, TVMModuleHandle module, TVMGraphExecutor** executor) {
  block_t** const tables = &boardsmith_runtime.memory[MEMORY_TABLES];
  void* memory;
  int error = read_nodes(g);
  if (error == 0) {
    error = count_rest(g);
  }
  if (error == 0) {
    const size_t arrays = g->num_entries + (size_t)g->num_storages;
    const size_t behind = (g->num_extents * sizeof(int64_t)) + (g->num_args * sizeof(TVMValue));
    error = boardsmith_block_take(tables, arrays * sizeof(TVMNDArray),
                                  behind + sizeof(TVMGraphExecutor) + (g->num_inputs * sizeof(input_t)) +
                                      (g->num_calls * sizeof(operator_call_t)) + (g->num_outputs * sizeof(DLTensor*)) +
                                      (g->most_args * sizeof(int)) + g->name_bytes,
                                  &memory);
    if (error == 0) {
      error = make(g, module, memory);
      if (error == 0) {
        *executor = (TVMGraphExecutor*)((uintptr_t)memory + (arrays * sizeof(TVMNDArray)) + behind);
      } else {
        (void)boardsmith_arrays_free_unused(tables, 0);  // the newest table is the first one
      }
    }
  }
  return error;
}

int TVMGraphExecutor_Create(const char* sym_json, TVMModuleHandle module_handle, const DLDevice* devices,
                            TVMGraphExecutor** executor) {
  (void)devices;  // there is one
  graph_t g;
  (void)memset(&g, 0, sizeof g);
  int error = find_lists(&g, sym_json);
  if (error == 0) {
    error = take_nodes(&g);
  }
  if (error == 0) {
    error = create(&g, module_handle, executor);
    (void)boardsmith_give(g.node);
  }
  return error;
}

#endif  // BOARDSMITH_NO_GRAPH_EXECUTOR
