// SPDX-License-Identifier: Apache-2.0
//
// Arrays with a reference count, as the runtime itself makes and frees them.
#ifndef BOARDSMITH_RUNTIME_ARRAYS_H_
#define BOARDSMITH_RUNTIME_ARRAYS_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/metadata_types.h>

#include "memory.h"

// Set in the reference count of an array that an executor uses: TVMArrayFree never takes it away.
#define ARRAY_IN_USE 0x80000000U

// Makes *array, which is all zero, from its description; its data are zero, too.
int boardsmith_array_make(const struct TVMTensorInfo* info, TVMNDArray* array);

// Gives one reference to an array back, and frees the array with the last one. An error if there is no such array, or no
// reference; an array that is not the owner's stays as it is.
int boardsmith_array_free(const DLTensor* handle, unsigned owner);

// Keeps only these bits of all reference counts of a table, frees the arrays that no one refers to, then the table if all
// are free. An error if table points to NULL.
int boardsmith_arrays_free_unused(block_t** table, uint32_t keep);

// Frees what a call returned and its caller has used: bytes, or a reference to an array, if it is the owner's.
void boardsmith_result_free(const TVMValue* value, int type, unsigned owner);

#endif  // BOARDSMITH_RUNTIME_ARRAYS_H_
