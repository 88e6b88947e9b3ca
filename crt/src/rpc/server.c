// SPDX-License-Identifier: Apache-2.0
//
// Frames and sessions in: bytes as they come, at most one request in work, never waiting. Nothing received can stop it:
// every frame start begins afresh, a message for nobody is dropped, a damaged request of this session is answered once.
#include <boardsmith/boardsmith.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/platform.h>

#include "crc16.h"
#include "server.h"
#include "wire.h"

#ifndef BOARDSMITH_FRAME_GAP_MS
#define BOARDSMITH_FRAME_GAP_MS 250U  // a frame that pauses for so long is not coming back
#endif

// A session is up as soon as the initiator's nonce is known; 0 is no nonce.
static bool established(const rpc_server_t* s) { return s->initiator != 0U; }

// Tells whether the message under way is a request of this session.
static bool is_request(rpc_server_t* s) {
  const uint8_t* m = server_message(s);
  return established(s) && (m[0] == s->initiator) && (m[1] == s->responder) && (m[MESSAGE_TYPE] == SESSION_NORMAL);
}

static void expect(rpc_server_t* s, frame_part_t part, uint8_t* at, uint32_t bytes) {
  s->part = (uint8_t)part;
  s->at = at;
  s->want = bytes;
}

static void hunt(rpc_server_t* s) { expect(s, PART_HUNT, s->field, 0); }

// Passes over what is left of a message, a buffer's worth at a time.
static void skip(rpc_server_t* s) {
  const uint32_t part = (s->left < PACKET_BYTES) ? s->left : PACKET_BYTES;
  s->left -= part;
  expect(s, PART_SKIP, server_message(s), part);
}

// Answers a message that is too long and no copy, or a copy to somewhere else, before the rest of it arrives.
static void refuse(rpc_server_t* s, const char* text) {
  s->left = s->length - (uint32_t)(s->at - server_message(s));
  if (is_request(s)) {
    transmit_exception(s, text);
  }
  skip(s);
}

// Gives the frame under way up. A request that did not arrive whole is answered; anything else, and what was refused, is not.
static void abandon(rpc_server_t* s) {
  const bool closing = (s->part == PART_CRC);
  const uint8_t part = closing ? s->before : s->part;
  const uint8_t* at = closing ? &server_message(s)[s->length] : s->at;
  hunt(s);
  if (part == PART_STREAM) {
    transmit_exception(s, "boardsmith: damaged copy");
  } else if ((part >= PART_MESSAGE) && (part <= PART_SHAPE) && ((at - server_message(s)) >= MESSAGE_HEADER) &&
             is_request(s)) {
    transmit_exception(s, "boardsmith: damaged request");
  } else {
    // Nobody waits for an answer, or it was given.
  }
}

