// SPDX-License-Identifier: Apache-2.0
//
// The RPC server's one state, shared by the receiver (server.c), the requests (request.c) and the transmitter (transmit.c).
// Frames, sessions and requests are specified byte by byte in SPEC.md.
#ifndef BOARDSMITH_RPC_SERVER_H_
#define BOARDSMITH_RPC_SERVER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>

#include "crt_config.h"

// Offsets in a session message of type NORMAL.
enum {
  MESSAGE_TYPE = 2,       // u8, behind the u16 session id
  MESSAGE_HEADER = 3,     // bytes before the RPC packet
  MESSAGE_LENGTH = 3,     // u64: bytes behind this field
  MESSAGE_CODE = 11,      // i32
  MESSAGE_BODY = 15,      // what the code says
  TENSOR_FIXED = 24,      // data, device, rank, type: what precedes a tensor's shape
  TENSOR_RANK = 16,       // offset of the i32 rank
  TENSOR_TYPE = 20,       // offset of the 4 bytes of element type
};

// Session message types.
enum { SESSION_INIT = 0x00, SESSION_REPLY = 0x01, SESSION_TERMINATE = 0x02, SESSION_LOG = 0x03, SESSION_NORMAL = 0x10 };

// RPC codes. What is missing in between is only ever refused.
enum {
  RPC_SHUTDOWN = 1,
  RPC_INIT_SERVER = 2,
  RPC_CALL_FUNC = 3,
  RPC_RETURN = 4,
  RPC_EXCEPTION = 5,
  RPC_COPY_FROM = 6,
  RPC_COPY_TO = 7,
  RPC_COPY_ACK = 8,
  RPC_GET_GLOBAL = 9,
  RPC_FREE_HANDLE = 10,
  RPC_SET_DEVICE = 11,
  RPC_GET_ATTR = 12,
  RPC_ALLOC_DATA = 13,
  RPC_FREE_DATA = 14,
  RPC_STREAM_SYNC = 15,
  RPC_COPY_AMONG = 16,
  RPC_ALLOC_SCOPED = 17,
  RPC_CREATE_STREAM = 18,
  RPC_FREE_STREAM = 19,
  RPC_SET_STREAM = 20,
};

#define PACKET_BYTES ((uint32_t)(TVM_CRT_MAX_PACKET_SIZE_BYTES))

_Static_assert((TVM_CRT_MAX_PACKET_SIZE_BYTES) >= 128, "a packet buffer holds at least the head of a copy");

// What the bytes of the frame under way are.
typedef enum frame_part {
  PART_HUNT = 0,  // none: looking for ff fd
  PART_LENGTH,    // 4 bytes of payload length
  PART_MESSAGE,   // a message that fits the buffer, acted upon after its CRC
  PART_HEAD,      // of a longer one: up to the RPC code
  PART_TENSOR,    // up to the tensor's shape
  PART_SHAPE,     // up to the copy's first byte
  PART_STREAM,    // the copy itself, straight to its place
  PART_SKIP,      // a refused message's rest
  PART_CRC,       // 2 bytes of CRC
} frame_part_t;

typedef struct rpc_server {
  // Receiver. The next `want` unescaped bytes go to `at`; 0 while hunting.
  uint8_t* at;
  uint32_t want;
  uint16_t crc;      // over the frame so far
  bool escaped;      // the last byte was an unpaired ff
  bool fresh;        // bytes came since the loop was last called without any
  uint8_t part;      // frame_part_t
  uint8_t before;    // the part that the CRC follows
  bool damaged;      // an invalid escape: the CRC cannot hold
  uint16_t sum;      // the CRC to be met
  uint32_t length;   // of the frame's payload
  uint32_t left;     // of a refused one, behind this buffer's worth
  uint32_t since_ms; // when the loop was first called without bytes
  uint8_t field[4];  // the frame's length, then its CRC

  // Session.
  uint8_t initiator, responder;  // nonces of the session, also its id's bytes on the wire; initiator 0: there is none
  uint8_t nonce;
  bool shut;

  // Transmitter.
  bool unsettled;  // nothing sent yet, or a write failed: the next frame is preceded by a nop
  bool sending;    // inside a frame: a log line has to wait, that is, is dropped
  uint16_t tx_crc;
  microtvm_rpc_channel_write_t write;
  void* write_context;

  // The message: pad to put the RPC packet behind its 3-byte header on an 8-byte boundary. What a request leaves free
  // behind itself holds its decoded arguments.
  uint64_t buffer[(PACKET_BYTES + 5U + 7U) / 8U];
} rpc_server_t;

// Returns where the message under way begins.
static inline uint8_t* server_message(rpc_server_t* s) { return &((uint8_t*)s->buffer)[5]; }

// The server that log lines go through; NULL until it is there.
extern rpc_server_t* server_active;

// transmit.c -----------------------------------------------------------------------------------------------------------

// Begins a frame of one session message: type, and body_bytes to follow through transmit_put.
void transmit_begin(rpc_server_t* s, uint8_t type, uint32_t body_bytes);

// Sends part of the body, straight from data.
void transmit_put(rpc_server_t* s, const void* data, size_t bytes);

// Ends the frame.
void transmit_end(rpc_server_t* s);

// Sends a whole message with a short body.
void transmit_message(rpc_server_t* s, uint8_t type, const void* body, uint32_t bytes);

// Answers the request under way: done, nothing to return.
void transmit_void(rpc_server_t* s);

// Answers the request under way with an Exception.
void transmit_exception(rpc_server_t* s, const char* text);

// request.c ------------------------------------------------------------------------------------------------------------

// Executes the request of length bytes (session header included) in the buffer and answers it, once; a message
// that is no request (an empty one, Shutdown) is not answered.
void request_execute(rpc_server_t* s, uint32_t length);

// Reads the tensor and byte count that begin a copy: body points at the tensor, bytes are there at most. Returns how many
// bytes they took, or 0 if they are malformed, or name memory the device does not know.
uint32_t request_copy_head(const uint8_t* body, uint32_t bytes, int writable, uint8_t** address, size_t* count);

#endif  // BOARDSMITH_RPC_SERVER_H_
