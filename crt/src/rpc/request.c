// SPDX-License-Identifier: Apache-2.0
//
// What a request asks for. Each one is answered once; what is malformed, unknown or impossible is an Exception.
#include <boardsmith/boardsmith.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/platform.h>

#include "server.h"
#include "wire.h"

// The arguments of a packed sequence, in place where they lie well, else in memory that arguments_free gives back.
typedef struct arguments {
  TVMValue* values;
  int* codes;
  uint32_t count;
  uint8_t* room;      // unused end of the packet buffer
  size_t room_bytes;
  struct chunk* chunks;  // taken from the platform when that was not enough
} arguments_t;

typedef union chunk_head {
  struct chunk* next;
  uint64_t align;
} chunk_head_t;

typedef struct chunk {
  chunk_head_t head;
} chunk_t;

static const DLDevice cpu = {kDLCPU, 0};

static const char text_short[] = "short request";
static const char text_memory[] = "out of memory";
static const char text_arguments[] = "wrong arguments";
static const char text_unknown_memory[] = "copy outside known memory";

// Takes bytes, 8-aligned, until arguments_free; NULL when there are none.
static void* arguments_take(arguments_t* a, size_t bytes) {
  const size_t whole = (bytes + 7U) & ~(size_t)7U;
  if (whole <= a->room_bytes) {
    void* out = a->room;
    a->room += whole;
    a->room_bytes -= whole;
    return out;
  }
  void* memory = NULL;
  if (TVMPlatformMemoryAllocate(sizeof(chunk_t) + whole, cpu, &memory) != kTvmErrorNoError) {
    return NULL;
  }
  chunk_t* c = memory;
  c->head.next = a->chunks;
  a->chunks = c;
  return &c[1];
}

static void arguments_free(arguments_t* a) {
  while (a->chunks != NULL) {
    chunk_t* c = a->chunks;
    a->chunks = c->head.next;
    (void)TVMPlatformMemoryFree(c, cpu);
  }
}

// Reads a tensor that begins at `at`; its shape stays where it is, unaligned, in *shape. Returns its bytes, 0 if cut short.
static uint32_t tensor_read(const uint8_t* at, uint32_t bytes, DLTensor* t, const uint8_t** shape) {
  if (bytes < (TENSOR_FIXED + 8U)) {
    return 0;
  }
  const uint32_t rank = wire_get32(&at[TENSOR_RANK]);
  if (rank > ((bytes - (TENSOR_FIXED + 8U)) / 8U)) {
    return 0;
  }
  (void)memset(t, 0, sizeof *t);  // also the bytes of a short enum that are no member
  t->data = (void*)(uintptr_t)wire_get64(at);
  t->device.device_type = (DLDeviceType)wire_get32(&at[8]);
  t->device.device_id = (int32_t)wire_get32(&at[12]);
  t->ndim = (int32_t)rank;
  (void)memcpy(&t->dtype, &at[TENSOR_TYPE], sizeof t->dtype);
  *shape = &at[TENSOR_FIXED];
  t->byte_offset = wire_get64(&at[TENSOR_FIXED + (8U * rank)]);
  return TENSOR_FIXED + 8U + (8U * rank);
}

// Decodes one tensor argument. Returns its bytes, 0 if it is cut short or has no room.
static uint32_t tensor_argument(arguments_t* a, const uint8_t* at, uint32_t bytes, TVMValue* value) {
  DLTensor t;
  const uint8_t* shape = NULL;
  const uint32_t used = tensor_read(at, bytes, &t, &shape);
  if (used == 0U) {
    return 0;
  }
  const size_t shape_bytes = 8U * (size_t)t.ndim;
  DLTensor* copy = arguments_take(a, sizeof t + 8U + shape_bytes);
  if (copy == NULL) {
    return 0;
  }
  t.shape = (int64_t*)(((uintptr_t)&copy[1] + 7U) & ~(uintptr_t)7U);
  (void)memcpy(t.shape, shape, shape_bytes);
  *copy = t;
  value->v_handle = copy;
  return used;
}

// Decodes one string or byte array. Returns its bytes, 0 if it is cut short or has no room.
static uint32_t text_argument(arguments_t* a, uint8_t* at, uint32_t bytes, int code, TVMValue* value) {
  if (bytes < 8U) {
    return 0;
  }
  const uint64_t length = wire_get64(at);
  if (length > (bytes - 8U)) {
    return 0;
  }
  if (code == kTVMStr) {  // its length field makes room for the NUL behind it
    (void)memmove(at, &at[8], (size_t)length);
    at[length] = 0;
    value->v_str = (const char*)at;
  } else {
    TVMByteArray* array = arguments_take(a, sizeof *array);
    if (array == NULL) {
      return 0;
    }
    array->data = (const char*)&at[8];
    array->size = (size_t)length;
    value->v_handle = array;
  }
  return 8U + (uint32_t)length;
}

