// SPDX-License-Identifier: Apache-2.0
//
// The part of printf that log lines use, so that no image needs a libc's printf: %s %c %d %i %u %x %p %%, l, ll and z,
// a width, zero fill to 20 digits. From an unknown conversion on, the format is printed unchanged, because the size of
// that argument is unknown. A NULL for %s is printed as (null).
#include <boardsmith/boardsmith.h>
#include <stdbool.h>

#include "runtime/text.h"

enum { DIGITS_MOST = 20 };  // of 64 bits

// The arguments, the format of a number, and its digits.
typedef struct number {
  va_list list;  // of the arguments
  size_t least;  // digits, DIGITS_MOST at most
  char digits[DIGITS_MOST + 1];
} number_t;

// Formats the next argument, whose size follows from the number of l and z, at the end of digits; returns the first
// digit. Divides bit by bit, which saves libgcc's 64-bit division: 780 bytes on a Cortex-M3. Not inlined, which saves
// 48 bytes there.
__attribute__((noinline)) static char* put_number(number_t* n, unsigned words, char conversion) {
  char* digit = &n->digits[sizeof n->digits];
  char* enough = digit - n->least;
  const bool is_long = words > ((sizeof(long) == sizeof(int)) ? 1U : 0U);
  uint64_t value = is_long ? (uint64_t)va_arg(n->list, unsigned long long) : (uint64_t)va_arg(n->list, int);
  const bool negative = (conversion <= 'i') && ((int64_t)value < 0);
  if (negative) {
    value = 0U - value;
    enough++;
  }
  if ((conversion > 'i') && !is_long) {
    value = (unsigned)value;
  }
  const uint32_t base = ((conversion == 'x') || (conversion == 'p')) ? 16U : 10U;
  do {
    uint32_t rest = 0;
    for (uint32_t i = 64; i != 0U; i--) {
      rest = (rest << 1) | (uint32_t)(value >> 63);
      value <<= 1;
      if (rest >= base) {
        rest -= base;
        value |= 1U;
      }
    }
    digit--;
    rest += (rest < 10U) ? (uint32_t)'0' : ((uint32_t)'a' - 10U);
    *digit = (char)rest;
  } while ((value != 0U) || (digit > enough));
  if (negative) {
    digit--;
    *digit = '-';
  }
  return digit;
}

size_t boardsmith_vformat(char* out, size_t size, const char* fmt, va_list args) {
  size_t used = 0;
  number_t n;
  va_copy(n.list, args);
  for (; *fmt != '\0'; fmt++) {
    const char* text = fmt;  // the text to write: one character by default
    size_t length = 1;
    size_t width = 0;
    if (*fmt == '%') {
      const char* f = &fmt[1];
      unsigned words = 0;
      for (; (unsigned)(*f - '0') < 10U; f++) {
        width = ((width * 10U) + (size_t)(*f - '0')) & 0xFFU;
      }
      n.least = (fmt[1] != '0') ? 0U : (width < DIGITS_MOST) ? width : DIGITS_MOST;
      for (; (*f == 'l') || (*f == 'z'); f++) {
        words++;
      }
      switch (*f) {
        case 's':
          text = va_arg(n.list, const char*);
          text = (text != NULL) ? text : "(null)";
          length = boardsmith_text_length(text);
          break;
        case 'c':
          n.digits[0] = (char)va_arg(n.list, int);
          text = n.digits;
          break;
        case 'd':
        case 'i':
        case 'u':
        case 'x':
        case 'p':
          text = put_number(&n, ((*f == 'p') && (sizeof(void*) > sizeof(int))) ? 1U : words, *f);
          length = (size_t)(&n.digits[sizeof n.digits] - text);
          break;
        case '%':
          break;
        default:
          length = boardsmith_text_length(fmt);
          f = &fmt[length - 1U];
          width = 0;
          break;
      }
      fmt = f;
    }
    for (width = (length < width) ? width : length; width != 0U; width--) {
      if ((used + 1U) < size) {
        out[used] = (width > length) ? ' ' : *text;
        used++;
      }
      text += (width > length) ? 0 : 1;
    }
  }
  va_end(n.list);
  if (size != 0U) {
    out[used] = '\0';
  }
  return used;
}
