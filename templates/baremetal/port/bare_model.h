// SPDX-License-Identifier: Apache-2.0
//
// The table through which the resident part of an image (vectors, runtime, port, main: the same for every model)
// reaches the model part after it: operators, parameters, the image of .data. The resident part must not depend on the
// model, so it contains no address of the model part except those of this table and of the build id after it, which are
// fixed by the board file's `model_at`.
#ifndef BOARDSMITH_BARE_MODEL_H_
#define BOARDSMITH_BARE_MODEL_H_

// Offsets in the table, in words, for assembler.
#define BARE_MODEL_DATA_LOAD 1
#define BARE_MODEL_DATA_END 2
#define BARE_MODEL_BSS_START 3
#define BARE_MODEL_BSS_END 4

#ifndef __ASSEMBLER__
#include <boardsmith/boardsmith.h>
#include <stdint.h>
#include <tvm/runtime/crt/module.h>

#include "crt_config.h"

#ifdef BOARDSMITH_COPIED_REGIONS
// A part of the model that runs or is read elsewhere than it is stored.
typedef struct bare_copy {
  const uint32_t* load;
  uint32_t* start;
  uint32_t* end;
} bare_copy_t;
#define BARE_COPY_ONE(region) +1
#endif

typedef struct bare_model {
  const TVMModule* (*library)(void);  // the model's functions; NULL: there is no model
  const uint32_t* data_load;          // initial values of .data of both parts, which begins at bare_data_start
  uint32_t* data_end;                 // a multiple of 8 bytes, like the next two
  uint32_t* bss_start;                // of the model part
  uint32_t* bss_end;
  void (*const* init_start)(void);  // constructors, of both parts
  void (*const* init_end)(void);
  const uint8_t* image_end;  // after the last programmed byte
#ifdef BOARDSMITH_SIGNATURES
  const boardsmith_signature_t* signatures;  // of the model's functions; NULL: none
#endif
#ifdef BOARDSMITH_COPIED_REGIONS
  bare_copy_t copies[0 BOARDSMITH_COPIED_REGIONS(BARE_COPY_ONE)];
#endif
#ifdef BOARDSMITH_APART
  const uint8_t* apart_start;  // programmed bytes in the other memory of the image
  const uint8_t* apart_end;
#endif
} bare_model_t;

extern const bare_model_t bare_model;
#endif

#endif  // BOARDSMITH_BARE_MODEL_H_
