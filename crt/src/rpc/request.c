// SPDX-License-Identifier: Apache-2.0
//
// Execution of requests. Each request is answered once; malformed, unknown and impossible ones by an Exception.
//
// A handler returns a result_t. result_of makes one of the errors of functions, which may be any numbers.
#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <tvm/runtime/crt/crt.h>

#include "runtime/arrays.h"
#include "runtime/contracts.h"
#include "runtime/functions.h"
#include "runtime/memory.h"
#include "runtime/state.h"
#include "runtime/text.h"
#include "server.h"
#include "wire.h"

// The decoded arguments of a request.
typedef struct arguments {
  uint32_t request;  // its code
  TVMValue* values;
  int* codes;
  uint32_t count;
  void* taken;  // allocation; NULL: they are in the packet buffer, after the message
} arguments_t;

// Texts one after the other, each with a NUL: in the order of TEXTS_BEGIN and RPC_GET_GLOBAL. Two tables of addresses
// would take 80 bytes.
static const char texts[] = TEXTS(TEXT_STRING);
static const char signatures[] = SYSTEM_CALLS(SYSTEM_CALL_TYPES);

// Returns the text with this index.
__attribute__((noinline)) static const char* text_at(const char* text, unsigned index) {
  for (; index != 0U; index--) {
    text += boardsmith_text_length(text) + 1U;
  }
  return text;
}

// Returns the result for the error number of a function, 0 for success. A failure without a last error gets a text.
static result_t result_of(int error) {
  if (error == 0) {
    return DONE;
  }
  if (boardsmith_runtime.last_error[0] == '\0') {
    if (error == (int)kTvmErrorPlatformNoMemory) {
      return NO_MEMORY;
    }
    TVMAPIErrorf("error 0x%x", (unsigned)error);
  }
  return FAILED;
}

void request_finish(rpc_server_t* s, result_t result) {
  CRT_ASSERT(result <= FAILED);
  if (result == DONE) {
    transmit_value(s, RPC_RETURN, kTVMNullptr, 0, NULL, 0);
  } else if (result != ANSWERED) {
    const char* const text =
        (result == FAILED) ? boardsmith_runtime.last_error : text_at(texts, (unsigned)result - (unsigned)TEXTS_BEGIN);
    const size_t bytes = boardsmith_text_length(text);
    transmit_value(s, RPC_EXCEPTION, kTVMStr, bytes, text, bytes);
  }
}

void request_answer_due(rpc_server_t* s) {
  const uint8_t result = s->due;
  if (result != 0U) {
    s->due = 0;
    request_finish(s, (result_t)result);
  }
}

// Reads the tensor at `at`, except its shape. Returns its size in bytes, 0 if it is incomplete. Not inlined, which
// saves 12 bytes of code with GCC 14.
__attribute__((noinline)) static uint32_t tensor_read(const uint8_t* at, uint32_t bytes, DLTensor* t) {
  if (bytes < TENSOR_BYTES) {
    return 0;
  }
  const uint32_t rank = wire_get32(&at[TENSOR_RANK]);
  if (rank > ((bytes - TENSOR_BYTES) / 8U)) {
    return 0;
  }
  t->data = (void*)(uintptr_t)wire_get64(at);
  t->device.device_type = (DLDeviceType)wire_get32(&at[TENSOR_DEVICE]);
  t->device.device_id = (int32_t)wire_get32(&at[TENSOR_DEVICE + 4]);
  t->ndim = (int32_t)rank;
  (void)memcpy(&t->dtype, &at[TENSOR_TYPE], sizeof t->dtype);
  t->strides = NULL;
  t->byte_offset = wire_get64(&at[TENSOR_SHAPE + (8U * rank)]);
  return TENSOR_BYTES + (8U * rank);
}

// The arguments need at most this memory: the size of their values on the wire, 8 bytes for each argument, and 1/SHARE
// of the first again. A value takes the 8 bytes; a TVMByteArray (8 bytes on the wire) or a DLTensor (32, with a shape
// of equal size) takes the rest.
#define SHARE ((sizeof(void*) == 4U) ? 4U : 1U)
_Static_assert((sizeof(DLTensor) <= (32U + (32U / SHARE))) && (sizeof(TVMByteArray) <= (8U + (8U / SHARE))) &&
                   ((sizeof(DLTensor) % 8U) == 0U) && ((sizeof(TVMByteArray) % 8U) == 0U),
               "every argument must fit, aligned");

