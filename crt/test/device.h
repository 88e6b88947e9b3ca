// SPDX-License-Identifier: Apache-2.0
//
// A device in the test's process: the server with a platform whose clock, memory and link the test controls, and a host
// that frames requests and decodes answers with its own CRC and unframer.
#ifndef BOARDSMITH_TEST_DEVICE_H_
#define BOARDSMITH_TEST_DEVICE_H_

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define IS_FREED(memory) (__asan_address_is_poisoned(memory) != 0)
#else
#define IS_FREED(memory) false
#endif
#include <boardsmith/boardsmith.h>
#include <boardsmith/upload.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/metadata_types.h>

#include "crt_config.h"

// ---- Platform -----------------------------------------------------------------------------------

static uint32_t device_clock_ms;   // boardsmith_now_ms
static size_t device_memory_left;  // allocations beyond it fail
static size_t device_allocations;  // live ones
static tvm_crt_error_t device_random_error;
static uint8_t device_random = 0x44;  // makes the first session's nonce 0x83, as in the captured examples
static uint8_t device_out[1 << 22];   // written by the device: room for the largest block with each byte escaped
static size_t device_out_bytes;
static size_t device_writes_left = SIZE_MAX;  // writes beyond it fail

uint32_t boardsmith_now_ms(void) { return device_clock_ms; }

static jmp_buf* device_abort_to;  // target of an abort, which gets its code; NULL: an abort ends the test

void TVMPlatformAbort(tvm_crt_error_t code) {
  if (device_abort_to != NULL) {
    longjmp(*device_abort_to, (int)code);
  }
  (void)fprintf(stderr, "platform abort 0x%x\n", (unsigned)code);
  abort();
}

// All live allocations, so that a reboot can free them.
typedef struct block {
  struct block* next;
  struct block* previous;
} device_block_t;

static device_block_t device_blocks = {&device_blocks, &device_blocks};

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t bytes, DLDevice dev, void** out) {
  (void)dev;
  if (bytes > device_memory_left) {
    return kTvmErrorPlatformNoMemory;
  }
  device_block_t* b = malloc(sizeof *b + bytes);
  b->next = device_blocks.next;
  b->previous = &device_blocks;
  b->next->previous = b;
  device_blocks.next = b;
  *out = &b[1];
  device_allocations++;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void* memory, DLDevice dev) {
  (void)dev;
  device_block_t* b = device_blocks.next;
  while ((b != &device_blocks) && (&b[1] != memory)) {
    b = b->next;
  }
  if (b == &device_blocks) {  // static memory, as the answer of boardsmith.memory; a block that was freed is an error
    if (IS_FREED(memory)) {
      abort();
    }
    return kTvmErrorPlatformStackAllocBadFree;
  }
  b->next->previous = b->previous;
  b->previous->next = b->next;
  free(b);
  device_allocations--;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* out, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    out[i] = device_random;
  }
  return device_random_error;
}

tvm_crt_error_t TVMPlatformTimerStart(void) { return kTvmErrorNoError; }

tvm_crt_error_t TVMPlatformTimerStop(double* seconds) {
  *seconds = 0.5;
  return kTvmErrorNoError;
}

// Arguments and counts of the hooks.
static size_t device_yields;
static size_t device_calls;            // so many began
static size_t device_calls_open;       // and did not end yet
static TVMFunctionHandle device_call;  // the latest

void TVMPlatformYield(void) { device_yields++; }

void boardsmith_call_begins(TVMFunctionHandle f) {
  device_calls++;
  device_calls_open++;
  device_call = f;
}

void boardsmith_call_ends(void) { device_calls_open--; }

static size_t device_sessions;  // so many began
static char device_log[16];     // the latest line's beginning
static size_t device_log_bytes;

void boardsmith_session_begins(void) { device_sessions++; }

void boardsmith_logged(const char* text, size_t size_bytes) {
  device_log_bytes = size_bytes;
  (void)memcpy(device_log, text, (size_bytes < sizeof device_log) ? size_bytes : sizeof device_log);
}

