// SPDX-License-Identifier: Apache-2.0
//
// Sends frames: straight from memory to the port's write function, escaped without a buffer.
#include "crc16.h"
#include "runtime/contracts.h"
#include "server.h"

#define WRITE_BYTES 128U  // per call of the port: the limit that ports written for TVM expect

// Passes bytes to the port; after a failure the rest of the frame is dropped.
static void put_raw(rpc_server_t* s, const uint8_t* data, size_t bytes) {
  while ((bytes != 0U) && (s->transmitter == TRANSMIT_SENDING)) {
    const size_t part = (bytes < WRITE_BYTES) ? bytes : WRITE_BYTES;
    const size_t sent = (size_t)s->write(s->write_context, data, part);
    if ((sent - 1U) >= part) {  // 0, too many, or an error
      s->transmitter = TRANSMIT_RESET;
      return;
    }
    data += sent;
    bytes -= sent;
  }
}

// Sends `before` bytes that precede p in memory unescaped, then the bytes at p escaped: each run of ff is sent twice.
static void put(rpc_server_t* s, const uint8_t* p, size_t bytes, size_t before) {
  if (bytes == 0U) {
    return;  // p may be NULL
  }
  const uint8_t* const end = &p[bytes];
  const uint8_t* from = p - before;
  do {
    const uint8_t* const run = crc16_span(&s->tx, p, (size_t)(end - p));
    p = run;
    if (p != end) {
      p = crc16_escapes(&s->tx, p, (size_t)(end - p));
    }
    put_raw(s, from, (size_t)(p - from));
    from = run;
  } while (from != end);
}

void transmit_put(rpc_server_t* s, const void* data, size_t bytes) { put(s, data, bytes, 0); }

void transmit_begin(rpc_server_t* s, uint32_t header, uint32_t* words, size_t count, size_t more_bytes) {
  CRT_ASSERT((count == 0U) || (count >= (size_t)WORDS_HEAD));
  CRT_ASSERT(s->transmitter != (unsigned)TRANSMIT_SENDING);
  uint32_t head[3];
  size_t bytes = MESSAGE_HEADER + more_bytes;
  if (count == 0U) {
    words = head;
    count = 3;
  } else {
    bytes += 4U * (count - 3U);
    words[3] = (uint32_t)bytes - MESSAGE_CODE;
    words[4] = 0;
  }
  // Two bytes that are not sent, fe ff fd, the frame's length, the header.
  words[0] = 0xFFFE0000U;
  words[1] = 0xFDU | ((uint32_t)bytes << 8);
  words[2] = ((uint32_t)bytes >> 24) | (header << 8);
  const size_t nop = (s->transmitter == TRANSMIT_RESET) ? 1U : 0U;
  s->transmitter = TRANSMIT_SENDING;
  s->tx.crc = CRC16_FRAME_START;
  put(s, &((uint8_t*)words)[5], (4U * count) - 5U, 2U + nop);
}

void transmit_end(rpc_server_t* s, const void* data, size_t bytes) {
  transmit_put(s, data, bytes);
  const uint16_t crc = s->tx.crc;
  transmit_put(s, &crc, sizeof crc);
  if (s->transmitter == TRANSMIT_SENDING) {
    s->transmitter = TRANSMIT_IDLE;
  }
}

void transmit_message(rpc_server_t* s, uint32_t header, const void* data, size_t bytes) {
  transmit_begin(s, header, NULL, 0, bytes);
  transmit_end(s, data, bytes);
}

void transmit_value(rpc_server_t* s, uint32_t code, uint32_t type, uintptr_t value, const void* more,
                    size_t more_bytes) {
  uint32_t words[WORDS_HEAD + 5];
  words[WORDS_HEAD] = code;
  words[WORDS_HEAD + 1] = 1;
  words[WORDS_HEAD + 2] = type;
  words[WORDS_HEAD + 3] = (uint32_t)value;
  words[WORDS_HEAD + 4] = (uint32_t)((uint64_t)value >> 32);
  transmit_begin(s, s->header, words, (type == (uint32_t)kTVMNullptr) ? (WORDS_HEAD + 3U) : (WORDS_HEAD + 5U),
                 more_bytes);
  transmit_end(s, more, more_bytes);
}
