// SPDX-License-Identifier: Apache-2.0
//
// Frames out: straight from memory to the port's write function, escaped on the way, never gathered.
#include <string.h>

#include "crc16.h"
#include "server.h"
#include "wire.h"

#define WRITE_BYTES 128U  // at most this many in one call of the port, as ports written for TVM expect

// Hands bytes to the port; after a failure the rest of the frame goes nowhere.
static void put_raw(rpc_server_t* s, const uint8_t* data, size_t bytes) {
  while ((bytes != 0U) && s->sending) {
    const size_t part = (bytes < WRITE_BYTES) ? bytes : WRITE_BYTES;
    const ssize_t sent = s->write(s->write_context, data, part);
    if ((sent <= 0) || ((size_t)sent > part)) {
      s->sending = false;
      s->unsettled = true;
      return;
    }
    data += sent;
    bytes -= (size_t)sent;
  }
}

void transmit_put(rpc_server_t* s, const void* data, size_t bytes) {
  static const uint8_t escaped_ff[2] = {0xFF, 0xFF};
  const uint8_t* p = data;
  while (bytes != 0U) {
    const size_t run = crc16_span(&s->tx_crc, NULL, p, bytes);
    put_raw(s, p, run);
    p += run;
    bytes -= run;
    if (bytes != 0U) {
      s->tx_crc = crc16_byte(crc16_byte(s->tx_crc, 0xFF), 0xFF);
      put_raw(s, escaped_ff, sizeof escaped_ff);
      p++;
      bytes--;
    }
  }
}

void transmit_begin(rpc_server_t* s, uint8_t type, uint32_t body_bytes) {
  static const uint8_t start[3] = {0xFE, 0xFF, 0xFD};
  const bool nop = s->unsettled;
  s->unsettled = false;
  s->sending = true;
  put_raw(s, &start[nop ? 0 : 1], nop ? 3U : 2U);
  s->tx_crc = CRC16_FRAME_START;
  // Log and Terminate carry the id 0: they belong to no session.
  const bool ours = (type != SESSION_LOG) && (type != SESSION_TERMINATE);
  uint8_t head[4 + MESSAGE_HEADER];
  wire_put32(head, body_bytes + MESSAGE_HEADER);
  head[4] = ours ? s->initiator : 0U;
  head[5] = ours ? s->responder : 0U;
  head[6] = type;
  transmit_put(s, head, sizeof head);
}

void transmit_end(rpc_server_t* s) {
  const uint8_t crc[2] = {(uint8_t)s->tx_crc, (uint8_t)(s->tx_crc >> 8)};
  transmit_put(s, crc, sizeof crc);
  s->sending = false;
}

void transmit_message(rpc_server_t* s, uint8_t type, const void* body, uint32_t bytes) {
  transmit_begin(s, type, bytes);
  transmit_put(s, body, bytes);
  transmit_end(s);
}

void transmit_void(rpc_server_t* s) {
  static const uint8_t reply[20] = {12, 0, 0, 0, 0, 0, 0, 0, RPC_RETURN, 0, 0, 0, 1, 0, 0, 0, kTVMNullptr, 0, 0, 0};
  transmit_message(s, SESSION_NORMAL, reply, sizeof reply);
}

void transmit_exception(rpc_server_t* s, const char* text) {
  const size_t bytes = strlen(text);
  uint8_t head[28];  // length, code, one argument: a string, its length
  wire_put64(head, 20U + (uint64_t)bytes);
  wire_put32(&head[8], RPC_EXCEPTION);
  wire_put32(&head[12], 1U);
  wire_put32(&head[16], kTVMStr);
  wire_put64(&head[20], bytes);
  transmit_begin(s, SESSION_NORMAL, (uint32_t)(sizeof head + bytes));
  transmit_put(s, head, sizeof head);
  transmit_put(s, text, bytes);
  transmit_end(s);
}