static inline ssize_t device_write(void* context, const uint8_t* data, size_t bytes) {
  (void)context;
  if (device_writes_left == 0U) {
    return 0;
  }
  device_writes_left--;
  if ((device_out_bytes + bytes) > sizeof device_out) {
    device_out_bytes = 0;  // too much output: keep only the latest
  }
  (void)memcpy(&device_out[device_out_bytes], data, bytes);
  device_out_bytes += bytes;
  return (ssize_t)bytes;
}

// ---- System library: one operator and some functions that answer in every way --------------------

// Ends the test run if a tensor among the arguments does not lie in known memory, which the server must prevent.
static inline void lib_check(const TVMValue* args, const int* codes, int n) {
  for (int i = 0; i < n; i++) {
    if (codes[i] != kTVMDLTensorHandle) {
      continue;
    }
    const DLTensor* t = args[i].v_handle;
    uint64_t bytes = ((unsigned)t->dtype.bits * t->dtype.lanes + 7U) / 8U;
    for (int k = 0; k < t->ndim; k++) {
      if ((t->shape[k] < 0) || __builtin_mul_overflow(bytes, (uint64_t)t->shape[k], &bytes)) {
        abort();
      }
    }
    if (__builtin_add_overflow(bytes, t->byte_offset, &bytes) || (bytes > UINT32_MAX) ||
        (boardsmith_memory_known(t->data, (size_t)bytes, 0) != 1)) {
      abort();
    }
    for (size_t k = 0; k < (size_t)bytes; k++) {
      (void)((volatile const uint8_t*)t->data)[k];  // AddressSanitizer checks it, too
    }
  }
}

// Checks its arguments: three tensors of one type and length. Like generated operators, it reads elements at data and
// ignores the offset.
static inline int lib_add(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)out;
  (void)out_code;
  (void)handle;
  lib_check(args, codes, n);
  if ((n != 3) || (codes[0] != kTVMDLTensorHandle) || (codes[1] != kTVMDLTensorHandle) ||
      (codes[2] != kTVMDLTensorHandle)) {
    TVMAPISetLastError("add: needs three tensors");
    return -1;
  }
  const DLTensor* a = args[0].v_handle;
  const DLTensor* b = args[1].v_handle;
  const DLTensor* c = args[2].v_handle;
  for (int i = 0; i < 3; i++) {
    const DLTensor* t = args[i].v_handle;
    if ((t->ndim != 1) || (t->dtype.bits != 8U) || (t->dtype.lanes != 1U) || (t->shape[0] != a->shape[0]) ||
        ((i == 2) && (boardsmith_memory_known(t->data, (size_t)t->shape[0], 1) == 0))) {
      TVMAPISetLastError("add: needs tensors of one length");
      return -1;
    }
  }
  for (int64_t i = 0; i < a->shape[0]; i++) {
    ((int8_t*)c->data)[i] = (int8_t)(((int8_t*)a->data)[i] + ((int8_t*)b->data)[i]);
  }
  return 0;
}

// Returns its first argument: a string and bytes too.
static inline int lib_echo(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)handle;
  lib_check(args, codes, n);
  if (n < 1) {
    return 0;
  }
  *out = args[0];
  *out_code = codes[0];
  if (codes[0] == kTVMBytes) {
    const DLDevice cpu = {kDLCPU, 0};
    const TVMByteArray* in = args[0].v_handle;
    TVMByteArray* copy = NULL;
    void* data = NULL;
    (void)TVMPlatformMemoryAllocate(sizeof *copy, cpu, (void**)&copy);
    (void)TVMPlatformMemoryAllocate(in->size + 1U, cpu, &data);
    (void)memcpy(data, in->data, in->size);
    copy->data = data;
    copy->size = in->size;
    out->v_handle = copy;
  }
  return 0;
}

static inline int lib_boom(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)args, (void)codes, (void)n, (void)out, (void)out_code, (void)handle;
  TVMAPISetLastError("boom");
  return -1;
}

static inline int lib_strange(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)args, (void)codes, (void)n, (void)handle;
  out->v_handle = out;
  *out_code = kTVMObjectHandle;
  return 0;
}

// Returns a new array of five bytes, to which the caller has the one reference.
static inline int lib_array(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)args, (void)codes, (void)n, (void)handle;
  const int64_t shape[1] = {5};
  *out_code = kTVMNDArrayHandle;
  return TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, (TVMArrayHandle*)&out->v_handle);
}

