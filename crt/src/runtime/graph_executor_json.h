// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON where it lies: nothing is copied or allocated, and nesting needs no stack. A value is the address of its
// first byte; NULL is a value that does not exist, which every function takes.
#ifndef BOARDSMITH_RUNTIME_GRAPH_EXECUTOR_JSON_H_
#define BOARDSMITH_RUNTIME_GRAPH_EXECUTOR_JSON_H_

#include <stddef.h>
#include <stdint.h>

// Returns the text's value, or NULL if the text is not JSON or nested deeper than 32 levels. The other functions take
// only what lies in such a text.
const char* boardsmith_json_parse(const char* text);

// Returns the first element of an array (open is '[') or the first key of an object ('{'). NULL: it is empty, or no
// such value.
const char* boardsmith_json_first(const char* value, char open);

// Returns the element after this one, NULL after the last.
const char* boardsmith_json_next(const char* element);

// Returns the value of the first key of this name. The key must be written without escapes.
const char* boardsmith_json_member(const char* object, const char* key);

// Returns the number of elements; UINT32_MAX if it is no array.
uint32_t boardsmith_json_count(const char* array);

// Stores a number from 0 to INT32_MAX - 8, with or without quotes. Returns 1, or 0 if it is something else.
int boardsmith_json_number(const char* value, uint32_t* number);

// Reads digits of such a number. Returns the end of them, NULL if there are none or too many.
const char* boardsmith_json_digits(const char* text, uint32_t* number);

// Returns 1 if value is this string, written without escapes.
int boardsmith_json_equals(const char* value, const char* text);

// Returns an upper limit of the bytes that boardsmith_json_text writes; 0 if value is no string.
size_t boardsmith_json_text_bytes(const char* value);

// Writes a string, with its escapes decoded, and a NUL. Returns its length. An escape \u is copied as it is.
size_t boardsmith_json_text(const char* value, char* out);

#endif  // BOARDSMITH_RUNTIME_GRAPH_EXECUTOR_JSON_H_