// Checks the head of a message longer than the buffer: only copies to the device are.
static void head_done(rpc_server_t* s) {
  const uint8_t* m = server_message(s);
  if ((wire_get64(&m[MESSAGE_LENGTH]) == (uint64_t)s->length - MESSAGE_CODE) &&
      (wire_get32(&m[MESSAGE_CODE]) == (uint32_t)RPC_COPY_TO) && is_request(s)) {
    expect(s, PART_TENSOR, s->at, TENSOR_FIXED);
  } else {
    refuse(s, "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  }
}

static void tensor_done(rpc_server_t* s) {
  const uint32_t rank = wire_get32(&server_message(s)[MESSAGE_BODY + TENSOR_RANK]);
  if (rank <= ((PACKET_BYTES - (MESSAGE_BODY + TENSOR_FIXED + 16U)) / 8U)) {
    expect(s, PART_SHAPE, s->at, (8U * rank) + 16U);
  } else {
    refuse(s, "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES");
  }
}

static void shape_done(rpc_server_t* s) {
  uint8_t* address;
  size_t count;
  const uint32_t head = (uint32_t)(s->at - server_message(s));
  if ((request_copy_head(&server_message(s)[MESSAGE_BODY], head - MESSAGE_BODY, 1, &address, &count) != 0U) &&
      (count == (s->length - head))) {
    expect(s, PART_STREAM, address, s->length - head);
  } else {
    refuse(s, "copy outside known memory");
  }
}

static void session_start(rpc_server_t* s, uint8_t initiator) {
  static const uint8_t version = 1;
  s->nonce = (uint8_t)(((s->nonce << 5) | (s->nonce >> 5)) + 1);
  if (s->nonce == 0U) {
    s->nonce = 1;
  }
  s->initiator = initiator;
  s->responder = s->nonce;
  boardsmith_session_begins();
  transmit_message(s, SESSION_REPLY, &version, 1);
}

// Acts on a whole message whose CRC held.
static void message_done(rpc_server_t* s) {
  const uint8_t* m = server_message(s);
  if (s->length < MESSAGE_HEADER) {
    return;
  }
  if (is_request(s)) {
    request_execute(s, s->length);
  } else if ((m[MESSAGE_TYPE] == SESSION_INIT) && (s->length > MESSAGE_HEADER) && (m[0] != 0U)) {
    session_start(s, m[0]);
  } else if (m[MESSAGE_TYPE] == SESSION_TERMINATE) {
    s->initiator = 0;
  } else {
    // Another session's request, a log, a reply to what we never ask: not for us.
  }
}

static void crc_done(rpc_server_t* s) {
  if ((((uint32_t)s->field[0] | ((uint32_t)s->field[1] << 8)) != s->sum) || s->damaged) {
    abandon(s);
    return;
  }
  hunt(s);
  if (s->before == PART_STREAM) {
    transmit_void(s);
  } else if (s->before == PART_MESSAGE) {
    message_done(s);
  } else {
    // Refused long ago.
  }
}

static void length_done(rpc_server_t* s) {
  s->length = wire_get32(s->field);
  if (s->length <= PACKET_BYTES) {
    expect(s, PART_MESSAGE, server_message(s), s->length);
  } else {
    expect(s, PART_HEAD, server_message(s), MESSAGE_BODY);
  }
}

static void expect_crc(rpc_server_t* s) {
  s->before = s->part;
  s->sum = s->crc;
  expect(s, PART_CRC, s->field, 2);
}

// Goes on after the bytes that were wanted have come.
static void part_done(rpc_server_t* s) {
  switch (s->part) {
    case PART_LENGTH:
      length_done(s);
      break;
    case PART_HEAD:
      head_done(s);
      break;
    case PART_TENSOR:
      tensor_done(s);
      break;
    case PART_SHAPE:
      shape_done(s);
      break;
    case PART_SKIP:
      skip(s);
      break;
    case PART_CRC:
      crc_done(s);
      return;
    default:
      break;  // a message or a copy is all there
  }
  if (s->want == 0U) {
    expect_crc(s);
  }
}

// Takes the byte after an ff.
static void escape(rpc_server_t* s, uint8_t byte) {
  s->escaped = false;
  if (byte == 0xFDU) {
    s->crc = CRC16_FRAME_START;
    s->damaged = false;
    expect(s, PART_LENGTH, s->field, 4);
  } else if (s->part == PART_HUNT) {
    s->escaped = (byte == 0xFFU);
  } else {
    s->crc = crc16_byte(crc16_byte(s->crc, 0xFF), byte);
    if (byte != 0xFEU) {
      s->damaged = s->damaged || (byte != 0xFFU);
      *s->at = byte;
      s->at++;
      s->want--;
      if (s->want == 0U) {
        part_done(s);
      }
    }
  }
}

// Takes at least one of the bytes from p up to end; returns where the rest begins.
static uint8_t* receive(rpc_server_t* s, uint8_t* p, const uint8_t* end) {
  const size_t bytes = (size_t)(end - p);
  if (s->escaped) {
    escape(s, *p);
    return &p[1];
  }
  if (*p == 0xFFU) {
    s->escaped = true;
    return &p[1];
  }
  if (s->part == PART_HUNT) {
    return &p[1];
  }
  const size_t run = crc16_span(&s->crc, s->at, p, (bytes < s->want) ? bytes : s->want);
  s->at += run;
  s->want -= (uint32_t)run;
  if (s->want == 0U) {
    part_done(s);
  }
  return &p[run];
}

// Called without bytes: watches for a frame that has stopped.
static void idle(rpc_server_t* s) {
  const uint32_t now = boardsmith_now_ms();
  if (s->fresh) {
    s->fresh = false;
    s->since_ms = now;
  } else if ((s->part != PART_HUNT) && ((now - s->since_ms) >= BOARDSMITH_FRAME_GAP_MS)) {
    abandon(s);
  } else {
    // Between frames, or still in time.
  }
}

tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t** new_data, size_t* new_data_size_bytes) {
  rpc_server_t* s = server;
  if ((new_data == NULL) || (*new_data_size_bytes == 0U)) {
    idle(s);
    return s->shut ? kTvmErrorPlatformShutdown : kTvmErrorNoError;
  }
  uint8_t* p = *new_data;
  uint8_t* const end = &p[*new_data_size_bytes];
  s->fresh = true;
  *new_data = end;
  *new_data_size_bytes = 0;
  if ((&p[1] == end) && (s->want > 1U) && (*p != 0xFFU) && !s->escaped) {  // the way of most bytes that come one by one
    s->crc = crc16_byte(s->crc, *p);
    *s->at = *p;
    s->at++;
    s->want--;
    return kTvmErrorNoError;
  }
  while ((p != end) && !s->shut) {
    p = receive(s, p, end);
  }
  TVMPlatformYield();
  return s->shut ? kTvmErrorPlatformShutdown : kTvmErrorNoError;
}

rpc_server_t* server_active;

microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func, void* write_func_ctx) {
  static const DLDevice cpu = {kDLCPU, 0};
  void* memory = NULL;
  uint8_t nonce = 0;
  tvm_crt_error_t error = TVMInitializeRuntime();
  if (error == kTvmErrorNoError) {
    error = TVMPlatformMemoryAllocate(sizeof(rpc_server_t), cpu, &memory);
  }
  if (error == kTvmErrorNoError) {
    error = TVMPlatformGenerateRandom(&nonce, 1);
  }
  if (error != kTvmErrorNoError) {
    TVMPlatformAbort(error);
  }
  rpc_server_t* s = memory;
  (void)memset(s, 0, offsetof(rpc_server_t, buffer));
  s->nonce = nonce;
  s->write = write_func;
  s->write_context = write_func_ctx;
  s->unsettled = true;
  hunt(s);
  server_active = s;
  transmit_message(s, SESSION_TERMINATE, s, 0);
  return s;
}
