// SPDX-License-Identifier: Apache-2.0
//
// Receives frames and sessions: takes bytes as they arrive, executes at most one request at a time, never waits. No
// input can stop it: every frame start resets the receiver, a message without a session is dropped, a damaged request
// of this session is answered once. The start of another frame may be damage or the next session's beginning: the
// request that it cuts off is answered before the next request, or when no byte arrives.
#include "server.h"

#include <boardsmith/boardsmith.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/platform.h>

#include "crc16.h"
#include "runtime/contracts.h"
#include "runtime/functions.h"
#include "runtime/memory.h"
#include "runtime/state.h"
#include "wire.h"

// Returns whether the current message is a request of this session.
static bool is_request(rpc_server_t* s) { return (wire_get32(&server_message(s)[-1]) >> 8) == s->header; }

// Enters another state; so many of its bytes go into `field`.
static void enter(rpc_server_t* s, unsigned state, uint32_t bytes) {
  CRT_ASSERT(bytes <= sizeof s->field);
  s->state = (uint8_t)state;
  s->rx.to = s->field;
  s->idle_at = NULL;  // `field` is reused, so an equal address does not prove that no byte came
  s->end = &s->field[bytes];
}

// Abandons the current frame. If it is a request, an answer becomes due: one for several in a row, because they may be
// parts of one request.
static void abandon(rpc_server_t* s) {
  if ((s->state >= (unsigned)FIND_MESSAGE) && is_request(s)) {
    s->due |= (uint8_t)((unsigned)DAMAGED_REQUEST | (s->state & STATE_OF_COPY));
  }
  enter(s, FIND_START, 0);
}

// Frees what requests of the former session allocated: modules, arrays (also those still referenced), and memory.
static void free_session(void) {
  for (unsigned i = 0; i < MODULE_GLOBAL; i++) {
    if (boardsmith_runtime.of_session[i] != 0U) {
      (void)boardsmith_session_module_free((TVMModuleHandle)(uintptr_t)(i | HANDLE_VALID));
    }
  }
  for (unsigned i = 0; i < MEMORY_WINDOWS; i++) {
    block_t** link = &boardsmith_runtime.memory[i];
    while (*link != NULL) {
      if (((*link)->writable & OWNER_SESSION) != 0) {
        (void)boardsmith_block_free(link);
      } else {
        link = &(*link)->next;
      }
    }
  }
}

static void session_start(rpc_server_t* s, uint8_t initiator) {
  static const uint8_t version = 1;
  s->nonce = (uint8_t)(((s->nonce << 5) | (s->nonce >> 5)) + 1);
  if (s->nonce == 0U) {
    s->nonce = 1;
  }
  const uint32_t id = initiator | ((uint32_t)s->nonce << 8);
  s->header = id | HEADER(SESSION_NORMAL);
  s->due = 0;
  free_session();
  boardsmith_session_begins();
  transmit_message(s, id | HEADER(SESSION_REPLY), &version, 1);
}

// Processes a complete message with a valid CRC that is not a request of this session.
static void message_done(rpc_server_t* s) {
  const uint8_t* m = server_message(s);
  if ((m[MESSAGE_TYPE] == SESSION_INIT) && (s->length > MESSAGE_HEADER) && (m[0] != 0U)) {
    session_start(s, m[0]);
  }
  if (m[MESSAGE_TYPE] == SESSION_TERMINATE) {
    s->header = NO_SESSION;
    s->due = 0;
  }
  // Other messages are ignored: another session's request, a log, a reply (this side never begins a session).
}

// Processes a frame whose CRC was received.
static void frame_done(rpc_server_t* s) {
  const unsigned state = s->state;
  CRT_ASSERT((state == (unsigned)FIND_MESSAGE_CRC) || (state == (unsigned)FIND_COPY_CRC));
  const uint32_t crc = wire_get32(s->field) & 0xFFFFU;
  if (crc >= 0xFF00U) {
    s->escaped = 0xFF;  // the last ff may be the first byte of the next frame, if one was lost
  }
  if (crc != s->frame_crc) {
    abandon(s);
    request_answer_due(s);
    return;
  }
  enter(s, FIND_START, 0);
  if (state == (unsigned)FIND_COPY_CRC) {
    request_finish(s, DONE);
  } else if (is_request(s)) {
    request_execute(s);
  } else {
    message_done(s);
  }
}

