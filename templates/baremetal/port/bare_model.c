// SPDX-License-Identifier: Apache-2.0
//
// The table at the start of the model part: the only file of the port that is linked there.
#include "bare_model.h"

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

// Defined by the model's code; weak for a firmware without a model.
const TVMModule* TVMSystemLibEntryPoint(void) TVM_WEAK;

#ifdef BOARDSMITH_SIGNATURES
extern const boardsmith_signature_t boardsmith_signatures[] TVM_WEAK;  // so are these
#endif

// From the linker script.
extern const uint32_t bare_data_load[];
extern uint32_t bare_data_end[];
extern uint32_t bare_model_bss_start[];
extern uint32_t bare_model_bss_end[];
extern void (*const bare_init_start[])(void);
extern void (*const bare_init_end[])(void);
extern const uint8_t bare_image_end[];
#ifdef BOARDSMITH_COPIED_REGIONS
#define DECLARE_COPY(region)                    \
  extern const uint32_t bare_##region##_load[]; \
  extern uint32_t bare_##region##_start[];      \
  extern uint32_t bare_##region##_end[];
BOARDSMITH_COPIED_REGIONS(DECLARE_COPY)
#define COPY(region) {bare_##region##_load, bare_##region##_start, bare_##region##_end},
#endif
#ifdef BOARDSMITH_APART
extern const uint8_t bare_apart_start[];
extern const uint8_t bare_apart_end[];
#endif

_Static_assert(offsetof(bare_model_t, data_load) == (BARE_MODEL_DATA_LOAD * sizeof(uintptr_t)), "offset for assembler");
_Static_assert(offsetof(bare_model_t, data_end) == (BARE_MODEL_DATA_END * sizeof(uintptr_t)), "offset for assembler");
_Static_assert(offsetof(bare_model_t, bss_start) == (BARE_MODEL_BSS_START * sizeof(uintptr_t)), "offset for assembler");
_Static_assert(offsetof(bare_model_t, bss_end) == (BARE_MODEL_BSS_END * sizeof(uintptr_t)), "offset for assembler");

const bare_model_t bare_model __attribute__((section(".boardsmith.model"))) = {
    .library = TVMSystemLibEntryPoint,
    .data_load = bare_data_load,
    .data_end = bare_data_end,
    .bss_start = bare_model_bss_start,
    .bss_end = bare_model_bss_end,
    .init_start = bare_init_start,
    .init_end = bare_init_end,
    .image_end = bare_image_end,
#ifdef BOARDSMITH_SIGNATURES
    .signatures = boardsmith_signatures,
#endif
#ifdef BOARDSMITH_COPIED_REGIONS
    .copies = {BOARDSMITH_COPIED_REGIONS(COPY)},
#endif
#ifdef BOARDSMITH_APART
    .apart_start = bare_apart_start,
    .apart_end = bare_apart_end,
#endif
};