// Valid types of an argument, one bit each.
#define ARGUMENT_TYPES                                                                                            \
  ((1U << kTVMArgInt) | (1U << kDLUInt) | (1U << kTVMArgFloat) | (1U << kTVMOpaqueHandle) | (1U << kTVMNullptr) | \
   (1U << kTVMDataType) | (1U << kDLDevice) | (1U << kTVMDLTensorHandle) | (1U << kTVMModuleHandle) |             \
   (1U << kTVMPackedFuncHandle) | (1U << kTVMStr) | (1U << kTVMBytes))

// The message's part that is not decoded yet, and the memory for the objects that values point to.
typedef struct decoder {
  uint8_t* at;
  uint8_t* end;
  uint8_t* room;  // 8-aligned
} decoder_t;

// Returns the tensor's size in bytes, 0 if it is incomplete.
static uint32_t decode_tensor(decoder_t* d, TVMValue* value) {
  DLTensor* const t = (DLTensor*)(void*)d->room;
  const uint32_t bytes = tensor_read(d->at, (uint32_t)(d->end - d->at), t);
  if (bytes != 0U) {
    const uint32_t shape_bytes = bytes - TENSOR_BYTES;
    t->shape = (int64_t*)(void*)&t[1];
    (void)memmove(t->shape, &d->at[TENSOR_SHAPE], shape_bytes);
    d->room += sizeof *t + shape_bytes;
    value->v_handle = t;
  }
  return bytes;
}

// The text is moved over its length field, to make room for the NUL.
static void decode_text(decoder_t* d, TVMValue* value, uint32_t bytes) {
  CRT_ASSERT((bytes + 8U) <= (size_t)(d->end - d->at));
  (void)memmove(d->at, &d->at[8], bytes);
  d->at[bytes] = 0;
  value->v_handle = d->at;
}

static void decode_bytes(decoder_t* d, TVMValue* value, uint32_t bytes) {
  TVMByteArray* const array = (TVMByteArray*)(void*)d->room;
  array->data = (const char*)&d->at[8];
  array->size = bytes;
  d->room += sizeof *array;
  value->v_handle = array;
}

// Decodes one value of a request. Returns DONE or an Exception's result.
static result_t decode_value(decoder_t* d, TVMValue* value, unsigned code, const arguments_t* a) {
  const uint32_t left = (uint32_t)(d->end - d->at);
  if ((code >= 32U) || (((ARGUMENT_TYPES >> code) & 1U) == 0U)) {
    return TYPE;
  }
  value->v_int64 = 0;
  if (code == kTVMNullptr) {
    return DONE;
  }
  if (left < 8U) {
    return SHORT;
  }
  (void)memcpy(value, d->at, 8);

  uint32_t bytes = 8;
  if (code == kTVMDLTensorHandle) {
    bytes = decode_tensor(d, value);
    if (bytes == 0U) {
      return SHORT;
    }
    if ((a->request != (uint32_t)RPC_ALLOC_SCOPED) && (boardsmith_tensor_known(value->v_handle, 0) == 0)) {
      return MEMORY;
    }
  } else if (code >= kTVMStr) {
    const uint32_t length = wire_get32(d->at);
    if (length > (left - 8U)) {
      return SHORT;
    }
    if (code == kTVMStr) {
      decode_text(d, value, length);
    } else {
      decode_bytes(d, value, length);
    }
    bytes += length;
  }
  d->at += bytes;
  return DONE;
}

// Finds memory for the values of a request, after the message or allocated. Layout: the objects that values point to,
// the values, the unused values. Returns the end of the values, NULL if there is not enough memory.
static TVMValue* arguments_place(rpc_server_t* s, arguments_t* a, decoder_t* d) {
  const size_t bytes = (size_t)(d->end - d->at);
  const size_t need = (bytes + (8U * a->count) + (bytes / SHARE) + 7U) & ~(size_t)7U;
  uint8_t* unused = (uint8_t*)s->unused;
  d->room = (uint8_t*)(((uintptr_t)d->end + 7U) & ~(uintptr_t)7U);
  if (need > (size_t)(unused - d->room)) {
    if (boardsmith_take(need + sizeof s->unused, &a->taken) != 0) {
      return NULL;
    }
    d->room = a->taken;
    unused = &d->room[need];
    (void)memset(unused, 0, sizeof s->unused);
  }
  TVMValue* const end = (TVMValue*)(void*)unused;
  a->values = &end[-(ptrdiff_t)a->count];
  CRT_ASSERT((((uintptr_t)d->room % 8U) == 0U) && (d->room <= (uint8_t*)a->values));
  return end;
}

