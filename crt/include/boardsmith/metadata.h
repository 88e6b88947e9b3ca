// SPDX-License-Identifier: Apache-2.0
//
// Description of an AOT model (`<mod_name>_get_c_metadata`). All of it is const and lies in flash.
#ifndef BOARDSMITH_METADATA_H_
#define BOARDSMITH_METADATA_H_

#include <stdint.h>
#include <dlpack/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TVM_METADATA_VERSION 1

struct TVMTensorInfo {
  const char* name;
  const int64_t* shape;
  int64_t num_shape;  // rank
  DLDataType dtype;
};

// A constant in a pool: a whole serialised array, for tools; the runtime does not use it.
struct TVMConstantInfo {
  const char* name_hint;
  int64_t byte_offset;
  int64_t data_len;
  const void* data_bytes;
};

struct TVMMetadata {
  int64_t version;  // TVM_METADATA_VERSION
  const struct TVMTensorInfo* inputs;
  int64_t num_inputs;
  const struct TVMTensorInfo* outputs;
  int64_t num_outputs;
  const struct TVMTensorInfo* workspace_pools;  // uint8, shape [bytes], name `<pool>_<k>_var`
  int64_t num_workspace_pools;
  const struct TVMConstantInfo* constant_pools;
  int64_t num_constant_pools;
  const char* mod_name;  // prefix of the model's functions, `tvmgen_<name>`
};

typedef struct TVMTensorInfo TVMTensorInfo;
typedef struct TVMConstantInfo TVMConstantInfo;
typedef struct TVMMetadata TVMMetadata;

#ifdef __cplusplus
}
#endif

#endif  // BOARDSMITH_METADATA_H_