// Decodes the packed sequence from `at` to `end`, which ends the message. Returns NULL, or what is wrong with it.
static const char* arguments_decode(rpc_server_t* s, arguments_t* a, uint8_t* at, uint8_t* end) {
  uint8_t* const room = (uint8_t*)(((uintptr_t)end + 7U) & ~(uintptr_t)7U);
  a->room = room;
  a->room_bytes = (size_t)(((uint8_t*)s->buffer + sizeof s->buffer) - room);
  a->chunks = NULL;
  if ((end - at) < 4) {
    return text_short;
  }
  a->count = wire_get32(at);
  at += 4;
  if (a->count > ((size_t)(end - at) / 4U)) {
    return text_short;
  }
  a->codes = (int*)(void*)at;  // 4-aligned: see rpc_server_t
  at += 4U * a->count;
  a->values = arguments_take(a, sizeof(TVMValue) * a->count);
  if (a->values == NULL) {
    return text_memory;
  }
  for (uint32_t i = 0; i < a->count; i++) {
    const uint32_t bytes = (uint32_t)(end - at);
    const int code = a->codes[i];
    uint32_t used = 8;
    if (code == kTVMDLTensorHandle) {
      used = tensor_argument(a, at, bytes, &a->values[i]);
    } else if ((code == kTVMStr) || (code == kTVMBytes)) {
      used = text_argument(a, at, bytes, code, &a->values[i]);
    } else if (code == kTVMNullptr) {
      a->values[i].v_int64 = 0;
      continue;
    } else if ((code < 0) || (code == kTVMObjectHandle) || (code > kTVMPackedFuncHandle)) {
      return "unsupported argument type";
    } else if (bytes < 8U) {
      used = 0;
    } else {
      (void)memcpy(&a->values[i], at, 8);
    }
    if (used == 0U) {
      return text_short;
    }
    at += used;
  }
  return NULL;
}

// Answers with the last error, or, where the failing function left none, with its code.
static void reply_error(rpc_server_t* s, int code) {
  if (*TVMGetLastError() == '\0') {
    if ((unsigned)code == (unsigned)kTvmErrorPlatformNoMemory) {
      TVMAPISetLastError(text_memory);
    } else {
      TVMAPIErrorf("error 0x%x", (unsigned)code);
    }
  }
  transmit_exception(s, TVMGetLastError());
}

static void reply_handle(rpc_server_t* s, const void* handle) {
  uint8_t reply[28] = {20, 0, 0, 0, 0, 0, 0, 0, RPC_RETURN, 0, 0, 0, 1, 0, 0, 0, kTVMOpaqueHandle};
  wire_put64(&reply[20], (uint64_t)(uintptr_t)handle);
  transmit_message(s, SESSION_NORMAL, reply, sizeof reply);
}

static uint8_t* put32(uint8_t* at, uint32_t v) {
  wire_put32(at, v);
  return &at[4];
}

static uint8_t* put64(uint8_t* at, uint64_t v) {
  wire_put64(at, v);
  return &at[8];
}

// Tells how a result of this type is called on the wire: handles lose theirs, an array travels as a tensor.
static int wire_type(int type) {
  switch (type) {
    case kTVMModuleHandle:
    case kTVMPackedFuncHandle:
      return kTVMOpaqueHandle;
    case kTVMNDArrayHandle:
      return kTVMDLTensorHandle;
    default:
      return type;
  }
}

