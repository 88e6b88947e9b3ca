// SPDX-License-Identifier: Apache-2.0
//
// The part of printf that log lines use: %s %c %d %i %u %x %p %%, l, ll and z, a width, zero fill. Nothing else, so that no
// image carries a libc's printf. An unknown conversion is printed as it stands, and its argument is not taken.
#include <boardsmith/boardsmith.h>
#include <stdbool.h>

typedef struct sink {
  char* out;
  size_t size;
  size_t used;
} sink_t;

static void put(sink_t* k, char c) {
  if ((k->used + 1U) < k->size) {
    k->out[k->used] = c;
    k->used++;
  }
}

// Divides *value by base (at most 16) and returns the remainder, in steps of 16 bits: no image then needs a libgcc routine
// for 64-bit division.
static uint32_t divide(uint64_t* value, uint32_t base) {
  uint64_t quotient = 0;
  uint32_t rest = 0;
  for (uint32_t shift = 64; shift != 0U;) {
    shift -= 16U;
    rest = (rest << 16) | ((uint32_t)(*value >> shift) & 0xFFFFU);
    quotient = (quotient << 16) | (rest / base);
    rest %= base;
  }
  *value = quotient;
  return rest;
}

// Puts a number with its sign: zeros go behind the sign, spaces before it.
static void put_number(sink_t* k, uint64_t value, uint32_t base, bool negative, uint32_t width, char fill) {
  char digits[20];
  uint32_t n = 0;
  uint32_t shown = negative ? 1U : 0U;
  do {
    digits[n] = "0123456789abcdef"[divide(&value, base)];
    n++;
  } while (value != 0U);
  if (negative && (fill == '0')) {
    put(k, '-');
    negative = false;
  }
  for (shown += n; shown < width; shown++) {
    put(k, fill);
  }
  if (negative) {
    put(k, '-');
  }
  while (n != 0U) {
    n--;
    put(k, digits[n]);
  }
}

static void put_text(sink_t* k, const char* text, uint32_t width) {
  uint32_t n = 0;
  while (text[n] != '\0') {
    n++;
  }
  for (; n < width; width--) {
    put(k, ' ');
  }
  for (; *text != '\0'; text++) {
    put(k, *text);
  }
}

// What stands between % and the conversion.
typedef struct spec {
  char fill;
  uint32_t width;
  uint32_t words;  // 1: int, 2: long or size_t, 3: long long
} spec_t;

static const char* read_spec(const char* f, spec_t* spec) {
  spec->fill = (*f == '0') ? '0' : ' ';
  spec->width = 0;
  spec->words = 1;
  for (; (*f >= '0') && (*f <= '9'); f++) {
    spec->width = ((spec->width * 10U) + (uint32_t)(*f - '0')) & 0xFFU;
  }
  for (; (*f == 'l') || (*f == 'z'); f++) {
    spec->words++;
  }
  return f;
}

size_t boardsmith_vformat(char* out, size_t size, const char* fmt, va_list args) {
  sink_t k = {out, size, 0};
  va_list list;
  va_copy(list, args);
  for (const char* f = fmt; *f != '\0'; f++) {
    if (*f != '%') {
      put(&k, *f);
      continue;
    }
    spec_t spec;
    const char* const start = f;
    f = read_spec(&f[1], &spec);
    if (*f == 's') {
      put_text(&k, va_arg(list, const char*), spec.width);
    } else if (*f == 'c') {
      put(&k, (char)va_arg(list, int));
    } else if (*f == '%') {
      put(&k, '%');
    } else if ((*f == 'd') || (*f == 'i') || (*f == 'u') || (*f == 'x') || (*f == 'p')) {
      uint64_t value;
      const bool with_sign = (*f == 'd') || (*f == 'i');
      if (*f == 'p') {
        value = (uint64_t)(uintptr_t)va_arg(list, void*);
        put(&k, '0');
        put(&k, 'x');
      } else if (spec.words == 1U) {
        const int v = va_arg(list, int);
        value = with_sign ? (uint64_t)v : (unsigned int)v;
      } else if (spec.words == 2U) {
        const long v = va_arg(list, long);
        value = with_sign ? (uint64_t)v : (unsigned long)v;
      } else {
        value = va_arg(list, unsigned long long);
      }
      const bool negative = with_sign && ((int64_t)value < 0);
      put_number(&k, negative ? (0U - value) : value, ((*f == 'x') || (*f == 'p')) ? 16U : 10U, negative, spec.width,
                 spec.fill);
    } else {
      put(&k, '%');
      f = start;
    }
  }
  va_end(list);
  if (size != 0U) {
    out[k.used] = '\0';
  }
  return k.used;
}
