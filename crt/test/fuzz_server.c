// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target for the RPC server. If the input's first byte is even, the rest are bytes from the wire, in pieces.
// If it is odd, the rest are requests (a u16 length and a body each) that are framed correctly with the session's id,
// so that the parsers after the CRC are reached. Afterwards a valid session must work.
//
// Inputs cannot contain valid addresses. In requests, each u64 of this form therefore stands for an address near one of
// those returned so far: u8 which, u8 0, i16 distance, "HAND". The first two are the firmware's own memory,
// the third is the window for uploaded code. Each u64 of the form u16 size, u16 offset, "CRC4" stands for the CRC-32 of
// so many bytes at that offset of the window.
//
// lib_check (device.h) checks the arguments of operators.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include <sys/mman.h>

#include "device.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

enum { KNOWN = 32, WINDOW_BYTES = 4096 };

static uint8_t* code_pages;          // the second of three is the window for uploaded code
static unsigned code_uploads;        // so many were accepted
static const uint8_t* code_request;  // the request that the server gets; NULL if it gets other bytes

static uint64_t known[KNOWN];
static unsigned known_count;
static void* own_block;

static void learn(uint64_t value) {
  known[known_count % KNOWN] = value;
  known_count++;
}

// Records the result of the last answer: a handle; the value of a call; data and handle of an array, which come last.
static void learn_answer(size_t bytes) {
  uint64_t value;
  static const size_t places[] = {23, 35, 39};
  for (size_t i = 0; i < (sizeof places / sizeof places[0]); i++) {
    if ((places[i] + 8U) <= bytes) {
      (void)memcpy(&value, &host_reply[places[i]], 8);
      learn(value);
    }
  }
  if (bytes > 47U) {
    (void)memcpy(&value, &host_reply[bytes - 8U], 8);
    learn(value);
  }
}

// Replaces the placeholders in a request.
static void put_values(uint8_t* body, size_t size) {
  for (size_t i = 0; (i + 8U) <= size; i++) {
    uint16_t part[2];  // size and offset
    (void)memcpy(part, &body[i], sizeof part);
    if ((memcmp(&body[i + 4U], "CRC4", 4) == 0) && (((size_t)part[0] + part[1]) <= WINDOW_BYTES)) {
      const uint64_t crc = boardsmith_crc32(&code_pages[WINDOW_BYTES + part[1]], part[0]);
      (void)memcpy(&body[i], &crc, 8);
    } else if (memcmp(&body[i + 4U], "HAND", 4) == 0) {
      int16_t distance;
      (void)memcpy(&distance, &body[i + 2U], 2);
      const uint64_t value = known[body[i] % KNOWN] + (uint64_t)(int64_t)distance;
      (void)memcpy(&body[i], &value, 8);
    }
  }
}

static void feed_requests(const uint8_t* data, size_t size) {
  while (size >= 2U) {
    size_t n = ((size_t)data[0] | ((size_t)data[1] << 8)) % 2048U;
    data += 2;
    size -= 2U;
    n = (n < size) ? n : size;
    message_t* m = msg_begin(0x10);
    msg_u64(m, n);
    msg_raw(m, data, n);
    uint8_t* const body = &m->bytes[m->size - n];
    put_values(body, n);
    if ((n >= 4U) && (memcmp(body, "\1\0\0\0", 4) == 0)) {
      return;  // Shutdown: no further answers
    }
    code_request = body;
    msg_send(m);
    code_request = NULL;
    const int32_t code = host_answer();
    if (code < 0) {
      abort();  // more than one answer
    }
    if (code == 4) {
      uint64_t bytes;
      (void)memcpy(&bytes, &host_reply[3], 8);
      learn_answer((size_t)bytes + 11U);
    }
    data += n;
    size -= n;
  }
}