// Answers a call: [int type, value], and for an array [int type, tensor, handle]. A byte array is freed.
static void reply_result(rpc_server_t* s, const TVMValue* value, int type) {
  const bool array = (type == kTVMNDArrayHandle);
  uint8_t head[72];
  uint8_t tail[16];
  const void* middle = NULL;  // what lies elsewhere, between head and tail
  size_t middle_bytes = 0;
  size_t tail_bytes = 0;
  uint8_t* p = put32(&head[8], RPC_RETURN);
  p = put32(p, array ? 3U : 2U);
  p = put32(p, kTVMArgInt);
  p = put32(p, (uint32_t)wire_type(type));
  if (array) {
    p = put32(p, kTVMOpaqueHandle);
  }
  p = put64(p, (uint64_t)(uint32_t)type);
  if (array) {
    const DLTensor* t = value->v_handle;
    p = put64(p, (uint64_t)(uintptr_t)t->data);
    p = put32(p, (uint32_t)t->device.device_type);
    p = put32(p, (uint32_t)t->device.device_id);
    p = put32(p, (uint32_t)t->ndim);
    (void)memcpy(p, &t->dtype, 4);
    p += 4;
    middle = t->shape;
    middle_bytes = 8U * (size_t)t->ndim;
    (void)put64(put64(tail, t->byte_offset), (uint64_t)(uintptr_t)t);
    tail_bytes = sizeof tail;
  } else if (type == kTVMStr) {
    middle = value->v_str;
    middle_bytes = strlen(value->v_str);
    p = put64(p, middle_bytes);
  } else if (type == kTVMBytes) {
    const TVMByteArray* bytes = value->v_handle;
    middle = bytes->data;
    middle_bytes = bytes->size;
    p = put64(p, middle_bytes);
  } else if (type != kTVMNullptr) {
    (void)memcpy(p, value, 8);
    p += 8;
  } else {
    // Null has no value.
  }
  const size_t head_bytes = (size_t)(p - head);
  const size_t bytes = head_bytes + middle_bytes + tail_bytes;
  wire_put64(head, bytes - 8U);
  transmit_begin(s, SESSION_NORMAL, (uint32_t)bytes);
  transmit_put(s, head, head_bytes);
  transmit_put(s, middle, middle_bytes);
  transmit_put(s, tail, tail_bytes);
  transmit_end(s);
  if (type == kTVMBytes) {
    (void)TVMByteArrayFree(value->v_handle);
  }
}

// Tells whether a result of this type can be sent.
static bool sendable(int type) {
  return (type >= 0) && (type <= kTVMNDArrayHandle) && (type != kTVMObjectHandle) && (type != kTVMDLTensorHandle);
}

static void call_function(rpc_server_t* s, uint8_t* body, uint8_t* end) {
  arguments_t a;
  if ((end - body) < 8) {
    transmit_exception(s, text_short);
    return;
  }
  const char* wrong = arguments_decode(s, &a, &body[8], end);
  if (wrong == NULL) {
    TVMValue value;
    int type = kTVMNullptr;
    value.v_int64 = 0;
    TVMAPISetLastError("");
    const int error = TVMFuncCall((TVMFunctionHandle)(uintptr_t)wire_get64(body), a.values, a.codes, (int)a.count, &value, &type);
    if (error != 0) {
      reply_error(s, error);
    } else if (sendable(type)) {
      reply_result(s, &value, type);
    } else {
      wrong = "unsupported result type";
    }
  }
  if (wrong != NULL) {
    transmit_exception(s, wrong);
  }
  arguments_free(&a);
}

// Returns where a tensor's elements begin, by the host's account: the sum may wrap, and is checked as it is.
static uint8_t* tensor_address(const DLTensor* t) { return (uint8_t*)((uintptr_t)t->data + (uintptr_t)t->byte_offset); }

uint32_t request_copy_head(const uint8_t* body, uint32_t bytes, int writable, uint8_t** address, size_t* count) {
  DLTensor t;
  const uint8_t* shape = NULL;
  const uint32_t used = tensor_read(body, bytes, &t, &shape);
  if ((used == 0U) || ((bytes - used) < 8U)) {
    return 0;
  }
  const uint64_t n = wire_get64(&body[used]);
  *address = tensor_address(&t);
  *count = (size_t)n;
  if ((n != *count) || (t.byte_offset != (size_t)t.byte_offset) || (boardsmith_memory_known(*address, *count, writable) == 0)) {
    return 0;
  }
  return used + 8U;
}

// Copies by words: a small libc's memcpy goes byte by byte.
static void copy(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (; bytes >= 4U; bytes -= 4U) {
    (void)memcpy(to, from, 4);
    to += 4;
    from += 4;
  }
  for (; bytes != 0U; bytes--) {
    *to++ = *from++;
  }
}

static void copy_to(rpc_server_t* s, const uint8_t* body, uint32_t bytes) {
  uint8_t* address;
  size_t count;
  const uint32_t head = request_copy_head(body, bytes, 1, &address, &count);
  if ((head == 0U) || (count != (bytes - head))) {
    transmit_exception(s, text_unknown_memory);
    return;
  }
  copy(address, &body[head], count);
  transmit_void(s);
}

