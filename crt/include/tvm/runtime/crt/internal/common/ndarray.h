// SPDX-License-Identifier: Apache-2.0
//
// Arrays with a reference count. The caller owns the array struct; data and shape come from the platform's memory.
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/platform.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMNDArray {
  DLTensor dl_tensor;  // first, so that a TVMArrayHandle is also a TVMNDArray*
  uint32_t reference_count;
} TVMNDArray;

// Makes *array a description without data (dl_tensor.data is NULL) with reference count 1. Copies the shape. Returns
// kTvmErrorFunctionCallInvalidArg for a rank above TVM_CRT_MAX_NDIM (if crt_config.h sets it), a negative extent, or a
// size of 2 GiB or more.
int TVMNDArray_Create(int32_t ndim, const tvm_index_t* shape, DLDataType dtype, DLDevice dev, TVMNDArray* array);

// The same with zeroed data.
int TVMNDArray_Empty(int32_t ndim, const tvm_index_t* shape, DLDataType dtype, DLDevice dev, TVMNDArray* array);

// Makes *array_view a view of arr's data with another shape, not larger than arr. arr must outlive the view.
int TVMNDArray_CreateView(TVMNDArray* arr, const tvm_index_t* shape, int32_t ndim, DLDataType dtype,
                          TVMNDArray* array_view);

// Returns the size of the elements in bytes.
int64_t TVMNDArray_DataSizeBytes(TVMNDArray* array);

// Fills the array from TVMPlatformGenerateRandom: integers of 8 to 64 bits over their whole range,
// bool 0 or 1, floats and bfloat16 within 1 <= |x| < 2. Any other type: kTvmErrorFunctionCallInvalidArg.
int TVMNDArray_RandomFill(TVMNDArray* arr);

void TVMNDArray_IncrementReference(TVMNDArray* arr);

// Returns the remaining references; frees nothing.
uint32_t TVMNDArray_DecrementReference(TVMNDArray* arr);

// Frees the allocations of Create, Empty or CreateView, whatever the count is.
int TVMNDArray_Release(TVMNDArray* arr);

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_
