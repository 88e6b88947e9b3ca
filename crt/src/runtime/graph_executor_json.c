// SPDX-License-Identifier: Apache-2.0
//
// JSON, read where it lies. boardsmith_json_parse checks the whole text; what comes after relies on that.
#include "graph_executor_json.h"

#include <stdbool.h>

#include "crt_config.h"
#include "text.h"

#ifndef BOARDSMITH_NO_GRAPH_EXECUTOR

#define LEVELS_MOST 32U  // of nesting: one bit each

static const char* space(const char* p) {
  while ((*p == ' ') || (*p == '\n') || (*p == '\r') || (*p == '\t')) {
    p++;
  }
  return p;
}

static bool is_digit(char c) { return (c >= '0') && (c <= '9'); }

// Returns whether c is part of a number, true, false or null.
static bool is_word(char c) {
  return is_digit(c) || ((c >= 'a') && (c <= 'z')) || (c == 'E') || (c == '+') || (c == '-') || (c == '.');
}

// Returns the end of a string, NULL if it is none.
static const char* string_end(const char* p) {
  if (*p != '"') {
    return NULL;
  }
  for (p++; *p != '"'; p++) {
    if (*p == '\\') {
      p++;
    }
    if (*p == '\0') {
      return NULL;
    }
  }
  return &p[1];
}

// Returns the end of a value that contains no others, NULL if it is none.
static const char* scalar_end(const char* p) {
  if (!is_word(*p)) {
    return string_end(p);
  }
  while (is_word(*p)) {
    p++;
  }
  return p;
}

// Returns the value of the key at p, NULL if that is none.
static const char* value_of(const char* p) {
  p = string_end(p);
  if (p != NULL) {
    p = space(p);
    p = (*p == ':') ? space(&p[1]) : NULL;
  }
  return p;
}

const char* boardsmith_json_parse(const char* text) {
  const char* p = space(text);
  const char* const start = p;
  uint32_t objects = 0;  // bit 0: the innermost container is an object
  uint32_t levels = 0;
  for (;;) {
    p = space(p);
    if ((levels != 0U) && ((objects & 1U) != 0U)) {
      p = value_of(p);
      if (p == NULL) {
        return NULL;
      }
    }
    if ((*p == '{') || (*p == '[')) {
      if (levels == LEVELS_MOST) {
        return NULL;
      }
      objects = (objects << 1) | ((*p == '{') ? 1U : 0U);
      levels++;
      p = space(&p[1]);
      if (*p != (((objects & 1U) != 0U) ? '}' : ']')) {
        continue;
      }
    } else {
      p = scalar_end(p);
      if (p == NULL) {
        return NULL;
      }
    }
    p = space(p);
    while ((levels != 0U) && (*p == (((objects & 1U) != 0U) ? '}' : ']'))) {
      objects >>= 1;
      levels--;
      p = space(&p[1]);
    }
    if (levels == 0U) {
      return (*p == '\0') ? start : NULL;
    }
    if (*p != ',') {
      return NULL;
    }
    p++;
  }
}

// Returns the end of a value.
static const char* value_end(const char* p) {
  uint32_t levels = 0;
  do {
    if ((*p == '{') || (*p == '[')) {
      levels++;
      p++;
    } else if ((*p == '}') || (*p == ']')) {
      levels--;
      p++;
    } else if ((*p == '"') || is_word(*p)) {
      p = scalar_end(p);
    } else {
      p++;  // white space, a comma or a colon
    }
  } while (levels != 0U);
  return p;
}

const char* boardsmith_json_first(const char* value, char open) {
  if ((value == NULL) || (*value != open)) {
    return NULL;
  }
  const char* const p = space(&value[1]);
  return ((*p == '}') || (*p == ']')) ? NULL : p;
}

const char* boardsmith_json_next(const char* element) {
  if (element == NULL) {
    return NULL;
  }
  const char* const p = space(value_end(element));
  return (*p == ',') ? space(&p[1]) : NULL;
}

const char* boardsmith_json_member(const char* object, const char* key) {
  const char* p = boardsmith_json_first(object, '{');
  while (p != NULL) {
    const char* const value = value_of(p);
    if (boardsmith_json_equals(p, key) != 0) {
      return value;
    }
    p = boardsmith_json_next(value);
  }
  return NULL;
}

uint32_t boardsmith_json_count(const char* array) {
  if ((array == NULL) || (*array != '[')) {
    return UINT32_MAX;
  }
  uint32_t count = 0;
  for (const char* p = boardsmith_json_first(array, '['); p != NULL; p = boardsmith_json_next(p)) {
    count++;
  }
  return count;
}

const char* boardsmith_json_digits(const char* text, uint32_t* number) {
  const char* p = text;
  uint32_t n = 0;
  for (; is_digit(*p); p++) {
    if (n > (((uint32_t)INT32_MAX / 10U) - 1U)) {
      return NULL;
    }
    n = (10U * n) + ((uint32_t)*p - (uint32_t)'0');
  }
  *number = n;
  return (p != text) ? p : NULL;
}

int boardsmith_json_number(const char* value, uint32_t* number) {
  if (value == NULL) {
    return 0;
  }
  const bool quoted = (*value == '"');
  const char* const end = boardsmith_json_digits(quoted ? &value[1] : value, number);
  if (end == NULL) {
    return 0;
  }
  return (quoted ? (*end == '"') : !is_word(*end)) ? 1 : 0;
}

int boardsmith_json_equals(const char* value, const char* text) {
  if ((value == NULL) || (*value != '"')) {
    return 0;
  }
  const char* const end = boardsmith_text_after(&value[1], text);
  return ((end != NULL) && (*end == '"')) ? 1 : 0;
}

size_t boardsmith_json_text_bytes(const char* value) {
  const char* const end = (value != NULL) ? string_end(value) : NULL;
  return (end != NULL) ? (size_t)(end - value) - 1U : 0U;
}

size_t boardsmith_json_text(const char* value, char* out) {
  char* to = out;
  for (const char* p = &value[1]; *p != '"'; p++) {
    char c = *p;
    if (c == '\\') {
      p++;
      c = *p;
      if (c == 'n') {
        c = '\n';
      } else if (c == 'r') {
        c = '\r';
      } else if (c == 't') {
        c = '\t';
      } else if (c == 'u') {
        *to = '\\';
        to++;
      }
    }
    *to = c;
    to++;
  }
  *to = '\0';
  return (size_t)(to - out);
}

#endif  // BOARDSMITH_NO_GRAPH_EXECUTOR
