// SPDX-License-Identifier: Apache-2.0
//
// Loads a graph's parameters from the bytes that TVM's save_param_dict writes: a list of names, then a list of arrays.
// They come from the host and are checked before the first one is copied.
#include <stdbool.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>

#include "crt_config.h"
#include "graph_executor_parts.h"
#include "state.h"

#ifndef BOARDSMITH_NO_GRAPH_EXECUTOR

enum { ARRAY_RANK = 24, ARRAY_TYPE = 28, ARRAY_SHAPE = 32 };  // offsets in an array; its size and data follow
#define LIST_MAGIC 0xF7E58D4F05049CB7U
#define ARRAY_MAGIC 0xDD5E40F096B4A13FU

typedef struct bytes {
  const uint8_t* at;
  size_t left;
} bytes_t;

// Returns the next n bytes, NULL if there are not so many.
static const uint8_t* take(bytes_t* b, uint64_t n) {
  if (n > b->left) {
    return NULL;
  }
  const uint8_t* const p = b->at;
  b->at = &p[n];
  b->left -= (size_t)n;
  return p;
}

// Reads a number of eight bytes. Returns false if there are not so many.
static bool take_number(bytes_t* b, uint64_t* number) {
  const uint8_t* const p = take(b, sizeof *number);
  if (p != NULL) {
    (void)memcpy(number, p, sizeof *number);
  }
  return p != NULL;
}

static const uint8_t* take_name(bytes_t* b, uint64_t* length) {
  return take_number(b, length) ? take(b, *length) : NULL;
}

// Reads an array of the input's type and shape. Returns its data, and their size; NULL if it is another one.
static const uint8_t* take_array(bytes_t* b, const DLTensor* t, size_t* size_bytes) {
  static const uint64_t magic = ARRAY_MAGIC;
  const uint8_t* const p = take(b, (uint64_t)ARRAY_SHAPE);
  const size_t shape_bytes = (size_t)(uint32_t)t->ndim * sizeof(int64_t);
  uint64_t bytes;
  if ((p == NULL) || (memcmp(p, &magic, sizeof magic) != 0) ||
      (memcmp(&p[ARRAY_RANK], &t->ndim, sizeof t->ndim) != 0) ||
      (memcmp(&p[ARRAY_TYPE], &t->dtype, sizeof t->dtype) != 0)) {
    return NULL;
  }
  const uint8_t* const shape = take(b, shape_bytes);
  if ((shape == NULL) || (memcmp(shape, t->shape, shape_bytes) != 0) || !take_number(b, &bytes) ||
      (boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, size_bytes) != 0) || (bytes != *size_bytes)) {
    return NULL;
  }
  return take(b, bytes);
}

// Checks the parameters or, if copy is set, copies them.
static bool load(const TVMGraphExecutor* ex, bytes_t names, bool copy) {
  uint64_t magic = 0;
  uint64_t reserved;
  uint64_t count = 0;
  uint64_t arrays = 0;
  uint64_t length;
  if (!take_number(&names, &magic) || (magic != LIST_MAGIC) || !take_number(&names, &reserved) ||
      !take_number(&names, &count)) {
    return false;
  }
  bytes_t b = names;
  for (uint64_t i = 0; i < count; i++) {
    if (take_name(&b, &length) == NULL) {
      return false;
    }
  }
  if (!take_number(&b, &arrays) || (arrays != count)) {
    return false;
  }
  for (uint64_t i = 0; i < count; i++) {
    const uint8_t* const name = take_name(&names, &length);
    const int input = boardsmith_graph_input(ex, (const char*)name, (size_t)length);
    if (input < 0) {
      return false;
    }
    const DLTensor* const t = ex->inputs[input].tensor;
    size_t bytes;
    const uint8_t* const data = take_array(&b, t, &bytes);
    if ((data == NULL) || (boardsmith_tensor_holds(t, bytes, 1) == 0)) {
      return false;
    }
    if (copy) {
      (void)memcpy(tensor_data(t), data, bytes);
    }
  }
  return b.left == 0U;
}

int TVMGraphExecutor_LoadParams(TVMGraphExecutor* executor, const char* param_blob, const uint32_t param_size) {
  const bytes_t all = {(const uint8_t*)param_blob, param_size};
  if (!load(executor, all, false)) {
    TVMAPIErrorf("parameters do not match the graph");
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  (void)load(executor, all, true);
  return 0;
}

#endif  // BOARDSMITH_NO_GRAPH_EXECUTOR
