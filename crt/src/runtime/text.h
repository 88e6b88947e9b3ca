// SPDX-License-Identifier: Apache-2.0
//
// Comparison of texts and patterns.
#ifndef BOARDSMITH_RUNTIME_TEXT_H_
#define BOARDSMITH_RUNTIME_TEXT_H_

#include <stddef.h>

// Returns the part of text after start, or NULL if text does not begin with start.
const char* boardsmith_text_after(const char* text, const char* start);

// Returns 1 if text equals pattern with its '%' replaced by name, else 0.
int boardsmith_text_matches(const char* text, const char* pattern, const char* name);

// strlen.
size_t boardsmith_text_length(const char* text);

#endif  // BOARDSMITH_RUNTIME_TEXT_H_