// Returns a further reference to an array of the firmware.
static TVMArrayHandle lib_own;
static inline int lib_lend(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)args, (void)codes, (void)n, (void)handle;
  TVMNDArray_IncrementReference((TVMNDArray*)lib_own);
  out->v_handle = lib_own;
  *out_code = kTVMNDArrayHandle;
  return 0;
}

// Like generated operators, reads arguments that were not given; returns the values of all eight, combined by OR.
static inline int lib_beyond(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)codes, (void)handle;
  int64_t all = 0;
  for (int i = n; i < (n + 8); i++) {
    all |= args[i].v_int64;
  }
  out->v_int64 = all;
  *out_code = kTVMArgInt;
  return 0;
}

// A model that does nothing, for the AOT executor.
static const int64_t lib_shape[1] = {16};
static const struct TVMTensorInfo lib_tensors[] = {{"x", lib_shape, 1, {kDLInt, 8, 1}},
                                                   {"output0", lib_shape, 1, {kDLInt, 8, 1}}};
static const struct TVMMetadata lib_metadata = {1, lib_tensors, 1, &lib_tensors[1], 1, NULL, 0, NULL, 0, "tvmgen_idle"};

static inline int lib_get_metadata(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)args, (void)codes, (void)n, (void)handle;
  out->v_handle = (void*)(uintptr_t)&lib_metadata;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

// Returns an error without a text: the number of one of request.c's results.
static inline int lib_run(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* handle) {
  (void)args, (void)codes, (void)n, (void)out, (void)out_code, (void)handle;
  return 3;
}

static const TVMBackendPackedCFunc lib_functions[] = {lib_add,   lib_echo, lib_boom,   lib_strange, lib_get_metadata,
                                                      lib_array, lib_lend, lib_beyond, lib_run};
static const TVMFuncRegistry lib_registry = {
    "\011\000add\000echo\000boom\000strange\000tvmgen_idle_get_c_metadata\000array\000lend\000beyond\000"
    "tvmgen_idle_run\000",
    lib_functions};
static const TVMModule lib_module = {&lib_registry};

const TVMModule* TVMSystemLibEntryPoint(void) { return &lib_module; }

static const TVMBackendPackedCFunc device_functions[] = {boardsmith_crc32_packed, boardsmith_memory_packed,
                                                         boardsmith_upload_and_link_packed, boardsmith_unlink_packed,
                                                         TVMGraphExecutorModule_Create};
const TVMFuncRegistry boardsmith_functions = {
    "\005\000boardsmith.crc32\000boardsmith.memory\000boardsmith.upload_and_link\000boardsmith.unlink\000"
    "tvm.graph_executor.create\000",
    device_functions};

// ---- Device -------------------------------------------------------------------------------------

static microtvm_rpc_server_t device;
static size_t host_at;                 // how much of device_out has been read
static size_t device_step = SIZE_MAX;  // bytes handed over in one call

static inline void device_boot(void) {
  const DLDevice cpu = {kDLCPU, 0};
  while (device_blocks.next != &device_blocks) {
    (void)TVMPlatformMemoryFree(&device_blocks.next[1], cpu);
  }
  device_memory_left = SIZE_MAX;
  device_writes_left = SIZE_MAX;
  device_out_bytes = 0;
  host_at = 0;
  device_clock_ms = 1;
  device = MicroTVMRpcServerInit(device_write, NULL);
}

static inline tvm_crt_error_t device_feed(const uint8_t* data, size_t bytes) {
  tvm_crt_error_t error = kTvmErrorNoError;
  while (bytes != 0U) {
    const size_t part = (bytes < device_step) ? bytes : device_step;
    uint8_t* copy = malloc(part);  // so that AddressSanitizer detects a read past the end
    uint8_t* p = copy;
    size_t left = part;
    (void)memcpy(copy, data, part);
    while (left != 0U) {
      error = MicroTVMRpcServerLoop(device, &p, &left);
    }
    if (p != &copy[part]) {
      abort();  // the caller would feed bytes again
    }
    free(copy);
    data += part;
    bytes -= part;
  }
  return error;
}

