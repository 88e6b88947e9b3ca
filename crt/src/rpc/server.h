// SPDX-License-Identifier: Apache-2.0
//
// The RPC server's state, shared by the receiver (server.c), the requests (request.c) and the transmitter (transmit.c).
// Frames and sessions are specified in docs/formats/wire.md, requests in docs/formats/rpc.md.
#ifndef BOARDSMITH_RPC_SERVER_H_
#define BOARDSMITH_RPC_SERVER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>

#include "crc16.h"
#include "crt_config.h"

// Offsets in a session message of type NORMAL.
enum {
  MESSAGE_TYPE = 2,    // u8, after the u16 session id
  MESSAGE_HEADER = 3,  // bytes before the RPC packet
  MESSAGE_LENGTH = 3,  // u64: bytes after this field
  MESSAGE_CODE = 11,   // i32
  MESSAGE_BODY = 15,   // depends on the code
};

// A tensor: u64 data, device, i32 rank, type, shape, u64 byte offset.
enum {
  TENSOR_DEVICE = 8,
  TENSOR_RANK = 16,
  TENSOR_TYPE = 20,
  TENSOR_SHAPE = 24,
  TENSOR_BYTES = 32,  // with rank 0
};

// Session message types.
enum { SESSION_INIT = 0x00, SESSION_REPLY = 0x01, SESSION_TERMINATE = 0x02, SESSION_LOG = 0x03, SESSION_NORMAL = 0x10 };

// The requests from GetGlobalFunc on, by code, with their arguments' types for boardsmith_arguments.
#define SYSTEM_CALLS(X)     \
  X(RPC_GET_GLOBAL, "L")    \
  X(RPC_FREE_HANDLE, "DA")  \
  X(RPC_SET_DEVICE, "G")    \
  X(RPC_GET_ATTR, "GA")     \
  X(RPC_ALLOC_DATA, "GAAF") \
  X(RPC_FREE_DATA, "GD")    \
  X(RPC_STREAM_SYNC, "GD")  \
  X(RPC_COPY_AMONG, "HHD")  \
  X(RPC_ALLOC_SCOPED, "H")  \
  X(RPC_CREATE_STREAM, "G") \
  X(RPC_FREE_STREAM, "GD")  \
  X(RPC_SET_STREAM, "GD")
#define SYSTEM_CALL_CODE(code, types) code,
#define SYSTEM_CALL_TYPES(code, types) types "\0"

// RPC codes.
enum {
  RPC_SHUTDOWN = 1,
  RPC_INIT_SERVER = 2,
  RPC_CALL_FUNC = 3,
  RPC_RETURN = 4,
  RPC_EXCEPTION = 5,
  RPC_COPY_FROM = 6,
  RPC_COPY_TO = 7,
  RPC_COPY_ACK = 8,
  // clang-format off
  SYSTEM_CALLS(SYSTEM_CALL_CODE)
  // clang-format on
  RPC_END
};
_Static_assert((RPC_GET_GLOBAL == 9) && (RPC_END == 21), "the list must be in the order of the codes");

#define PACKET_BYTES ((uint32_t)(TVM_CRT_MAX_PACKET_SIZE_BYTES))

_Static_assert((TVM_CRT_MAX_PACKET_SIZE_BYTES) >= 128, "the packet buffer must hold the head of a copy");

// The receiver's states, by the meaning of the next unescaped bytes. In the protocol's state machine
// (docs/formats/wire.md, 1.6) they are FindPacketStart, FindPacketLength, FindPacketCrc (its payload is a message or
// the rest of a copy here) and FindCrcEnd.
enum {
  FIND_START,        // none: searching for ff fd
  SHUT_DOWN,         // none: the host has shut the server down
  SKIP_REFUSED,      // none, in the rest of a refused message: searching for ff fd, where each ff of data is doubled
  FIND_LENGTH,       // 4 bytes of payload length
  FIND_MESSAGE,      // the part of a message that fits the buffer: processed after its CRC, or before the rest comes
  FIND_COPY,         // the rest of a copy, straight into the tensor
  FIND_MESSAGE_CRC,  // the 2 bytes after a message
  FIND_COPY_CRC,     // the 2 bytes after a copy
};
#define STATE_OF_COPY 1U
_Static_assert(((FIND_MESSAGE % 2) == 0) && ((FIND_MESSAGE_CRC % 2) == 0) && ((FIND_COPY % 2) == 1) &&
                   ((FIND_COPY_CRC % 2) == 1),
               "from FIND_MESSAGE on, the lowest bit distinguishes the states of a copy");

// The transmitter's states.
enum {
  TRANSMIT_IDLE,     // the last frame was sent completely
  TRANSMIT_SENDING,  // part of a frame was sent: log lines are dropped
  TRANSMIT_RESET,    // nothing was sent yet, or a write failed: the next frame is preceded by a nop
};

