// SPDX-License-Identifier: Apache-2.0
//
// Lines with a checksum, read and written without a heap and without the C library's formatting.
#include "lines.h"

#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <string.h>

#include "port.h"

enum {
  CRC_DIGITS = 8,
  NUMBER_DIGITS = 4,
  LEAST_BYTES = 1 + (int)NUMBER_DIGITS + 1 + (int)CRC_DIGITS,
  LINE_BYTES = (2 * (int)LINES_DATA_BYTES) + 48
};

static struct {
  char text[LINE_BYTES];
  uint32_t used;
  bool too_long;
} received;

static uint32_t sent_crc;

// ---- Reading -----------------------------------------------------------------------------------------------------

// Returns the value of a digit, 16 for another character.
static uint32_t digit(char c) {
  if ((c >= '0') && (c <= '9')) {
    return (uint32_t)c - (uint32_t)'0';
  }
  return ((c >= 'a') && (c <= 'f')) ? (((uint32_t)c - (uint32_t)'a') + 10U) : 16U;
}

// Reads a number of 1 to 8 digits. Returns false for anything else.
static bool parse(const char* text, size_t digits, uint32_t* number) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; i++) {
    const uint32_t d = digit(text[i]);
    if (d > 15U) {
      return false;
    }
    value = (value << 4) | d;
  }
  *number = value;
  return (digits >= 1U) && (digits <= 8U);
}

// Returns whether the CRC of the received line, a request, is correct.
static bool is_intact(uint32_t* number) {
  const size_t before = (size_t)received.used - (size_t)CRC_DIGITS;
  uint32_t crc = 0;
  return parse(&received.text[1], NUMBER_DIGITS, number) && parse(&received.text[before], CRC_DIGITS, &crc) &&
         (received.text[1 + (int)NUMBER_DIGITS] == ' ') && (crc == boardsmith_crc32(received.text, before));
}

static void answer_damaged(void) {
  lines_begin('=', 0);
  lines_put("no");
  lines_put("damaged");
  lines_end();
}

// Checks the received line at its end. Returns whether it is an intact request.
static bool finish(lines_reader_t* line) {
  const uint32_t used = received.used;
  const bool complete = !received.too_long && (used >= (uint32_t)LEAST_BYTES);
  const bool is_request = (used > 0U) && (received.text[0] == '?');
  const bool intact = complete && is_request && is_intact(&line->number);
  received.used = 0;
  received.too_long = false;
  if (is_request && !intact) {
    answer_damaged();
  }
  line->at = 1U + (uint32_t)NUMBER_DIGITS;
  line->end = intact ? (used - (uint32_t)CRC_DIGITS) : 0U;
  return intact;
}

bool lines_received(uint8_t byte, lines_reader_t* line) {
  if (byte == (uint8_t)'\n') {
    return finish(line);
  }
  if (byte == (uint8_t)'?') {  // begins a line: the one before it was cut off
    received.used = 0;
    received.too_long = false;
  }
  if (received.used < (uint32_t)LINE_BYTES) {
    received.text[received.used] = (char)byte;
    received.used++;
  } else {
    received.too_long = true;
  }
  return false;
}

// Returns the next word and advances behind it. A space precedes each word and the CRC.
static const char* next_word(lines_reader_t* line, size_t* length) {
  uint32_t end = line->at;
  uint32_t begin = line->at;
  if ((begin < line->end) && (received.text[begin] == ' ')) {
    begin++;
    end = begin;
    while ((end < line->end) && (received.text[end] != ' ')) {
      end++;
    }
    line->at = end;
  }
  *length = (size_t)end - begin;
  return &received.text[begin];
}

bool lines_word(lines_reader_t* line, const char* word) {
  lines_reader_t try = *line;
  size_t length = 0;
  const char* const at = next_word(&try, &length);
  bool matches = length == strlen(word);
  for (size_t i = 0; matches && (i < length); i++) {
    matches = at[i] == word[i];
  }
  if (matches) {
    *line = try;
  }
  return matches;
}

bool lines_number(lines_reader_t* line, uint32_t* number) {
  size_t length = 0;
  const char* const at = next_word(line, &length);
  return (length <= 8U) && parse(at, length, number);
}

bool lines_bytes(lines_reader_t* line, uint8_t* to, uint32_t max_bytes, uint32_t* count) {
  size_t length = 0;
  const char* const at = next_word(line, &length);
  const uint32_t n = (uint32_t)(length / 2U);
  if ((length == 0U) || ((length % 2U) != 0U) || (n > max_bytes)) {
    return false;
  }
  for (size_t i = 0; i < length; i++) {
    if (digit(at[i]) > 15U) {
      return false;
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    to[i] = (uint8_t)((digit(at[2U * i]) << 4) | digit(at[(2U * i) + 1U]));
  }
  *count = n;
  return true;
}

// Only the space before the CRC remains.
bool lines_ended(const lines_reader_t* line) { return (line->end - line->at) == 1U; }

// ---- Writing -----------------------------------------------------------------------------------------------------

static void send(const char* text, size_t length) {
  sent_crc = boardsmith_crc32_more(sent_crc, text, length);
  if (boardsmith_port.send(boardsmith_port.ctx, (const uint8_t*)text, (uint32_t)length) != 0) {
    boardsmith_port.stop(boardsmith_port.ctx, PORT_STOP_BROKEN, 0);
  }
}

static void send_digits(uint64_t number, uint32_t digits) {
  for (uint32_t i = digits; i > 0U; i--) {
    const uint32_t shift = 4U * (i - 1U);
    const uint64_t rest = number >> shift;
    const char c = "0123456789abcdef"[rest & 15U];
    send(&c, 1);
  }
}

void lines_start(void) { send("\n", 1); }

void lines_begin(char kind, uint32_t number) {
  sent_crc = 0;
  send(&kind, 1);
  send_digits(number, NUMBER_DIGITS);
}

void lines_put(const char* word) {
  send(" ", 1);
  send(word, strlen(word));
}

void lines_put_number(uint64_t number, uint32_t digits) {
  send(" ", 1);
  send_digits(number, digits);
}

void lines_put_bytes(const uint8_t* data, uint32_t size_bytes) {
  send((size_bytes == 0U) ? " -" : " ", (size_bytes == 0U) ? 2U : 1U);
  for (uint32_t i = 0; i < size_bytes; i++) {
    send_digits(data[i], 2);
  }
}

void lines_end(void) {
  send(" ", 1);
  send_digits(sent_crc, CRC_DIGITS);
  send("\n", 1);
}
