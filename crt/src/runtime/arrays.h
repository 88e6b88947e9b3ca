// SPDX-License-Identifier: Apache-2.0
//
// Arrays with a reference count: creation and release inside the runtime.
#ifndef BOARDSMITH_RUNTIME_ARRAYS_H_
#define BOARDSMITH_RUNTIME_ARRAYS_H_

#include <stdint.h>
#include <boardsmith/metadata.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>

#include "memory.h"

// Set in the reference count of an array that an executor uses. TVMArrayFree does not clear it.
#define ARRAY_IN_USE 0x80000000U

// Makes *array, which must be all zero, from its description. Its data are zero, too.
int boardsmith_array_make(const struct TVMTensorInfo* info, TVMNDArray* array);

// Drops one reference to an array, and frees the array with the last one. Returns an error if the array or the
// reference does not exist. No effect on an array of another owner.
int boardsmith_array_free(const DLTensor* handle, unsigned owner);

// Keeps only these bits of all reference counts of a table, frees the arrays without references, and then the table if
// all are free. Returns an error if table points to NULL.
int boardsmith_arrays_free_unused(block_t** table, uint32_t keep);

// Frees the result of a call after use: bytes, or a reference to an array of this owner.
void boardsmith_result_free(const TVMValue* value, int type, unsigned owner);

#endif  // BOARDSMITH_RUNTIME_ARRAYS_H_