static void copy_from(rpc_server_t* s, const uint8_t* body, uint32_t bytes) {
  uint8_t* address;
  size_t count;
  const uint32_t used = request_copy_head(body, bytes, 0, &address, &count);
  if ((used == 0U) || (used != bytes) || (count > (UINT32_MAX - 64U))) {
    transmit_exception(s, text_unknown_memory);
    return;
  }
  uint8_t head[12];
  (void)put32(put64(head, 4U + (uint64_t)count), RPC_COPY_ACK);
  transmit_begin(s, SESSION_NORMAL, (uint32_t)(sizeof head + count));
  transmit_put(s, head, sizeof head);
  transmit_put(s, address, count);
  transmit_end(s);
}

static void init_server(rpc_server_t* s, const uint8_t* body, uint32_t bytes) {
  // A version text that no one compares, then a packed sequence that has to be empty.
  if ((bytes >= 12U) && (wire_get64(body) == (bytes - 12U)) && (wire_get32(&body[bytes - 4U]) == 0U)) {
    transmit_void(s);
  } else {
    transmit_exception(s, text_arguments);
  }
}

#define ANY 0xFF

// The argument types of the requests from GetGlobalFunc on.
static const struct {
  uint8_t count;
  uint8_t types[4];
} signatures[] = {
    [RPC_GET_GLOBAL - RPC_GET_GLOBAL] = {1, {kTVMStr}},
    [RPC_FREE_HANDLE - RPC_GET_GLOBAL] = {2, {kTVMOpaqueHandle, kTVMArgInt}},
    [RPC_SET_DEVICE - RPC_GET_GLOBAL] = {1, {kDLDevice}},
    [RPC_GET_ATTR - RPC_GET_GLOBAL] = {2, {kDLDevice, kTVMArgInt}},
    [RPC_ALLOC_DATA - RPC_GET_GLOBAL] = {4, {kDLDevice, kTVMArgInt, kTVMArgInt, kTVMDataType}},
    [RPC_FREE_DATA - RPC_GET_GLOBAL] = {2, {kDLDevice, kTVMOpaqueHandle}},
    [RPC_STREAM_SYNC - RPC_GET_GLOBAL] = {2, {kDLDevice, kTVMOpaqueHandle}},
    [RPC_COPY_AMONG - RPC_GET_GLOBAL] = {3, {kTVMDLTensorHandle, kTVMDLTensorHandle, kTVMOpaqueHandle}},
    [RPC_ALLOC_SCOPED - RPC_GET_GLOBAL] = {2, {kTVMDLTensorHandle, ANY}},
    [RPC_CREATE_STREAM - RPC_GET_GLOBAL] = {1, {kDLDevice}},
    [RPC_FREE_STREAM - RPC_GET_GLOBAL] = {2, {kDLDevice, kTVMOpaqueHandle}},
    [RPC_SET_STREAM - RPC_GET_GLOBAL] = {2, {kDLDevice, kTVMOpaqueHandle}},
};

static bool signature_holds(const arguments_t* a, uint32_t code) {
  const uint32_t k = code - RPC_GET_GLOBAL;
  if (a->count != signatures[k].count) {
    return false;
  }
  for (uint32_t i = 0; i < a->count; i++) {
    const int want = signatures[k].types[i];
    const int got = a->codes[i];
    // A null pointer may stand for a null handle.
    if ((got != want) && (want != ANY) && ((want != kTVMOpaqueHandle) || (got != kTVMNullptr))) {
      return false;
    }
  }
  return true;
}

static void free_handle(rpc_server_t* s, void* handle, int64_t type) {
  int error = 0;
  if (type == kTVMNDArrayHandle) {
    error = TVMArrayFree(handle);
  } else if (type == kTVMModuleHandle) {
    error = TVMModFree(handle);
  } else if (type != kTVMPackedFuncHandle) {
    transmit_exception(s, text_arguments);
    return;
  } else {
    // Functions are never freed.
  }
  if (error != 0) {
    reply_error(s, error);
  } else {
    transmit_void(s);
  }
}

// Allocates memory for an array and answers with its address.
static void allocate(rpc_server_t* s, uint64_t bytes, uint64_t alignment, DLDataType type) {
  void* data = NULL;
  if (((alignment & (alignment - 1U)) != 0U) || (bytes > ((size_t)PTRDIFF_MAX - alignment))) {
    transmit_exception(s, text_arguments);
    return;
  }
  const uint64_t mask = (alignment == 0U) ? 0U : (alignment - 1U);
  const int error = TVMDeviceAllocDataSpace(cpu, (size_t)((bytes + mask) & ~mask), (size_t)alignment, type, &data);
  if (error != 0) {
    reply_error(s, error);
  } else {
    reply_handle(s, data);
  }
}

