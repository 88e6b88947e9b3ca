// SPDX-License-Identifier: Apache-2.0
//
// Arrays with a reference count, and the sizes of tensors.
#include "arrays.h"

#include <string.h>

#include "contracts.h"
#include "state.h"

// Limit of a tensor and of each extent, so that the product of two is less than 2^62.
#define TENSOR_BYTES_MOST 0x7fffffffU

#ifdef TVM_CRT_MAX_NDIM
#define RANK_MOST ((uint32_t)(TVM_CRT_MAX_NDIM))
#else
#define RANK_MOST 0xffffffU  // the size of the shape fits an int32_t
#endif

int boardsmith_tensor_bytes(int32_t ndim, const int64_t* shape, DLDataType dtype, size_t* size_bytes) {
  uint64_t bytes = (((uint32_t)dtype.bits * dtype.lanes) + 7U) / 8U;
  if ((uint32_t)ndim > RANK_MOST) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  for (int32_t i = 0; i < ndim; i++) {
    const uint64_t extent = (uint64_t)shape[i];
    if (extent > TENSOR_BYTES_MOST) {
      return (int)kTvmErrorFunctionCallInvalidArg;
    }
    bytes *= extent;
    if (bytes > TENSOR_BYTES_MOST) {
      return (int)kTvmErrorFunctionCallInvalidArg;
    }
  }
  *size_bytes = (size_t)bytes;
  return 0;
}

int boardsmith_array_make(const struct TVMTensorInfo* info, TVMNDArray* array) {
  DLTensor* const t = &array->dl_tensor;
  CRT_ASSERT((array->reference_count == 0U) && (t->shape == NULL) && (t->byte_offset == 0U));
  const int32_t ndim = (int32_t)info->num_shape;
  size_t bytes;
  int error = boardsmith_tensor_bytes(ndim, info->shape, info->dtype, &bytes);
  if (error != 0) {
    return error;
  }
  // The data, then, aligned, the shape, in one block.
  const size_t shape_at = (bytes + (sizeof(int64_t) - 1U)) & ~(sizeof(int64_t) - 1U);
  const size_t shape_bytes = (size_t)ndim * sizeof(int64_t);
  void* memory;
  error = boardsmith_block_take(&boardsmith_runtime.memory[MEMORY_ARRAYS], bytes, (shape_at - bytes) + shape_bytes,
                                &memory);
  if (error == 0) {
    t->data = memory;
    t->device.device_type = kDLCPU;
    t->ndim = ndim;
    t->dtype = info->dtype;
    t->shape = (int64_t*)((uintptr_t)memory + shape_at);
    array->reference_count = 1;
    for (int32_t i = 0; i < ndim; i++) {
      t->shape[i] = info->shape[i];
    }
  }
  return error;
}

int TVMNDArray_Empty(int32_t ndim, const tvm_index_t* shape, DLDataType dtype, DLDevice dev, TVMNDArray* array) {
  const struct TVMTensorInfo info = {NULL, shape, ndim, dtype};
  TVMNDArray result;
  (void)memset(&result, 0, sizeof result);
  const int error = boardsmith_array_make(&info, &result);
  if (error == 0) {
    result.dl_tensor.device = dev;
    *array = result;
  }
  return error;
}

int TVMNDArray_Create(int32_t ndim, const tvm_index_t* shape, DLDataType dtype, DLDevice dev, TVMNDArray* array) {
  const DLDataType no_bits = {dtype.code, 0, dtype.lanes};
  size_t bytes;
  int error = boardsmith_tensor_bytes(ndim, shape, dtype, &bytes);
  if (error == 0) {
    error = TVMNDArray_Empty(ndim, shape, no_bits, dev, array);
  }
  if (error == 0) {
    array->dl_tensor.dtype = dtype;
    array->dl_tensor.data = NULL;
  }
  return error;
}

int TVMNDArray_CreateView(TVMNDArray* arr, const tvm_index_t* shape, int32_t ndim, DLDataType dtype,
                          TVMNDArray* array_view) {
  size_t bytes;
  int error = boardsmith_tensor_bytes(ndim, shape, dtype, &bytes);
  if ((error == 0) && ((int64_t)bytes > TVMNDArray_DataSizeBytes(arr))) {
    error = (int)kTvmErrorFunctionCallInvalidArg;
  }
  if (error == 0) {
    error = TVMNDArray_Create(ndim, shape, dtype, arr->dl_tensor.device, array_view);
  }
  if (error == 0) {
    array_view->dl_tensor.data = arr->dl_tensor.data;
    array_view->dl_tensor.byte_offset = arr->dl_tensor.byte_offset;
  }
  return error;
}

