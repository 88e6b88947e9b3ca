// SPDX-License-Identifier: Apache-2.0
//
// The embedded C interface: runs models that are linked into the firmware, without a host, a heap or a file. The same
// calls run every kind of model; what differs is in the generated tvm_<model>.h and tvm_<model>.c.
//
// Functions return 0, a tvm_crt_error_t, or what a failed operator returned. A failure changes nothing unless the
// comment says so. A model has static state: run it in one thread at a time, and not in an interrupt that may interrupt
// its own run.
#ifndef TVM_MICRO_RUNTIME_H_
#define TVM_MICRO_RUNTIME_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of these types. A generated header refuses to compile with another one.
#define TVM_MICRO_RUNTIME_VERSION 1

// Every workspace begins at a multiple of this many bytes.
#define TVM_WORKSPACE_ALIGNMENT 16

// Put in front of a workspace's definition: static TVM_WORKSPACE_ALIGNED uint8_t memory[TVM_kws_WORKSPACE_SIZE];
#define TVM_WORKSPACE_ALIGNED __attribute__((aligned(TVM_WORKSPACE_ALIGNMENT)))

// Is 0, as a constant expression. Does not compile if the array `buffer` has fewer than size_bytes bytes.
#define TVM_CHECK_SIZE(buffer, size_bytes) (0U * sizeof(char[(sizeof(buffer) >= (size_bytes)) ? 1 : -1]))

// Is 0, as a constant expression. Does not compile if the definition of `buffer` does not align it as a workspace.
#define TVM_CHECK_ALIGNED(buffer) (0U * sizeof(char[(__alignof__(buffer) >= TVM_WORKSPACE_ALIGNMENT) ? 1 : -1]))

// An input, output or parameter of a model.
typedef struct TVMModelTensor {
  const char* name;      // the model's own name for it, not the one in C
  const int64_t* shape;  // ndim extents; NULL for a scalar
  uint32_t size_bytes;   // may be 0
  DLDataType dtype;
  int32_t ndim;
} TVMModelTensor;

// Memory that a model needs while it runs.
typedef struct TVMModelWorkspace {
  const char* name;
  uint32_t size_bytes;
} TVMModelWorkspace;

// Parameters that TVMSetParameters may replace.
typedef struct TVMModelParameters {
  uint32_t count;
  const TVMModelTensor* tensors;
  void* const* data;  // in RAM, one per parameter
} TVMModelParameters;

// What a model gets from the firmware, in two independent parts: memory, and the devices of its operators. NULL for
// either is the built-in memory, or no devices. The firmware owns all of it; it must stay as long as the context is
// used. Contexts may be const.
typedef struct TVMContext {
  void* const* workspaces;  // one per workspace of the model, in its order
  void* const* devices;     // one per device of the model, in its order
} TVMContext;

// Initializes a TVMContext: static const TVMContext context = TVM_CONTEXT_INIT(workspaces, NULL);
#define TVM_CONTEXT_INIT(workspaces, devices) \
  { (workspaces), (devices) }

// Describes one model. Generated, const, in flash.
typedef struct TVMModel {
  int32_t (*run)(const void* inputs, const void* outputs, const TVMContext* context);
  const char* name;
  uint8_t interface_version;  // TVM_MICRO_RUNTIME_VERSION when it was generated
  uint8_t archive_version;    // of the Model Library Format
  uint8_t num_workspaces;
  uint8_t num_devices;
  uint16_t num_inputs;
  uint16_t num_outputs;
  const TVMModelTensor* tensors;  // inputs, then outputs
  const TVMModelWorkspace* workspaces;
  const TVMModelParameters* parameters;  // NULL: they are constants of the program
} TVMModel;

// Returns the version of the types that the model was generated for.
static inline uint32_t TVMGetInterfaceVersion(const TVMModel* model) { return model->interface_version; }

// Returns the version of the Model Library Format of the model's archive.
static inline uint32_t TVMGetArchiveVersion(const TVMModel* model) { return model->archive_version; }

