// SPDX-License-Identifier: Apache-2.0
//
// What the main.c of standalone firmware (templates/standalone) gets of its model. The generated file
// boardsmith_standalone.c defines it, with the model's buffers.
#ifndef BOARDSMITH_STANDALONE_H_
#define BOARDSMITH_STANDALONE_H_

#include <stdint.h>
#include <tvm_micro_runtime.h>

typedef struct standalone_model {
  const TVMModel* model;
  const void* input;            // a TVM_<model>_input
  const void* output;           // a TVM_<model>_output
  uint8_t* const* input_data;   // the buffer of each input, in the model's order; NULL if has_samples
  uint8_t* const* output_data;  // the buffer of each output, in the model's order
  int32_t has_samples;          // 1: the inputs are constants of the firmware
} standalone_model_t;

extern const standalone_model_t standalone_model;

// What the model gets from the firmware: workspaces and devices. The firmware may define it in a file of its own, for
// operators that need devices. Weak default in main.c: the built-in workspaces, no devices.
extern const TVMContext standalone_context;

#endif  // BOARDSMITH_STANDALONE_H_