// Processes the beginning of a message that is longer than the buffer. Only a copy may be that long. Its first bytes
// identify it; it is refused or begun when the buffer is full.
static void long_message(rpc_server_t* s) {
  uint8_t* const message = server_message(s);
  const bool request = is_request(s);
  if (request && (s->rx.to == &message[MESSAGE_BODY]) &&
      (wire_get32(&message[MESSAGE_CODE]) == (uint32_t)RPC_COPY_TO)) {
    s->end = &message[PACKET_BYTES];
    return;
  }
  enter(s, SKIP_REFUSED, 0);
  if (request) {
    request_execute(s);
  }
}

// Leaves a state after its last byte.
static void state_done(rpc_server_t* s) {
  CRT_ASSERT(s->rx.to == s->end);
  uint8_t* const message = server_message(s);
  if (s->state < (unsigned)FIND_LENGTH) {
    return;
  }
  if (s->state >= (unsigned)FIND_MESSAGE_CRC) {
    frame_done(s);
    return;
  }
  if (s->state == (unsigned)FIND_LENGTH) {
    s->length = wire_get32(s->field);
    message[MESSAGE_TYPE] = SESSION_INIT;  // not a request yet
    s->state = FIND_MESSAGE;
    s->rx.to = message;
    // A length that is too small is damaged: the header shows whose message it is.
    s->end = &message[((s->length - MESSAGE_HEADER) <= (PACKET_BYTES - MESSAGE_HEADER)) ? s->length : MESSAGE_BODY];
  } else if ((s->state == (unsigned)FIND_MESSAGE) && (s->length > PACKET_BYTES)) {
    long_message(s);
    return;
  }
  if (s->rx.to == s->end) {
    s->frame_crc = s->rx.crc;
    enter(s, (s->state == (unsigned)FIND_COPY) ? FIND_COPY_CRC : FIND_MESSAGE_CRC, 2);
  }
}

// Processes the byte after an ff.
static void escaped_byte(rpc_server_t* s, uint8_t byte) {
  s->escaped = 0;
  uint8_t* const at = s->rx.to;
  if (byte == 0xFFU) {
    if (at == s->end) {
      // Inside a refused message ff bytes come in pairs; otherwise any of several ff may begin a frame.
      if (s->state == (unsigned)FIND_START) {
        s->escaped = byte;
      }
      return;
    }
  } else if ((byte == 0xFDU) && (s->state != (unsigned)SHUT_DOWN)) {
    abandon(s);
    s->rx.crc = CRC16_FRAME_START;
    s->state = FIND_LENGTH;
    s->end = &s->field[4];
    return;
  } else if ((byte == 0xFEU) || (at == s->end)) {
    return;  // a nop, or outside a frame's contents
  } else {
    s->rx.crc = (uint16_t)~s->rx.crc;  // invalid escape: make the CRC wrong
  }
  CRT_ASSERT(at < s->end);
  s->rx.to = &at[1];
  *at = byte;
}

// Called without bytes: detects a message that has stopped. A frame whose message has not begun, or begins a session,
// may go on later: TVM's host pauses inside of frames while its computer is busy, and repeats nothing. A single ff is
// dropped, because the start of the next frame would be mistaken for its second half.
static void idle(rpc_server_t* s) {
  const uint32_t now = boardsmith_now_ms();
  if (s->idle_at != s->rx.to) {
    s->idle_at = s->rx.to;
    s->idle_since_ms = now;
  }
  if ((now - s->idle_since_ms) >= BOARDSMITH_FRAME_GAP_MS) {
    if (s->state >= (unsigned)SKIP_REFUSED) {
      s->escaped = 0;
    }
    if ((s->state >= (unsigned)FIND_MESSAGE) && (server_message(s)[MESSAGE_TYPE] != (uint8_t)SESSION_INIT)) {
      abandon(s);
    }
    request_answer_due(s);
  }
}