// Checks the addresses in the structs of inputs and outputs. Returns kTvmErrorFunctionCallInvalidArg for a NULL or for
// one that is not a multiple of its element's size (at most 8). A tensor without bytes may have any address. Operators
// do not check: on a core that faults on unaligned accesses, an unaligned buffer stops the firmware.
static inline int32_t TVMCheckBuffers(const TVMModel* model, const void* inputs, const void* outputs) {
  const size_t num_inputs = model->num_inputs;
  const size_t count = num_inputs + model->num_outputs;
  for (size_t i = 0; i < count; i++) {
    const uint8_t* const from = (const uint8_t*)((i < num_inputs) ? inputs : outputs);
    const TVMModelTensor* const tensor = &model->tensors[i];
    const uint32_t element_bytes = ((uint32_t)tensor->dtype.bits + 7U) / 8U;
    const uint32_t multiple = (element_bytes >= 8U) ? 8U : (element_bytes >= 4U) ? 4U : element_bytes;
    void* address;
    if (tensor->size_bytes == 0U) {
      continue;
    }
    (void)memcpy(&address, &from[((i < num_inputs) ? i : (i - num_inputs)) * sizeof address], sizeof address);
    if ((address == NULL) || ((multiple > 1U) && (((uintptr_t)address % multiple) != 0U))) {
      return (int32_t)kTvmErrorFunctionCallInvalidArg;
    }
  }
  return 0;
}

// Runs the model once. inputs is the address of a TVM_<model>_input, outputs of a TVM_<model>_output. A NULL context is
// the built-in workspaces; if the model was compiled without them, the result is kTvmErrorExecutorModuleBadContext.
// After an error the outputs and the workspaces are undefined, and the next run works. With TVM_CHECK_BUFFERS defined,
// each call checks the addresses first, see TVMCheckBuffers.
static inline int32_t TVMExecute(const TVMModel* model, const void* inputs, const void* outputs,
                                 const TVMContext* context) {
#ifdef TVM_CHECK_BUFFERS
  const int32_t error = TVMCheckBuffers(model, inputs, outputs);
  if (error != 0) {
    return error;
  }
#endif
  return model->run(inputs, outputs, context);
}

// Returns the bytes of a workspace of the model, 0 if it has no such workspace.
static inline size_t TVMGetWorkspaceSize(const TVMModel* model, size_t index) {
  return (index < model->num_workspaces) ? model->workspaces[index].size_bytes : 0U;
}

// Sets the context's workspaces: one address and its size in bytes for each workspace of the model, in its order.
// Returns kTvmErrorBufferTooSmall for one that is too small, kTvmErrorFunctionCallInvalidArg for a NULL or an unaligned
// one. The context keeps the address of the list.
static inline int32_t TVMSetWorkspaces(const TVMModel* model, TVMContext* context, void* const* workspaces,
                                       const size_t* sizes_bytes) {
  for (size_t i = 0; i < model->num_workspaces; i++) {
    if ((workspaces[i] == NULL) || (((uintptr_t)workspaces[i] % TVM_WORKSPACE_ALIGNMENT) != 0U)) {
      return (int32_t)kTvmErrorFunctionCallInvalidArg;
    }
    if (sizes_bytes[i] < model->workspaces[i].size_bytes) {
      return (int32_t)kTvmErrorBufferTooSmall;
    }
  }
  context->workspaces = workspaces;
  return 0;
}

// Sets the context's devices: what the operators get as their device context, in the model's order. Returns
// kTvmErrorFunctionCallInvalidArg for a NULL. The context keeps the address of the list.
static inline int32_t TVMSetDevice(const TVMModel* model, TVMContext* context, void* const* devices) {
  for (size_t i = 0; i < model->num_devices; i++) {
    if (devices[i] == NULL) {
      return (int32_t)kTvmErrorFunctionCallInvalidArg;
    }
  }
  context->devices = devices;
  return 0;
}

// Replaces the model's parameters by those of blob, which has the format of the file parameters/<model>.params in an
// archive; crc32 is the IEEE CRC-32 (as in zlib) of the blob. All of the blob is checked before the first byte is
// written: the checksum, and that it has exactly the model's parameters, in any order, with their types and shapes.
// Returns
// kTvmErrorExecutorModuleBadContext if the parameters are constants of the program, and
// kTvmErrorFunctionCallInvalidArg for a blob that does not match. Do not call it while the model runs. It is in
// embedded/parameters.c.
int32_t TVMSetParameters(const TVMModel* model, const void* blob, size_t blob_bytes, uint32_t crc32);

#ifdef __cplusplus
}
#endif

#endif  // TVM_MICRO_RUNTIME_H_