static void copy_among(rpc_server_t* s, const DLTensor* from, const DLTensor* to) {
  size_t bytes = 0;
  uint8_t* source = tensor_address(from);
  uint8_t* target = tensor_address(to);
  if ((boardsmith_tensor_bytes(from->ndim, from->shape, from->dtype, &bytes) != 0) || (boardsmith_memory_known(source, bytes, 0) == 0) ||
      (boardsmith_memory_known(target, bytes, 1) == 0)) {
    transmit_exception(s, text_unknown_memory);
    return;
  }
  (void)memmove(target, source, bytes);
  transmit_void(s);
}

static void system_call(rpc_server_t* s, uint32_t code, const arguments_t* a) {
  TVMFunctionHandle function = NULL;
  size_t bytes = 0;
  int error;
  const TVMValue* v = a->values;
  if (code > RPC_SET_STREAM) {
    transmit_exception(s, "Syscall not recognized");
    return;
  }
  if (!signature_holds(a, code)) {
    transmit_exception(s, text_arguments);
    return;
  }
  TVMAPISetLastError("");
  switch (code) {
    case RPC_GET_GLOBAL:
      (void)TVMFuncGetGlobal(v[0].v_str, &function);  // NULL where there is none
      reply_handle(s, function);
      break;
    case RPC_FREE_HANDLE:
      free_handle(s, v[0].v_handle, v[1].v_int64);
      break;
    case RPC_SET_DEVICE:
      transmit_exception(s, "SetDevice not supported");
      break;
    case RPC_GET_ATTR:
      transmit_exception(s, "GetAttr not supported");
      break;
    case RPC_ALLOC_DATA:
      allocate(s, (uint64_t)v[1].v_int64, (uint64_t)v[2].v_int64, v[3].v_type);
      break;
    case RPC_ALLOC_SCOPED: {
      const DLTensor* t = v[0].v_handle;
      if (boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes) != 0) {
        transmit_exception(s, text_arguments);
      } else {
        allocate(s, bytes, 1, t->dtype);
      }
      break;
    }
    case RPC_FREE_DATA:
      error = TVMDeviceFreeDataSpace(cpu, v[1].v_handle);
      if (error != 0) {
        reply_error(s, error);
      } else {
        transmit_void(s);
      }
      break;
    case RPC_COPY_AMONG:
      copy_among(s, v[0].v_handle, v[1].v_handle);
      break;
    case RPC_CREATE_STREAM:
      reply_handle(s, NULL);
      break;
    default:  // streams do nothing: the one there is runs in order
      transmit_void(s);
      break;
  }
}

void request_execute(rpc_server_t* s, uint32_t length) {
  uint8_t* const m = server_message(s);
  uint8_t* const body = &m[MESSAGE_BODY];
  uint8_t* const end = &m[length];
  const uint32_t bytes = length - MESSAGE_BODY;
  if ((length == MESSAGE_CODE) && (wire_get64(&m[MESSAGE_LENGTH]) == 0U)) {
    return;  // an empty packet asks for nothing
  }
  if ((length < MESSAGE_BODY) || (wire_get64(&m[MESSAGE_LENGTH]) != (length - MESSAGE_CODE))) {
    transmit_exception(s, text_short);
    return;
  }
  const uint32_t code = wire_get32(&m[MESSAGE_CODE]);
  if (code == RPC_SHUTDOWN) {
    s->shut = true;
  } else if (code == RPC_INIT_SERVER) {
    init_server(s, body, bytes);
  } else if (code == RPC_CALL_FUNC) {
    call_function(s, body, end);
  } else if (code == RPC_COPY_FROM) {
    copy_from(s, body, bytes);
  } else if (code == RPC_COPY_TO) {
    copy_to(s, body, bytes);
  } else if ((code >= RPC_GET_GLOBAL) && (code <= INT32_MAX)) {
    arguments_t a;
    const char* wrong = arguments_decode(s, &a, body, end);
    if (wrong != NULL) {
      transmit_exception(s, wrong);
    } else {
      system_call(s, code, &a);
    }
    arguments_free(&a);
  } else {
    transmit_exception(s, "unknown RPC code");
  }
}