// Decodes the packed sequence from `at` to the message's end. Returns DONE or an Exception's result: the tensors of all
// requests but one must lie in known memory. Not inlined, which saves 30 bytes of code with GCC 14.
__attribute__((noinline)) static result_t arguments_decode(rpc_server_t* s, arguments_t* a, uint8_t* at, uint8_t* end) {
  decoder_t d = {at, end, NULL};
  a->taken = NULL;
  if ((end - at) < 4) {
    return SHORT;
  }
  a->count = wire_get32(at);
  d.at += 4;
  if (a->count > ((size_t)(end - d.at) / 4U)) {
    return SHORT;
  }
  CRT_ASSERT(((uintptr_t)d.at % 4U) == 0U);
  a->codes = (int*)(void*)d.at;  // see rpc_server_t
  d.at += 4U * a->count;

  const TVMValue* const values_end = arguments_place(s, a, &d);
  if (values_end == NULL) {
    return NO_MEMORY;
  }
  const int* code = a->codes;
  for (TVMValue* value = a->values; value != values_end; value++) {
    const result_t result = decode_value(&d, value, (unsigned)*code, a);
    if (result != DONE) {
      return result;
    }
    code++;
  }
  CRT_ASSERT(d.room <= (uint8_t*)a->values);
  return DONE;
}

// The parts of an answer in the order in which they are sent: words, bytes that lie elsewhere, and the tail. The words
// and the tail lie outside of it, so that the compiler keeps its members in registers.
typedef struct reply {
  uint32_t* end;  // of the words
  const void* bytes;
  size_t size_bytes;
  uint64_t* tail;  // two
  size_t tail_bytes;
} reply_t;

static void reply_bytes(reply_t* r, const void* data, size_t bytes) {
  r->end[0] = (uint32_t)bytes;
  r->end[1] = 0;
  r->end += 2;
  r->bytes = data;
  r->size_bytes = bytes;
}

// Adds an array: its tensor, of which the shape lies elsewhere, and its handle.
static void reply_array(reply_t* r, const DLTensor* t) {
  r->end[0] = (uint32_t)(uintptr_t)t->data;
  r->end[1] = (uint32_t)((uint64_t)(uintptr_t)t->data >> 32);
  r->end[2] = (uint32_t)t->device.device_type;
  r->end[3] = (uint32_t)t->device.device_id;
  r->end[4] = (uint32_t)t->ndim;
  (void)memcpy(&r->end[5], &t->dtype, sizeof t->dtype);
  r->end += 6;
  r->bytes = t->shape;
  r->size_bytes = 8U * (size_t)(uint32_t)t->ndim;
  r->tail[0] = t->byte_offset;
  r->tail[1] = (uintptr_t)t;
  r->tail_bytes = 2U * sizeof r->tail[0];
}

// Adds a value of this type, which is not a null.
static void reply_value(reply_t* r, const TVMValue* value, uint32_t type) {
  if (type == kTVMNDArrayHandle) {
    reply_array(r, value->v_handle);
  } else if (type == kTVMStr) {
    reply_bytes(r, value->v_str, boardsmith_text_length(value->v_str));
  } else if (type == kTVMBytes) {
    const TVMByteArray* const array = value->v_handle;
    reply_bytes(r, array->data, array->size);
  } else {
    (void)memcpy(r->end, value, 8);
    r->end += 2;
  }
}

// Answers a call: [int type, value], and for an array [int type, tensor, handle]. Frees the result, except the
// reference to an array of the session, which now belongs to the host.
static void reply_result(rpc_server_t* s, const TVMValue* value, uint32_t type) {
  uint32_t words[WORDS_HEAD + 13];
  uint64_t tail[2];
  uint32_t* w = &words[WORDS_HEAD];
  const bool is_array = (type == kTVMNDArrayHandle);
  // All handles have one type on the wire.
  const bool is_handle = (type - kTVMModuleHandle) <= (kTVMPackedFuncHandle - kTVMModuleHandle);
  w[0] = RPC_RETURN;
  w[1] = 2;
  w[2] = kTVMArgInt;
  w[3] = is_handle ? (uint32_t)kTVMOpaqueHandle : type;
  w += 4;
  if (is_array) {
    w[-3] = 3;
    w[-1] = kTVMDLTensorHandle;
    *w = kTVMOpaqueHandle;
    w++;
  }
  w[0] = type;
  w[1] = 0;

  reply_t r = {&w[2], NULL, 0, tail, 0};
  if (type != kTVMNullptr) {
    reply_value(&r, value, type);
  }
  transmit_begin(s, s->header, words, (size_t)(r.end - words), r.size_bytes + r.tail_bytes);
  transmit_put(s, r.bytes, r.size_bytes);
  transmit_end(s, r.tail, r.tail_bytes);
  boardsmith_result_free(value, (int)type, OWNER_FIRMWARE);
}