// Lets ms pass without a byte.
static inline void device_idle(uint32_t ms) {
  size_t none = 0;
  for (uint32_t i = 0; i <= ms; i += 10U) {
    (void)MicroTVMRpcServerLoop(device, NULL, &none);
    device_clock_ms += 10U;
  }
}

// ---- Host ---------------------------------------------------------------------------------------

static uint8_t host_id[2];

static inline uint16_t host_crc(const uint8_t* p, size_t bytes) {
  uint32_t crc = 0xFFFFU;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= (uint32_t)p[i] << 8;
    for (int bit = 0; bit < 8; bit++) {
      crc = ((crc & 0x8000U) != 0U) ? ((crc << 1) ^ 0x1021U) : (crc << 1);
    }
    crc &= 0xFFFFU;
  }
  return (uint16_t)crc;
}

static inline size_t host_escape(uint8_t* out, const uint8_t* p, size_t bytes) {
  size_t n = 0;
  for (size_t i = 0; i < bytes; i++) {
    out[n++] = p[i];
    if (p[i] == 0xFFU) {
      out[n++] = p[i];
    }
  }
  return n;
}

// Frames payload into out, which has room for twice as much and 20 bytes; returns the frame's bytes.
static inline size_t host_frame(uint8_t* out, const uint8_t* payload, size_t bytes) {
  const uint8_t length[4] = {(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 24)};
  size_t n = 2;
  out[0] = 0xFF;
  out[1] = 0xFD;
  n += host_escape(&out[n], length, 4);
  n += host_escape(&out[n], payload, bytes);
  const uint16_t crc = host_crc(out, n);
  const uint8_t tail[2] = {(uint8_t)crc, (uint8_t)(crc >> 8)};
  return n + host_escape(&out[n], tail, 2);
}

// A message being put together.
typedef struct message {
  uint8_t bytes[1 << 16];
  size_t size;
} message_t;

static message_t host_message;
static uint8_t host_wire[(1 << 17) + 64];

static inline void msg_raw(message_t* m, const void* data, size_t bytes) {
  (void)memcpy(&m->bytes[m->size], data, bytes);
  m->size += bytes;
}
static inline void msg_u32(message_t* m, uint32_t v) { msg_raw(m, &v, 4); }
static inline void msg_u64(message_t* m, uint64_t v) { msg_raw(m, &v, 8); }

// Begins a message: session header, and for a request its length (set by msg_send) and code.
static inline message_t* msg_begin(uint8_t type) {
  message_t* m = &host_message;
  m->size = 0;
  msg_raw(m, host_id, 2);
  msg_raw(m, &type, 1);
  return m;
}

static inline message_t* msg_request(uint32_t code) {
  message_t* m = msg_begin(0x10);
  msg_u64(m, 0);
  msg_u32(m, code);
  return m;
}

static inline void msg_close(message_t* m) {
  const uint64_t length = m->size - 11U;
  (void)memcpy(&m->bytes[3], &length, 8);
}

static inline size_t msg_wire(const message_t* m) { return host_frame(host_wire, m->bytes, m->size); }

static inline void msg_send(message_t* m) { (void)device_feed(host_wire, msg_wire(m)); }

static inline void msg_request_send(message_t* m) {
  msg_close(m);
  msg_send(m);
}

// Decodes the next session message of the device; returns its bytes, 0 if there is none. Damaged frames and unexpected
// bytes end the test run, because this side of the link has no errors.
static inline size_t host_receive(uint8_t* out) {
  size_t at = host_at;
  while (at < device_out_bytes) {
    if (device_out[at] == 0xFEU) {
      at++;
      continue;
    }
    const size_t start = at;
    uint8_t plain[8];
    size_t n = 0;
    size_t need = 4;
    size_t covered = 0;
    if ((device_out[at] != 0xFFU) || (device_out[at + 1U] != 0xFDU)) {
      abort();
    }
    at += 2;
    while ((n < (need + 2U)) && (at < device_out_bytes)) {
      if (n == need) {
        covered = at;
      }
      const uint8_t b = device_out[at++];
      if ((b == 0xFFU) && (device_out[at++] != 0xFFU)) {
        abort();
      }
      if (n < 4U) {
        plain[n] = b;
        if (n == 3U) {
          need = 4U + (plain[0] | ((size_t)plain[1] << 8) | ((size_t)plain[2] << 16));
        }
      } else if (n < need) {
        out[n - 4U] = b;
      } else {
        plain[4U + (n - need)] = b;
      }
      n++;
    }
    if ((n != (need + 2U)) ||
        (host_crc(&device_out[start], covered - start) != (plain[4] | ((uint32_t)plain[5] << 8)))) {
      abort();
    }
    host_at = at;
    return need - 4U;
  }
  host_at = 0;
  device_out_bytes = 0;
  return 0;
}

