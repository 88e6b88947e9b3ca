// SPDX-License-Identifier: Apache-2.0
//
// Tensor layout of generated operators, the runtime and the wire (DLPack 0.7). Only the plain tensor: managed tensors
// are not needed on a microcontroller.
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif

#define DLPACK_VERSION 70
#define DLPACK_ABI_VERSION 1

#ifndef DLPACK_DLL
#define DLPACK_DLL
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The device of memory. The runtime only supports kDLCPU; peers use the other values on the wire.
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  // No device. It keeps the enum 32 bits wide in C, also where the ABI makes
  // enums as short as they can be (bare-metal Arm without -fno-short-enums):
  // C++, the wire and objects of other compilers read all four bytes.
  kDLDeviceTypeIsInt32 = 0x7fffffff
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;  // 0 unless a board has several of that type
} DLDevice;

// Values of DLDataType.code.
typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,  // with 1 bit: bool, one byte per element in memory
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U  // 8 bits, since DLPack 1.0
} DLDataTypeCode;

// An element is (bits * lanes + 7) / 8 bytes.
typedef struct {
  uint8_t code;    // a DLDataTypeCode
  uint8_t bits;    // per lane
  uint16_t lanes;  // 1 unless the type is a vector
} DLDataType;

// A view of memory: it owns neither data nor shape.
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;  // 0 is a scalar
  DLDataType dtype;
  int64_t* shape;        // ndim extents, in elements
  int64_t* strides;      // in elements; NULL means compact and row-major
  uint64_t byte_offset;  // of the first element, from data; generated C ignores it
} DLTensor;

#ifdef __cplusplus
}
#endif

// Objects of several compilers meet in one image: all must see this layout.
#ifdef __cplusplus
#define DLPACK_LAYOUT(x) static_assert(x, #x)
#else
#define DLPACK_LAYOUT(x) _Static_assert(x, #x)
#endif
DLPACK_LAYOUT(sizeof(DLDeviceType) == 4U);
DLPACK_LAYOUT(sizeof(DLDevice) == 8U);
DLPACK_LAYOUT(offsetof(DLDevice, device_id) == 4U);
DLPACK_LAYOUT(sizeof(DLDataType) == 4U);
DLPACK_LAYOUT((sizeof(void*) == 8U) || (sizeof(void*) == 4U));
DLPACK_LAYOUT(offsetof(DLTensor, device) == sizeof(void*));
DLPACK_LAYOUT(offsetof(DLTensor, ndim) == (sizeof(void*) + 8U));
DLPACK_LAYOUT(offsetof(DLTensor, dtype) == (sizeof(void*) + 12U));
DLPACK_LAYOUT(offsetof(DLTensor, shape) == (sizeof(void*) + 16U));
DLPACK_LAYOUT(offsetof(DLTensor, strides) == ((2U * sizeof(void*)) + 16U));
DLPACK_LAYOUT(offsetof(DLTensor, byte_offset) == ((sizeof(void*) == 8U) ? 40U : 32U));
DLPACK_LAYOUT(sizeof(DLTensor) == ((sizeof(void*) == 8U) ? 48U : 40U));
#undef DLPACK_LAYOUT

#endif  // DLPACK_DLPACK_H_