// Valid types of a result.
#define RESULT_TYPES ((ARGUMENT_TYPES | (1U << kTVMNDArrayHandle)) & ~(1U << kTVMDLTensorHandle))

// Not inlined, which saves 8 bytes of code with -flto.
__attribute__((noinline)) static result_t call_function(rpc_server_t* s, const uint8_t* body, const arguments_t* a) {
  TVMValue value;
  int type;
  const TVMFunctionHandle function = (TVMFunctionHandle)(uintptr_t)wire_get64(body);
  const int error = TVMFuncCall(function, a->values, a->codes, (int)a->count, &value, &type);
  if (error != 0) {
    return result_of(error);
  }
  if (((unsigned)type >= 32U) || (((RESULT_TYPES >> (unsigned)type) & 1U) == 0U)) {
    return TYPE;
  }
  reply_result(s, &value, (uint32_t)type);
  return ANSWERED;
}

// Copies to or from the device. The part of a copy to the device that exceeds the buffer is received straight into the
// tensor.
static result_t copy(rpc_server_t* s, const uint8_t* body, uint32_t bytes, int to_device) {
  DLTensor t;
  uint32_t head = tensor_read(body, bytes, &t);
  if (head == 0U) {
    return MEMORY;
  }
  head += 8U;
  if (head <= bytes) {
    // Only the lower half of the count: a request for 4 GiB or more gets less, or an Exception.
    const uint32_t count = wire_get32(&body[head - 8U]);
    bytes -= head;
    if (boardsmith_tensor_holds(&t, count, to_device) != 0) {
      uint8_t* const address = tensor_data(&t);
      if ((to_device != 0) && (count == (s->length - MESSAGE_BODY - head))) {
        (void)memmove(address, &body[head], bytes);
        if (count == bytes) {
          return DONE;
        }
        CRT_ASSERT((s->state == (unsigned)SKIP_REFUSED) && (count > bytes));
        s->state = FIND_COPY;
        s->rx.to = &address[bytes];
        s->end = &address[count];
        return ANSWERED;
      }
      if ((to_device == 0) && (bytes == 0U)) {
        uint32_t words[WORDS_HEAD + 1];
        words[WORDS_HEAD] = RPC_COPY_ACK;
        transmit_begin(s, s->header, words, WORDS_HEAD + 1, count);
        transmit_end(s, address, count);
        return ANSWERED;
      }
    }
  }
  return MEMORY;
}

static result_t copy_among(const DLTensor* from, const DLTensor* to) {
  size_t bytes = 0;
  const int error = boardsmith_tensor_bytes(from->ndim, from->shape, from->dtype, &bytes);
  (void)error;  // cannot fail: it is known
  CRT_ASSERT(error == 0);
  if (boardsmith_tensor_holds(to, bytes, 1) == 0) {
    return MEMORY;
  }
  (void)memmove(tensor_data(to), tensor_data(from), bytes);
  return DONE;
}

