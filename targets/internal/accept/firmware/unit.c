// SPDX-License-Identifier: Apache-2.0
//
// Runs one file of the runtime's unit tests, which is linked with a runtime of its own under other names.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/platform.h>

int32_t unit_wrong_line;

void unit_check(int right, int32_t line) {
  if ((right == 0) && (unit_wrong_line == 0)) {
    unit_wrong_line = line;
  }
}

// The heap is memory of the device's arena.
#define HEAP_BYTES 6144U
#define UNIT 16U
#define UNITS (HEAP_BYTES / UNIT)

typedef struct header {
  uint32_t units;  // of 16 bytes, with this one
  uint32_t taken;
  uint32_t filler[2];
} header_t;
_Static_assert(sizeof(header_t) == UNIT, "a header is one unit");

static header_t* heap;

void* unit_malloc(size_t bytes) {
  if ((heap == NULL) || (bytes > HEAP_BYTES)) {
    return NULL;
  }
  const uint32_t want = 1U + (uint32_t)((bytes + UNIT - 1U) / UNIT);
  for (uint32_t i = 0; i < UNITS; i += heap[i].units) {
    while ((heap[i].taken == 0U) && ((i + heap[i].units) < UNITS) && (heap[i + heap[i].units].taken == 0U)) {
      heap[i].units += heap[i + heap[i].units].units;
    }
    if ((heap[i].taken == 0U) && (heap[i].units >= want)) {
      if (heap[i].units > want) {
        heap[i + want].units = heap[i].units - want;
        heap[i + want].taken = 0U;
      }
      heap[i].units = want;
      heap[i].taken = 1U;
      return &heap[i + 1U];
    }
  }
  return NULL;
}

void unit_free(void* p) {
  if (p != NULL) {
    (((header_t*)p) - 1)->taken = 0U;
  }
}

int unit_print(char* text, size_t bytes, const char* format, ...) {
  size_t at = 0;
  va_list args;
  va_start(args, format);
  for (const char* f = format; *f != '\0'; f++) {
    char digits[12] = {*f, '\0'};
    const char* piece = digits;
    if (strncmp(f, "%s", 2) == 0) {
      piece = va_arg(args, const char*);
      f += 1;
    } else if (strncmp(f, "%u", 2) == 0) {
      uint32_t n = va_arg(args, unsigned);
      char* d = &digits[11];
      *d = '\0';
      do {
        *--d = (char)('0' + (n % 10U));
        n /= 10U;
      } while (n != 0U);
      piece = d;
      f += 1;
    } else if (strncmp(f, "%08x", 4) == 0) {
      const uint32_t n = va_arg(args, unsigned);
      for (uint32_t i = 0; i < 8U; i++) {
        digits[i] = "0123456789abcdef"[(n >> (28U - (4U * i))) & 0xFU];
      }
      digits[8] = '\0';
      f += 3;
    } else {
      // One character.
    }
    for (; (*piece != '\0') && ((at + 1U) < bytes); piece++) {
      text[at++] = *piece;
    }
  }
  va_end(args);
  text[at] = '\0';
  return (int)at;
}

int unit_main(void);

// Returns the line of the first assertion that was wrong, 0 if none was; -1 if the arena has no room for the heap.
int32_t accept_unit(TVMValue* args, int* codes, int num_args, TVMValue* out_value, int* out_type, void* resource);
int32_t accept_unit(TVMValue* args, int* codes, int num_args, TVMValue* out_value, int* out_type, void* resource) {
  (void)args;
  (void)codes;
  (void)num_args;
  (void)resource;
  const DLDevice cpu = {kDLCPU, 0};
  out_value->v_int64 = -1;
  if (TVMPlatformMemoryAllocate(HEAP_BYTES, cpu, (void**)&heap) == kTvmErrorNoError) {
    heap[0] = (header_t){.units = UNITS};
    unit_wrong_line = 0;
    (void)unit_main();
    out_value->v_int64 = unit_wrong_line;
    (void)TVMPlatformMemoryFree(heap, cpu);
  }
  *out_type = kTVMArgInt;
  return 0;
}
