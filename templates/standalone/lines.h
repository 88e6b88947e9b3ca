// SPDX-License-Identifier: Apache-2.0
//
// The lines that standalone firmware receives and sends: boardsmith.md, "Standalone firmware". A line is text in ASCII
// with a CRC-32 at its end. Numbers are hexadecimal, in small letters.
#ifndef BOARDSMITH_LINES_H_
#define BOARDSMITH_LINES_H_

#include <stdbool.h>
#include <stdint.h>

// The most bytes of a tensor in one line.
enum { LINES_DATA_BYTES = 128 };

// A received line that is being read, word by word. Valid until the next call of lines_received.
typedef struct lines_reader {
  uint32_t at;      // index of the next character
  uint32_t end;     // after the last one before the CRC
  uint32_t number;  // of the request
} lines_reader_t;

// Adds a received byte. Returns true if it ends an intact request, whose words are then read from *line. A damaged
// request is answered here.
bool lines_received(uint8_t byte, lines_reader_t* line);

// Reads the next word if it is this one.
bool lines_word(lines_reader_t* line, const char* word);

// Reads the next word as a number of 1 to 8 digits.
bool lines_number(lines_reader_t* line, uint32_t* number);

// Reads the next word as bytes, at most max_bytes, to `to`. Writes nothing if it returns false.
bool lines_bytes(lines_reader_t* line, uint8_t* to, uint32_t max_bytes, uint32_t* count);

// Returns whether all words were read.
bool lines_ended(const lines_reader_t* line);

// Ends a line that was cut off by a reset, if there is one. Call it once, first.
void lines_start(void);

// Sends a line: begin, then words, then end. kind is '=' for an answer to the request of this number, '!' for a line
// without a request. No call that may fault comes between them.
void lines_begin(char kind, uint32_t number);
void lines_put(const char* word);
void lines_put_number(uint64_t number, uint32_t digits);         // with this many digits
void lines_put_bytes(const uint8_t* data, uint32_t size_bytes);  // as one word; "-" for none
void lines_end(void);

#endif  // BOARDSMITH_LINES_H_
