// SPDX-License-Identifier: Apache-2.0
//
// Description of an AOT model, for the model's own code. A file with this header brings the AOT executor into the
// image: without a model's metadata, no host can use it. A model of objects has no such file: then a file of the
// firmware's includes it.
#ifndef TVM_RUNTIME_METADATA_TYPES_H_
#define TVM_RUNTIME_METADATA_TYPES_H_

#include <boardsmith/metadata.h>
#include <stddef.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// NULL where the runtime, or its executor, is not linked.
TVM_WEAK int boardsmith_aot_create(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                                   void* resource_handle);

// `tvm.aot_executor.create` where crt_config.h does not define BOARDSMITH_AOT_EXECUTOR: the runtime's table of
// functions refers to it weakly. Equal in all files that have it.
TVM_WEAK int boardsmith_aot_entry(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                                  void* resource_handle);
int boardsmith_aot_entry(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                         void* resource_handle) {
  return (boardsmith_aot_create == NULL)
             ? -1
             : boardsmith_aot_create(args, type_codes, num_args, out_value, out_type, resource_handle);
}

#ifdef __cplusplus
}
#endif

#endif  // TVM_RUNTIME_METADATA_TYPES_H_