// An answer with a block of the largest that the tests let a device have.
#define HOST_REPLY_BYTES ((1U << 20) + 4096U)
static uint8_t host_reply[HOST_REPLY_BYTES];

// Starts a session; returns whether the device answered.
static inline bool host_start(uint8_t nonce) {
  message_t* m = msg_begin(0x02);
  m->bytes[0] = 0;
  m->bytes[1] = 0;
  msg_send(m);
  m = msg_begin(0x00);
  m->bytes[0] = nonce;
  m->bytes[1] = 0;
  m->bytes[3] = 1;
  m->size = 4;
  msg_send(m);
  bool up = false;
  size_t n;
  while ((n = host_receive(host_reply)) != 0U) {
    if ((n == 4U) && (host_reply[2] == 0x01U) && (host_reply[0] == nonce) && (host_reply[1] != 0U)) {
      (void)memcpy(host_id, host_reply, 2);
      up = true;
    }
  }
  return up;
}

// Takes the answer; returns its code, 0 if there is none, -1 if there are several. Logs are skipped.
static inline int32_t host_answer(void) {
  static uint8_t next[HOST_REPLY_BYTES];
  int32_t code = 0;
  size_t n;
  while ((n = host_receive(next)) != 0U) {
    if (next[2] == 0x03U) {
      continue;
    }
    if (code != 0) {
      return -1;
    }
    (void)memcpy(host_reply, next, n);
    (void)memset(&host_reply[n], 0, 1);
    (void)memcpy(&code, &host_reply[11], 4);
  }
  return code;
}

// The value that a call returned.
static inline uint64_t host_value(void) {
  uint64_t v;
  (void)memcpy(&v, &host_reply[35], 8);
  return v;
}

// The text of the Exception last received.
static inline const char* host_text(void) { return (const char*)&host_reply[31]; }

static inline uint64_t host_handle(void) {
  uint64_t h;
  (void)memcpy(&h, &host_reply[23], 8);
  return h;
}

static inline uint64_t host_global(const char* name) {
  message_t* m = msg_request(9);
  msg_u32(m, 1);
  msg_u32(m, 11);
  msg_u64(m, strlen(name));
  msg_raw(m, name, strlen(name));
  msg_request_send(m);
  return (host_answer() == 4) ? host_handle() : 0U;
}

static inline void msg_tensor(message_t* m, uint64_t data, uint32_t bits, int64_t elements, uint64_t offset) {
  msg_u64(m, data);
  msg_u32(m, 1);
  msg_u32(m, 0);
  msg_u32(m, 1);
  msg_u32(m, bits << 8 | 1U << 16);
  msg_u64(m, (uint64_t)elements);
  msg_u64(m, offset);
}

// Allocates int8[elements]; 0 when refused.
static inline uint64_t host_allocate(int64_t elements) {
  message_t* m = msg_request(17);
  msg_u32(m, 2);
  msg_u32(m, 7);
  msg_u32(m, 4);
  msg_tensor(m, 0, 8, elements, 0);
  msg_request_send(m);
  return (host_answer() == 4) ? host_handle() : 0U;
}

static inline message_t* msg_copy_to(uint64_t data, int64_t elements, uint64_t offset, const void* bytes, size_t n) {
  message_t* m = msg_request(7);
  msg_tensor(m, data, 8, elements, offset);
  msg_u64(m, n);
  msg_raw(m, bytes, n);
  msg_close(m);
  return m;
}

static inline int32_t host_copy_from(uint64_t data, int64_t elements, uint64_t offset, size_t n) {
  message_t* m = msg_request(6);
  msg_tensor(m, data, 8, elements, offset);
  msg_u64(m, n);
  msg_request_send(m);
  return host_answer();
}

#endif  // BOARDSMITH_TEST_DEVICE_H_