int64_t TVMNDArray_DataSizeBytes(TVMNDArray* array) {
  const DLTensor* t = &array->dl_tensor;
  size_t bytes = 0;
  (void)boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes);  // stays 0 on an error
  return (int64_t)bytes;
}

void TVMNDArray_IncrementReference(TVMNDArray* arr) { arr->reference_count++; }

uint32_t TVMNDArray_DecrementReference(TVMNDArray* arr) {
  if (arr->reference_count != 0U) {
    arr->reference_count--;
  }
  return arr->reference_count;
}

// Finds the block by the shape, which always lies in it: the data of a view are another array's, and a user may have
// replaced them.
int TVMNDArray_Release(TVMNDArray* arr) {
  return boardsmith_block_free(boardsmith_block_at(&boardsmith_runtime.memory[MEMORY_ARRAYS], arr->dl_tensor.shape));
}

int boardsmith_arrays_free_unused(block_t** table, uint32_t keep) {
  uint32_t live = 0;
  if (*table != NULL) {
    TVMNDArray* a = (TVMNDArray*)(*table)->base;
    TVMNDArray* const end = (TVMNDArray*)((*table)->base + (*table)->size_bytes);
    CRT_ASSERT(((*table)->size_bytes % sizeof *a) == 0U);
    for (; a != end; a++) {
      a->reference_count &= keep;
      if (a->reference_count == 0U) {
        (void)TVMNDArray_Release(a);  // no effect if it was never made, or is already free
        a->dl_tensor.shape = NULL;
      }
      live |= a->reference_count;
    }
  }
  return (live != 0U) ? 0 : boardsmith_block_free(table);
}

int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int dtype_code, int dtype_bits, int dtype_lanes, int device_type,
                  int device_id, TVMArrayHandle* out) {
  const DLDataType dtype = {(uint8_t)dtype_code, (uint8_t)dtype_bits, (uint16_t)dtype_lanes};
  const DLDevice dev = {(DLDeviceType)device_type, device_id};
  block_t** const arrays = &boardsmith_runtime.memory[MEMORY_TABLES];
  void* memory = NULL;
  int error = boardsmith_block_take(arrays, sizeof(TVMNDArray), 0, &memory);
  if (error != 0) {
    return error;
  }
  TVMNDArray* array = memory;
  error = TVMNDArray_Empty(ndim, shape, dtype, dev, array);
  if (error != 0) {
    (void)boardsmith_arrays_free_unused(arrays, 0);  // the newest table is the first one
    return error;
  }
  *out = &array->dl_tensor;
  return 0;
}

int boardsmith_array_free(const DLTensor* handle, unsigned owner) {
  block_t** table = boardsmith_block_at(&boardsmith_runtime.memory[MEMORY_TABLES], handle);
  if (*table != NULL) {
    TVMNDArray* a = (TVMNDArray*)(*table)->base;
    TVMNDArray* const end = (TVMNDArray*)((*table)->base + (*table)->size_bytes);
    for (; a != end; a++) {
      if ((&a->dl_tensor == handle) && ((a->reference_count & ~ARRAY_IN_USE) != 0U)) {
        if ((owner != (unsigned)OWNER_ANYONE) && (((unsigned)(*table)->writable & (unsigned)OWNER_SESSION) != owner)) {
          return 0;
        }
        a->reference_count--;
        return boardsmith_arrays_free_unused(table, UINT32_MAX);
      }
    }
  }
  return (int)kTvmErrorFunctionCallInvalidArg;
}

int TVMArrayFree(TVMArrayHandle handle) { return boardsmith_array_free(handle, OWNER_ANYONE); }

int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream) {
  (void)stream;
  size_t from_bytes = 0;
  size_t to_bytes = 0;
  int error = boardsmith_tensor_bytes(from->ndim, from->shape, from->dtype, &from_bytes);
  if (error == 0) {
    error = boardsmith_tensor_bytes(to->ndim, to->shape, to->dtype, &to_bytes);
  }
  if ((error == 0) && ((from_bytes != to_bytes) || (from->strides != NULL) || (to->strides != NULL))) {
    error = (int)kTvmErrorFunctionCallInvalidArg;
  }
  if (error == 0) {
    (void)memmove(&((uint8_t*)to->data)[to->byte_offset], &((const uint8_t*)from->data)[from->byte_offset], from_bytes);
  }
  return error;
}