// Leaves the loop and updates `slow`.
static tvm_crt_error_t leave(rpc_server_t* s) {
  s->slow = (uint8_t)(s->escaped | ((s->rx.to == s->end) ? 1U : 0U));
  return (s->state == (unsigned)SHUT_DOWN) ? kTvmErrorPlatformShutdown : kTvmErrorNoError;
}

// Processes bytes, or the absence of bytes.
static tvm_crt_error_t receive(rpc_server_t* s, uint8_t** new_data, size_t* new_data_size_bytes) {
  if ((new_data == NULL) || (*new_data_size_bytes == 0U)) {
    idle(s);
  } else {
    const uint8_t* p = *new_data;
    const uint8_t* const end = &p[*new_data_size_bytes];
    *new_data += *new_data_size_bytes;
    *new_data_size_bytes = 0;
    s->idle_at = NULL;
    while (p != end) {
      CRT_ASSERT((s->rx.to <= s->end) && ((s->escaped == 0U) || (s->escaped == 0xFFU)));
      if ((*p | s->escaped) == 0xFFU) {
        const uint8_t byte = *p;
        p++;
        s->rx.crc = (uint16_t)crc16_byte(s->rx.crc, byte);
        if (s->escaped == 0U) {
          s->escaped = byte;
          continue;
        }
        escaped_byte(s, byte);
      } else if (s->rx.to == s->end) {
        p++;  // dropped
      }
      // A word of ff is two bytes of contents. Fewer ff than that are for the branch above.
      const size_t bytes = (size_t)(end - p);
      if ((bytes > 3U) || ((bytes != 0U) && (*p != 0xFFU))) {
        const size_t room = (size_t)(s->end - s->rx.to);
        p = crc16_span(&s->rx, p, (bytes < room) ? bytes : room);
      }
      if (s->rx.to == s->end) {
        state_done(s);
      }
    }
    TVMPlatformYield();
  }
  return leave(s);
}

// Continues after the last byte of a state.
static tvm_crt_error_t last_byte(rpc_server_t* s) {
  state_done(s);
  return leave(s);
}

tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server, uint8_t** new_data, size_t* new_data_size_bytes) {
  rpc_server_t* s = server;
  // First the most frequent case, bytes that arrive one by one. In the order below GCC saves only one register: 9 % of
  // a copy's instructions.
  if ((new_data == NULL) || (*new_data_size_bytes != 1U) || (s->slow != 0U) || (**new_data == 0xFFU)) {
    return receive(s, new_data, new_data_size_bytes);
  }
  uint8_t* const data = *new_data;
  const uint8_t byte = *data;
  *new_data = &data[1];
  *new_data_size_bytes = 0;
  s->rx.crc = (uint16_t)crc16_byte(s->rx.crc, byte);
  uint8_t* const at = s->rx.to;
  const uint8_t* const end = s->end;
  *at = byte;
  s->rx.to = &at[1];
  if (&at[1] == end) {
    return last_byte(s);
  }
  return kTvmErrorNoError;
}

rpc_server_t* server_active;

#ifdef BOARDSMITH_PACKET_SECTION
// The board places the server with its packet buffer in a memory of its own.
static rpc_server_t placed __attribute__((section(BOARDSMITH_PACKET_SECTION)));

static int take_server(void** out) {
  *out = &placed;
  return 0;
}
#else
static int take_server(void** out) { return boardsmith_take(sizeof(rpc_server_t), out); }
#endif

microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func, void* write_func_ctx) {
  void* memory;
  uint8_t nonce;
  (void)TVMInitializeRuntime();  // cannot fail
  int error = take_server(&memory);
  if (error == 0) {
    error = (int)TVMPlatformGenerateRandom(&nonce, 1);
  }
  if (error != 0) {
    TVMPlatformAbort((tvm_crt_error_t)error);
  }
  rpc_server_t* s = memory;
  (void)memset(s, 0, sizeof *s);
  s->nonce = nonce;
  s->header = NO_SESSION;
  s->write = write_func;
  s->write_context = write_func_ctx;
  s->transmitter = TRANSMIT_RESET;
  s->slow = 0xFF;
  enter(s, FIND_START, 0);
  server_active = s;
  transmit_message(s, HEADER(SESSION_TERMINATE), NULL, 0);
  return s;
}