// The first bytes of a message in one word: initiator, responder, type.
#define HEADER(type) ((uint32_t)(type) << 16)
#define NO_SESSION 0xFF000000U  // differs from every header

// Number of zero values after the last argument of a call: generated operators do not check the number of arguments,
// and the host must not be able to choose what they read as further ones.
#define UNUSED_VALUES 8U

typedef struct rpc_server {
  // Receiver. The next unescaped bytes go to `rx.to`, up to `end`; if both are equal, bytes are dropped.
  crc16_run_t rx;
  uint8_t* end;
  uint8_t slow;         // not 0: the next byte needs more than being stored
  uint8_t state;        // see FIND_START
  uint16_t frame_crc;   // over the whole frame, while its CRC is received
  uint8_t escaped;      // ff: the last byte was an unpaired ff; else 0
  uint8_t transmitter;  // see TRANSMIT_IDLE
  uint8_t due;          // DAMAGED_REQUEST or DAMAGED_COPY: the answer to an abandoned request; 0: none
  uint32_t length;      // of the frame's payload
  uint8_t* idle_at;     // `rx.to` when the loop was last called without bytes, NULL if some came since
  uint32_t idle_since_ms;
  uint8_t field[4];  // the frame's length, then its CRC

  // Session.
  uint32_t header;  // first bytes of its requests; NO_SESSION: no session
  uint8_t nonce;    // of this or the last session

  // Transmitter; its `tx.to` is NULL.
  crc16_run_t tx;

  // The port.
  microtvm_rpc_channel_write_t write;
  void* write_context;

  // The message, padded so that the RPC packet after its 3-byte header is 8-byte aligned. The space after a request
  // holds its decoded arguments.
  uint64_t buffer[(PACKET_BYTES + 5U + 7U) / 8U];
  uint64_t unused[UNUSED_VALUES];  // always 0
} rpc_server_t;

// Returns the start of the current message.
static inline uint8_t* server_message(rpc_server_t* s) { return &((uint8_t*)s->buffer)[5]; }

// The server that sends log lines; NULL before the start.
extern rpc_server_t* server_active;

enum { WORDS_HEAD = 5 };

// transmit.c ----------------------------------------------------------------------------------------------------------

// Begins a frame: a message's header (see HEADER), or if count is not 0 an RPC packet of count words, of which the
// first WORDS_HEAD are filled in here. more_bytes must follow through transmit_put, the last ones through transmit_end.
void transmit_begin(rpc_server_t* s, uint32_t header, uint32_t* words, size_t count, size_t more_bytes);
void transmit_put(rpc_server_t* s, const void* data, size_t bytes);
void transmit_end(rpc_server_t* s, const void* data, size_t bytes);

// Sends a message that is not an RPC packet.
void transmit_message(rpc_server_t* s, uint32_t header, const void* data, size_t bytes);

// Answers the current request: a Return or an Exception with one value of this type, then more.
void transmit_value(rpc_server_t* s, uint32_t code, uint32_t type, uintptr_t value, const void* more,
                    size_t more_bytes);

// request.c -----------------------------------------------------------------------------------------------------------

// Executes the request in the buffer and answers it once; an empty packet and Shutdown are not answered. If the message
// is longer than the buffer, only its beginning is there: a copy continues in FIND_COPY and is answered later, anything
// else is refused.
void request_execute(rpc_server_t* s);

// The texts of Exceptions.
#define TEXTS(X)                                           \
  X(SHORT, "short request")                                \
  X(ARGUMENTS, "wrong arguments")                          \
  X(TYPE, "unsupported type")                              \
  X(REQUEST, "unsupported request")                        \
  X(MEMORY, "tensor outside known memory")                 \
  X(LONG, "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES") \
  X(DAMAGED_REQUEST, "boardsmith: damaged request")        \
  X(DAMAGED_COPY, "boardsmith: damaged copy")              \
  X(NO_MEMORY, "out of memory")
#define TEXT_RESULT(result, text) result,
#define TEXT_STRING(result, text) text "\0"

// Results of a request: an empty Return; an answer that was sent; an Exception with one of TEXTS; an Exception with the
// runtime's last error.
typedef enum result { DONE, ANSWERED, TEXTS(TEXT_RESULT) FAILED } result_t;
enum { TEXTS_BEGIN = (int)ANSWERED + 1 };
_Static_assert((((int)DAMAGED_REQUEST % 2) == 0) && ((int)DAMAGED_COPY == ((int)DAMAGED_REQUEST + (int)STATE_OF_COPY)),
               "see STATE_OF_COPY");

// Answers the current request with its result.
void request_finish(rpc_server_t* s, result_t result);

// Sends the answer to an abandoned request, if one is due.
void request_answer_due(rpc_server_t* s);

#endif  // BOARDSMITH_RPC_SERVER_H_