// The firmware's own memory: a window between inaccessible pages, a block and an array. At the end all of it must be
// unchanged.
static void own_memory(void) {
  static boardsmith_window_t window;
  static uint8_t* pages;
  const DLDevice cpu = {kDLCPU, 0};
  const DLDataType int8 = {kDLInt, 8, 1};
  const int64_t shape[1] = {5};
  const long page = 4096;
  if (pages == NULL) {
    pages = mmap(NULL, 3U * (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if ((pages == MAP_FAILED) || (mprotect(&pages[page], (size_t)page, PROT_READ | PROT_WRITE) != 0)) {
      abort();
    }
  }
  boardsmith_window_add(&window, &pages[page], (size_t)page, 1);
  if ((TVMDeviceAllocDataSpace(cpu, 64, 1, int8, &own_block) != 0) ||
      (TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, &lib_own) != 0)) {
    abort();
  }
  (void)memset(known, 0, sizeof known);
  known_count = 0;
  learn((uint64_t)(uintptr_t)&pages[page]);
  learn((uint64_t)(uintptr_t)own_block);
}

// Returns 1 if a pointer leads into the window for uploaded code.
static bool in_window(const void* pointer) {
  return ((uintptr_t)pointer - (uintptr_t)&code_pages[WINDOW_BYTES]) < WINDOW_BYTES;
}

// Checks the registry of a call of upload_and_link that the server has accepted.
static void check_upload(const uint8_t* request) {
  enum { REGISTRY_AT = 4 + 8 + 4 + (6 * 4) + (5 * 8) };  // code, function, count, type codes, five values
  const TVMFuncRegistry* registry;
  (void)memcpy((void*)&registry, &request[REGISTRY_AT], sizeof registry);
  if (!in_window(registry) || !in_window(registry->names) || !in_window((const void*)registry->funcs)) {
    abort();
  }
  for (unsigned i = 0; i < ((uint8_t)registry->names[0] | ((unsigned)(uint8_t)registry->names[1] << 8)); i++) {
    if (!in_window((const void*)(uintptr_t)registry->funcs[i])) {
      abort();
    }
  }
}

// Opens the window for uploaded code, which is never made executable: what a fuzzer uploads must not run.
static int refuse(void* base, size_t size_bytes, int on) {
  (void)base, (void)size_bytes;
  if (on == 0) {
    return 0;
  }
  code_uploads++;
  if (code_request != NULL) {
    check_upload(code_request);
  }
  return -1;
}

static uint8_t* code_window(void) {
  const size_t page = WINDOW_BYTES;
  if (code_pages == NULL) {
    code_pages = mmap(NULL, 3U * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if ((code_pages == MAP_FAILED) || (mprotect(&code_pages[page], page, PROT_READ | PROT_WRITE) != 0)) {
      abort();
    }
  }
  boardsmith_upload_open(&code_pages[page], page, 16, refuse);
  return &code_pages[page];
}

// Frees the allocations of own_memory, which must still exist.
static void own_memory_freed(void) {
  const DLDevice cpu = {kDLCPU, 0};
  if ((((TVMNDArray*)lib_own)->reference_count != 1U) || (TVMArrayFree(lib_own) != 0) ||
      (TVMDeviceFreeDataSpace(cpu, own_block) != 0)) {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2U) {
    return 0;
  }
  device_boot();
  own_memory();
  uint8_t* const code = code_window();
  learn((uint64_t)(uintptr_t)code);
  if (!host_start(0x21)) {
    abort();
  }
  message_t* m = msg_request(3);  // opens the system library
  msg_u64(m, 0x80028000U);
  msg_u32(m, 0);
  msg_request_send(m);
  if (host_answer() != 4) {
    abort();
  }
  device_memory_left = 1U << 20;
  if ((data[0] & 1U) == 0U) {
    device_step = 1U + data[1];
    if (device_feed(&data[2], size - 2U) == kTvmErrorPlatformShutdown) {
      return 0;
    }
    device_step = SIZE_MAX;
    device_idle(300);
    device_out_bytes = 0;
    host_at = 0;
  } else {
    feed_requests(&data[1], size - 1U);
  }
  if (boardsmith_memory_known(code, WINDOW_BYTES, 1) == 0) {
    abort();  // nothing was loaded, so all of the window is free
  }
  device_memory_left = SIZE_MAX;
  if (!host_start(0x33) || (host_global("runtime.SystemLib") != 0x80028000U)) {
    abort();
  }
  own_memory_freed();
  return 0;
}

#ifdef FUZZ_REPLAY  // without libFuzzer: each argument is a file with one input
int main(int argc, char** argv) {
  static uint8_t input[1 << 20];
  for (int i = 1; i < argc; i++) {
    FILE* f = fopen(argv[i], "rb");
    if (f == NULL) {
      (void)fprintf(stderr, "%s: cannot be read\n", argv[i]);
      return 1;
    }
    const size_t n = fread(input, 1, sizeof input, f);
    (void)fclose(f);
    (void)LLVMFuzzerTestOneInput(input, n);
  }
  (void)printf("%d inputs of the fuzzer, none of which stopped the server; %u uploads were accepted\n", argc - 1,
               code_uploads);
  return (code_uploads != 0U) ? 0 : 1;
}
#endif
