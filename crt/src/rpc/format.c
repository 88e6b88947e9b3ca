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

static void put_number(sink_t* k, uint64_t value, uint32_t base, bool negative, uint32_t width, char fill) {
  char digits[20];
  uint32_t n = 0;
  do {
    uint32_t digit;
    if (base == 16U) {
      digit = (uint32_t)value & 15U;
      value >>= 4;
    } else if (value <= UINT32_MAX) {  // most numbers, and no call of a 64-bit division
      digit = (uint32_t)value % 10U;
      value = (uint32_t)value / 10U;
    } else {
      // Divides by 10 in two 32-bit steps and one correction: value = high * 2^16 + low.
      uint64_t quotient = 0;
      uint32_t rest = 0;
      for (int32_t shift = 48; shift >= 0; shift -= 16) {
        const uint32_t part = (rest << 16) | (uint32_t)((value >> shift) & 0xFFFFU);
        quotient = (quotient << 16) | (part / 10U);
        rest = part % 10U;
      }
      digit = rest;
      value = quotient;
    }
    digits[n] = (char)((digit < 10U) ? ('0' + digit) : ('a' + (digit - 10U)));
    n++;
  } while (value != 0U);
  uint32_t shown = n + (negative ? 1U : 0U);
  if (negative && (fill == '0')) {
    put(k, '-');
  }
  for (; shown < width; shown++) {
    put(k, fill);
  }
  if (negative && (fill != '0')) {
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
  spec->fill = ' ';
  spec->width = 0;
  spec->words = 1;
  if (*f == '0') {
    spec->fill = '0';
  }
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
    uint64_t value;
    switch (*f) {
      case 's':
        put_text(&k, va_arg(list, const char*), spec.width);
        break;
      case 'c':
        put(&k, (char)va_arg(list, int));
        break;
      case 'p':
        put(&k, '0');
        put(&k, 'x');
        put_number(&k, (uint64_t)(uintptr_t)va_arg(list, void*), 16, false, spec.width, '0');
        break;
      case 'd':
      case 'i': {
        int64_t v;
        if (spec.words == 1U) {
          v = va_arg(list, int);
        } else if (spec.words == 2U) {
          v = va_arg(list, long);
        } else {
          v = va_arg(list, long long);
        }
        value = (v < 0) ? (0U - (uint64_t)v) : (uint64_t)v;
        put_number(&k, value, 10, v < 0, spec.width, spec.fill);
        break;
      }
      case 'u':
      case 'x':
        if (spec.words == 1U) {
          value = va_arg(list, unsigned int);
        } else if (spec.words == 2U) {
          value = va_arg(list, unsigned long);
        } else {
          value = va_arg(list, unsigned long long);
        }
        put_number(&k, value, (*f == 'x') ? 16U : 10U, false, spec.width, spec.fill);
        break;
      case '%':
        put(&k, '%');
        break;
      default:
        put(&k, '%');
        f = start;
        break;
    }
  }
  va_end(list);
  if (size != 0U) {
    out[k.used] = '\0';
  }
  return k.used;
}
