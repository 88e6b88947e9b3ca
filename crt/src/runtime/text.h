// SPDX-License-Identifier: Apache-2.0
//
// Comparing texts and patterns.
#ifndef BOARDSMITH_RUNTIME_TEXT_H_
#define BOARDSMITH_RUNTIME_TEXT_H_

#include <stddef.h>

// Returns what follows start in text, or NULL if text begins otherwise.
const char* boardsmith_text_after(const char* text, const char* start);

// Returns 1 if text is the pattern with name in the place of its '%', else 0.
int boardsmith_text_matches(const char* text, const char* pattern, const char* name);

// strlen.
size_t boardsmith_text_length(const char* text);

#endif  // BOARDSMITH_RUNTIME_TEXT_H_
