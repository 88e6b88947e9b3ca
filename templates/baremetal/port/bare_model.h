// SPDX-License-Identifier: Apache-2.0
//
// The one table through which the resident part of an image (vectors, runtime, port, main: all that is the same for
// every model) finds the model part behind it: operators, parameters, the image of .data. The resident part is linked
// once per board and options; whatever in it names an address of the model part would change with the model, so
// nothing does but for this table and the build id behind it, which lie where the board file's `model_at` says.
#ifndef BOARDSMITH_BARE_MODEL_H_
#define BOARDSMITH_BARE_MODEL_H_

// Places in the table, in words, for assembler.
#define BARE_MODEL_DATA_LOAD 1
#define BARE_MODEL_DATA_END 2
#define BARE_MODEL_BSS_START 3
#define BARE_MODEL_BSS_END 4

#ifndef __ASSEMBLER__
#include <stdint.h>
#include <tvm/runtime/crt/module.h>

typedef struct bare_model {
  const TVMModule* (*library)(void);  // the model's functions; NULL: there is no model
  const uint32_t* data_load;          // what .data begins with, of both parts, from bare_data_start on
  uint32_t* data_end;                 // multiples of 8 bytes, as are the next two
  uint32_t* bss_start;                // of the model part
  uint32_t* bss_end;
  void (*const* init_start)(void);  // constructors, of both parts
  void (*const* init_end)(void);
  const uint8_t* image_end;  // behind the last byte that is programmed
} bare_model_t;

extern const bare_model_t bare_model;
#endif

#endif  // BOARDSMITH_BARE_MODEL_H_
