// SPDX-License-Identifier: Apache-2.0
//
// boardsmith.build_id and boardsmith.platform. They share one buffer, because each answer is sent before the next call.
#include "about.h"

#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/crt/error_codes.h>

#include "crt_config.h"
#include "port.h"

#ifndef BOARDSMITH_EMULATED
#define BOARDSMITH_EMULATED 0
#endif

enum { CHIP_ID_MAX_BYTES = 32, ANSWER_BYTES = 104 };

typedef struct answer {
  TVMByteArray result;
  uint8_t bytes[ANSWER_BYTES];
  uint32_t used;
} answer_t;

static answer_t answer;

static void add(uint64_t value, uint32_t bytes) {
  for (uint32_t i = 0; (i < bytes) && (answer.used < (uint32_t)ANSWER_BYTES); i++) {
    answer.bytes[answer.used] = (uint8_t)(value >> (8U * i));
    answer.used++;
  }
}

static void add_item(uint32_t tag, uint64_t value, uint32_t bytes) {
  add(tag, 1);
  add(bytes, 1);
  add(value, bytes);
}

static void give(TVMValue* out_value, int* out_type) {
  answer.result.data = (const char*)answer.bytes;
  answer.result.size = answer.used;
  out_value->v_handle = &answer.result;
  *out_type = kTVMBytes;
}

int about_build_id_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                          void* resource_handle) {
  enum { NONCE_BYTES = 8 };
  uint32_t crc = 0;
  (void)resource_handle;
  if ((num_args > 1) || ((num_args == 1) && (type_codes[0] != (int)kTVMArgInt))) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (num_args == 1) {
    answer.used = 0;
    add((uint64_t)args[0].v_int64, NONCE_BYTES);
    crc = boardsmith_crc32(answer.bytes, NONCE_BYTES);
  }
  (void)memcpy(answer.bytes, boardsmith_port.build_id, BUILD_ID_BYTES);
  answer.used = BUILD_ID_BYTES;
  add(boardsmith_port.image_crc(boardsmith_port.ctx, crc), 4);
  answer.used += boardsmith_port.chip_id(boardsmith_port.ctx, &answer.bytes[answer.used], CHIP_ID_MAX_BYTES);
  give(out_value, out_type);
  return 0;
}

// Tags and lengths: boardsmith.md, "Platform".
static void put_platform(const port_platform_t* p) {
  uint8_t id[CHIP_ID_MAX_BYTES];
  const uint32_t counts = port_counts();
  const uint32_t id_bytes = boardsmith_port.chip_id(boardsmith_port.ctx, id, CHIP_ID_MAX_BYTES);
  if (p->core_hz != 0U) {
    add_item(1, p->core_hz, 4);
  }
  add_item(2, boardsmith_port.ticks_hz(boardsmith_port.ctx), 4);
  add_item(3, boardsmith_port.ticks(boardsmith_port.ctx), 8);
  if (p->has_flags != 0) {
    add_item(4, p->flags, 1);
  }
  if (p->wait_states >= 0) {
    add_item(5, (uint32_t)p->wait_states, 1);
  }
  if (p->reset_cause >= 0) {
    add_item(6, (uint32_t)p->reset_cause, 1);
  }
  if (id_bytes != 0U) {
    add(7, 1);
    add(id_bytes, 1);
    for (uint32_t i = 0; i < id_bytes; i++) {
      add(id[i], 1);
    }
  }
  if (p->cpuid != 0U) {
    add_item(8, p->cpuid, 4);
  }
  add_item(9, BOARDSMITH_EMULATED, 1);
  if (counts != 0U) {
    add_item(11, ((uint64_t)counts << 32U) | PORT_COUNTED, 8);
  }
  if (p->counts_lost != 0) {
    add_item(10, p->lost_bytes, 4);
  }
  add_item(12, platform_arena_used(), 4);
}

int about_platform_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                          void* resource_handle) {
  enum { VERSION = 1 };
  (void)args;  // it takes none
  (void)type_codes;
  (void)resource_handle;
  if (num_args != 0) {
    return kTvmErrorFunctionCallNumArguments;
  }
  port_platform_t p = {.wait_states = -1, .reset_cause = -1};
  boardsmith_port.ticks_align(boardsmith_port.ctx);  // clears a loss of counts during sleep
  boardsmith_port.platform(boardsmith_port.ctx, &p);
  answer.used = 0;
  add(VERSION, 1);
  put_platform(&p);
  give(out_value, out_type);
  return 0;
}