static result_t system_call(rpc_server_t* s, uint32_t code, const arguments_t* a) {
  const TVMValue* v = a->values;
  void* handle = NULL;
  int error = 0;
  if (boardsmith_arguments(a->codes, (int)a->count, text_at(signatures, code - RPC_GET_GLOBAL)) != 0) {
    return ARGUMENTS;
  }
  if (code == (uint32_t)RPC_GET_GLOBAL) {
    (void)TVMFuncGetGlobal(v[0].v_str, &handle);  // NULL if unknown
  } else if (code == (uint32_t)RPC_FREE_HANDLE) {
    if (v[1].v_int64 == kTVMNDArrayHandle) {
      return result_of(boardsmith_array_free(v[0].v_handle, OWNER_SESSION));
    }
    if (v[1].v_int64 == kTVMModuleHandle) {
      return result_of(boardsmith_session_module_free(v[0].v_handle));
    }
    return (v[1].v_int64 == kTVMPackedFuncHandle) ? DONE : ARGUMENTS;  // functions are never freed
  } else if ((code == (uint32_t)RPC_SET_DEVICE) || (code == (uint32_t)RPC_GET_ATTR)) {
    return REQUEST;
  } else if ((code == (uint32_t)RPC_ALLOC_DATA) || (code == (uint32_t)RPC_ALLOC_SCOPED)) {
    size_t bytes = (size_t)v[1].v_int64;
    size_t alignment = (size_t)v[2].v_int64;
    const uint64_t sizes = (uint64_t)v[1].v_int64 | (uint64_t)v[2].v_int64;
    if ((code == (uint32_t)RPC_ALLOC_DATA) && ((sizes >> 31) != 0U)) {
      return ARGUMENTS;
    }
    if (code == (uint32_t)RPC_ALLOC_SCOPED) {
      const DLTensor* t = v[0].v_handle;
      if (t->data != NULL) {
        return ARGUMENTS;  // must describe memory that does not exist yet
      }
      alignment = 1;
      error = boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes);
    }
    if (error == 0) {
      error = boardsmith_data_allocate(bytes, alignment, &handle);
    }
  } else if (code == (uint32_t)RPC_FREE_DATA) {
    return result_of(boardsmith_data_free(v[1].v_handle, OWNER_SESSION));
  } else if (code == (uint32_t)RPC_COPY_AMONG) {
    return copy_among(v[0].v_handle, v[1].v_handle);
  } else if (code != (uint32_t)RPC_CREATE_STREAM) {
    return DONE;  // streams have no effect: all requests run in order
  }
  if (error != 0) {
    return result_of(error);
  }
  transmit_value(s, RPC_RETURN, kTVMOpaqueHandle, (uintptr_t)handle, NULL, 0);
  return ANSWERED;
}

static result_t execute(rpc_server_t* s, uint32_t code, uint8_t* body, uint8_t* end) {
  if ((s->length > PACKET_BYTES) && (code != RPC_COPY_TO)) {
    return LONG;
  }
  if (code == RPC_SHUTDOWN) {
    s->state = SHUT_DOWN;
    return ANSWERED;
  }
  if (code == RPC_INIT_SERVER) {
    // A version, which is ignored, and arguments, of which there must be none.
    return (((end - body) < 12) || (wire_get32(&end[-4]) != 0U)) ? ARGUMENTS : DONE;
  }
  if ((code == RPC_COPY_FROM) || (code == RPC_COPY_TO)) {
    return copy(s, body, (uint32_t)(end - body), (code == RPC_COPY_TO) ? 1 : 0);
  }
  if ((code != RPC_CALL_FUNC) && ((code < RPC_GET_GLOBAL) || (code >= RPC_END))) {
    return REQUEST;
  }
  arguments_t a;
  a.request = code;
  result_t result = arguments_decode(s, &a, (code == RPC_CALL_FUNC) ? &body[8] : body, end);
  if (result == DONE) {
    result = (code == RPC_CALL_FUNC) ? call_function(s, body, &a) : system_call(s, code, &a);
  }
  if (a.taken != NULL) {
    (void)boardsmith_give(a.taken);
  }
  return result;
}

void request_execute(rpc_server_t* s) {
  uint8_t* const m = server_message(s);
  result_t result = (s->length > PACKET_BYTES) ? LONG : SHORT;
  CRT_ASSERT(boardsmith_runtime.session == 0U);  // requests do not nest
  request_answer_due(s);
  boardsmith_runtime.last_error[0] = '\0';
  boardsmith_runtime.session = OWNER_SESSION;
  if ((wire_get32(&m[MESSAGE_LENGTH]) + MESSAGE_CODE) == s->length) {
    if (s->length == MESSAGE_CODE) {
      result = ANSWERED;  // an empty packet has no answer
    }
    if (s->length >= MESSAGE_BODY) {
      result = execute(s, wire_get32(&m[MESSAGE_CODE]), &m[MESSAGE_BODY],
                       &m[(s->length < PACKET_BYTES) ? s->length : PACKET_BYTES]);
    }
  }
  boardsmith_runtime.session = 0;
  request_finish(s, result);
}
