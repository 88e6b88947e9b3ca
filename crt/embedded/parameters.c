// SPDX-License-Identifier: Apache-2.0
//
// Replaces a model's parameters at run time, from a blob as TVM writes it: little-endian numbers; a magic number of 8
// bytes, 8 bytes of zeros, the number of names, the names, the number of arrays, the arrays.
#include <stdbool.h>
#include <tvm_micro_runtime.h>

#define BLOB_MAGIC 0xF7E58D4F05049CB7U
#define ARRAY_MAGIC 0xDD5E40F096B4A13FU
#define CPU 1U

// What is left of a blob. ok is false after the first error, and reading then goes on within the blob.
typedef struct reader {
  const uint8_t* at;
  size_t left_bytes;
  bool ok;
} reader_t;

// Returns the next bytes of the blob; NULL if it has fewer.
static const uint8_t* take(reader_t* r, uint64_t bytes) {
  const uint8_t* const at = r->at;
  if (bytes > r->left_bytes) {
    r->ok = false;
    r->left_bytes = 0;
    return NULL;
  }
  r->at = &at[bytes];
  r->left_bytes -= (size_t)bytes;
  return at;
}

static uint64_t number(reader_t* r, size_t bytes) {
  const uint8_t* const at = take(r, bytes);
  uint64_t n = 0;
  for (size_t i = bytes; (at != NULL) && (i != 0U); i--) {
    n = (n << 8) | at[i - 1U];
  }
  return n;
}

static void expect(reader_t* r, uint64_t n, size_t bytes) {
  if (number(r, bytes) != n) {
    r->ok = false;
  }
}

// The CRC of boardsmith_crc32, which needs a crt_config.h; a firmware with this file may have none.
static uint32_t crc32_of(const uint8_t* data, size_t bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= data[i];
    for (unsigned bit = 0; bit < 8U; bit++) {
      crc = ((crc & 1U) != 0U) ? ((crc >> 1) ^ 0xEDB88320U) : (crc >> 1);
    }
  }
  return ~crc;
}

// Reads a name, and returns whether it is this one.
static bool is_next_name(reader_t* r, const char* name) {
  const uint64_t bytes = number(r, 8);
  const uint8_t* const at = take(r, bytes);
  return (at != NULL) && (bytes == strlen(name)) && (strncmp((const char*)at, name, (size_t)bytes) == 0);
}

// Reads a name, and returns the parameter that has it; the number of parameters if none has.
static uint32_t named(reader_t* r, const TVMModelParameters* p) {
  const reader_t name = *r;
  (void)take(r, number(r, 8));
  for (uint32_t i = 0; i < p->count; i++) {
    reader_t copy = name;
    if (is_next_name(&copy, p->tensors[i].name)) {
      return i;
    }
  }
  r->ok = false;
  return p->count;
}

// Returns whether each parameter is among the next names, of which there are as many: each then has one.
static bool has_all(const reader_t* names, const TVMModelParameters* p) {
  bool all = true;
  for (uint32_t i = 0; (i < p->count) && all; i++) {
    reader_t r = *names;
    all = false;
    for (uint32_t k = 0; (k < p->count) && !all; k++) {
      all = is_next_name(&r, p->tensors[i].name);
    }
  }
  return all;
}

// Reads an array of this type and shape, and returns its data in the blob.
static const uint8_t* array(reader_t* r, const TVMModelTensor* t) {
  expect(r, ARRAY_MAGIC, 8);
  expect(r, 0, 8);
  expect(r, CPU, 8);
  expect(r, (uint64_t)t->ndim, 4);
  expect(r, t->dtype.code, 1);
  expect(r, t->dtype.bits, 1);
  expect(r, t->dtype.lanes, 2);
  for (int32_t i = 0; i < t->ndim; i++) {
    expect(r, (uint64_t)t->shape[i], 8);
  }
  expect(r, t->size_bytes, 8);
  return take(r, t->size_bytes);
}

// Copies little-endian elements.
static void copy(uint8_t* to, const uint8_t* from, const TVMModelTensor* t) {
#if defined(__BYTE_ORDER__) && (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
  const size_t element = ((size_t)t->dtype.bits + 7U) / 8U;
  for (size_t i = 0; i < t->size_bytes; i++) {
    to[((i / element) * element) + (element - 1U - (i % element))] = from[i];
  }
#else
  (void)memcpy(to, from, t->size_bytes);
#endif
}

// Reads the whole blob, and replaces the parameters if write is true. Returns whether the blob is the model's.
static bool read_blob(const TVMModelParameters* p, const void* blob, size_t blob_bytes, bool write) {
  reader_t r = {(const uint8_t*)blob, blob_bytes, true};
  expect(&r, BLOB_MAGIC, 8);
  expect(&r, 0, 8);
  expect(&r, p->count, 8);
  reader_t names = r;
  r.ok = r.ok && has_all(&names, p);
  for (uint32_t k = 0; (k < p->count) && r.ok; k++) {
    (void)take(&r, number(&r, 8));
  }
  expect(&r, p->count, 8);
  for (uint32_t k = 0; (k < p->count) && r.ok; k++) {
    const uint32_t i = named(&names, p);
    const uint8_t* const data = (i < p->count) ? array(&r, &p->tensors[i]) : NULL;
    if (write && (data != NULL)) {
      copy((uint8_t*)p->data[i], data, &p->tensors[i]);
    }
  }
  return r.ok && (r.left_bytes == 0U);
}

int32_t TVMSetParameters(const TVMModel* model, const void* blob, size_t blob_bytes, uint32_t crc32) {
  const TVMModelParameters* const p = model->parameters;
  if (p == NULL) {
    return (int32_t)kTvmErrorExecutorModuleBadContext;
  }
  if ((crc32_of((const uint8_t*)blob, blob_bytes) != crc32) || !read_blob(p, blob, blob_bytes, false)) {
    return (int32_t)kTvmErrorFunctionCallInvalidArg;
  }
  (void)read_blob(p, blob, blob_bytes, true);
  return 0;
}
