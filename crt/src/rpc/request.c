// SPDX-License-Identifier: Apache-2.0
//
// What a request asks for. Each one is answered once; what is malformed, unknown or impossible is an Exception.
//
// A handler returns DONE where there is nothing to return, ANSWERED where it has sent its answer itself, else what is wrong:
// one of the texts here or a function's error.
#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <tvm/runtime/crt/crt.h>

#include "runtime/arrays.h"
#include "runtime/functions.h"
#include "runtime/memory.h"
#include "runtime/state.h"
#include "runtime/text.h"
#include "server.h"
#include "wire.h"

// The decoded arguments of a packed sequence.
typedef struct arguments {
  TVMValue* values;
  int* codes;
  uint32_t count;
  void* taken;  // from the platform; NULL: they lie in what the message leaves free of the packet buffer, up to its end
} arguments_t;

// From TEXTS_BEGIN on, and from RPC_GET_GLOBAL on.
static const char* const texts[] = {TEXTS(TEXT_STRING)};
static const char* const signatures[] = {SYSTEM_CALLS(SYSTEM_CALL_TYPES)};

// Returns the text that a function's error left, or one for its number.
static const char* error_text(int error) {
  if (boardsmith_runtime.last_error[0] == '\0') {
    if (error == (int)kTvmErrorPlatformNoMemory) {
      return "out of memory";
    }
    TVMAPIErrorf("error 0x%x", (unsigned)error);
  }
  return boardsmith_runtime.last_error;
}

void request_finish(rpc_server_t* s, int result) {
  if (result == DONE) {
    transmit_value(s, RPC_RETURN, kTVMNullptr, 0, NULL, 0);
  } else if (result != ANSWERED) {
    const char* const text =
        ((unsigned)result < TEXTS_END) ? texts[(unsigned)result - (unsigned)TEXTS_BEGIN] : error_text(result);
    const size_t bytes = boardsmith_text_length(text);
    transmit_value(s, RPC_EXCEPTION, kTVMStr, bytes, text, bytes);
  } else {
    // The handler has sent the answer.
  }
}

// Reads a tensor that begins at `at`, but for its shape. Returns its bytes, 0 if it is cut short.
static uint32_t tensor_read(const uint8_t* at, uint32_t bytes, DLTensor* t) {
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

// What the arguments take in memory, at most: as much as their values do on the wire, 8 bytes for each argument, and a share of
// the former again. Of the three a value takes 8; a TVMByteArray (8 on the wire) or a DLTensor (32, with its shape as
// long as there) what is left.
#define SHARE ((sizeof(void*) == 4U) ? 4U : 1U)
_Static_assert((sizeof(DLTensor) <= (32U + (32U / SHARE))) && (sizeof(TVMByteArray) <= (8U + (8U / SHARE))) &&
                   ((sizeof(DLTensor) % 8U) == 0U) && ((sizeof(TVMByteArray) % 8U) == 0U),
               "every argument fits, aligned");

// The types that an argument may have, a bit for each.
#define ARGUMENT_TYPES                                                                                            \
  ((1U << kTVMArgInt) | (1U << kDLUInt) | (1U << kTVMArgFloat) | (1U << kTVMOpaqueHandle) | (1U << kTVMNullptr) | \
   (1U << kTVMDataType) | (1U << kDLDevice) | (1U << kTVMDLTensorHandle) | (1U << kTVMModuleHandle) |             \
   (1U << kTVMPackedFuncHandle) | (1U << kTVMStr) | (1U << kTVMBytes))

// Decodes the packed sequence from `at` to `end`, which ends the message. Returns DONE, or what is wrong.
static int arguments_decode(rpc_server_t* s, arguments_t* a, uint8_t* at, uint8_t* end) {
  uint8_t* room = (uint8_t*)(((uintptr_t)end + 7U) & ~(uintptr_t)7U);
  a->taken = NULL;
  if ((end - at) < 4) {
    return SHORT;
  }
  a->count = wire_get32(at);
  at += 4;
  if (a->count > ((size_t)(end - at) / 4U)) {
    return SHORT;
  }
  a->codes = (int*)(void*)at;  // 4-aligned: see rpc_server_t
  at += 4U * a->count;
  const size_t values = (size_t)(end - at);
  const size_t need = (values + (8U * a->count) + (values / SHARE) + 7U) & ~(size_t)7U;
  uint8_t* unused = (uint8_t*)s->unused;
  if (need > (size_t)(unused - room)) {
    const int error = boardsmith_take(need + sizeof s->unused, &a->taken);
    if (error != 0) {
      return error;
    }
    room = a->taken;
    unused = &room[need];
    (void)memset(unused, 0, sizeof s->unused);
  }
  // What the values point to, then the values, then those that are unused.
  TVMValue* value = &((TVMValue*)(void*)unused)[-(ptrdiff_t)a->count];
  a->values = value;
  for (uint32_t i = 0; i < a->count; i++) {
    const unsigned code = (unsigned)a->codes[i];
    uint32_t left = (uint32_t)(end - at);
    if ((code >= 32U) || (((ARGUMENT_TYPES >> code) & 1U) == 0U)) {
      return TYPE;
    }
    value->v_int64 = 0;
    if (code != kTVMNullptr) {
      if (left < 8U) {
        return SHORT;
      }
      (void)memcpy(value, at, 8);
      uint32_t more = 0;  // bytes behind the first 8
      if (code == kTVMDLTensorHandle) {
        DLTensor* t = (DLTensor*)(void*)room;
        more = tensor_read(at, left, t);
        if (more == 0U) {
          return SHORT;
        }
        t->shape = (int64_t*)(void*)&t[1];
        more -= TENSOR_BYTES;
        (void)memmove(t->shape, &at[TENSOR_SHAPE], more);
        room += sizeof *t + more;
        more += TENSOR_BYTES - 8U;
        value->v_int64 = (int64_t)(uintptr_t)t;
      }
      if (code >= kTVMStr) {
        more = wire_get32(at);
        if (more > (left - 8U)) {
          return SHORT;
        }
        if (code == kTVMStr) {  // its length field makes room for the NUL behind it
          (void)memmove(at, &at[8], more);
          at[more] = 0;
          value->v_int64 = (int64_t)(uintptr_t)at;
        } else {
          TVMByteArray* array = (TVMByteArray*)(void*)room;
          array->data = (const char*)&at[8];
          array->size = more;
          room += sizeof *array;
          value->v_int64 = (int64_t)(uintptr_t)array;
        }
      }
      at += 8U + more;
    }
    value++;
  }
  return DONE;
}

// Tells whether all of the tensors lie in known memory.
static bool tensors_known(const arguments_t* a) {
  for (uint32_t i = 0; i < a->count; i++) {
    if ((a->codes[i] == (int)kTVMDLTensorHandle) && (boardsmith_tensor_known(a->values[i].v_handle, 0) == 0)) {
      return false;
    }
  }
  return true;
}

// Answers a call: [int type, value], and for an array [int type, tensor, handle]. What was returned is freed; not so
// the reference to an array of the session's, which is the host's now.
static void reply_result(rpc_server_t* s, const TVMValue* value, uint32_t type) {
  const bool is_array = (type == kTVMNDArrayHandle);
  const DLTensor* t = value->v_handle;
  uint32_t words[WORDS_HEAD + 13];
  uint64_t behind_shape[2];
  const void* more = NULL;  // what lies elsewhere, between words and tail
  size_t more_bytes = 0;
  const void* tail = NULL;
  size_t tail_bytes = 0;
  uint32_t* w = &words[WORDS_HEAD + 4];
  words[WORDS_HEAD] = RPC_RETURN;
  words[WORDS_HEAD + 1] = 2;
  words[WORDS_HEAD + 2] = kTVMArgInt;
  words[WORDS_HEAD + 3] = type;
  if (is_array) {
    words[WORDS_HEAD + 1] = 3;
    words[WORDS_HEAD + 3] = kTVMDLTensorHandle;
    *w = kTVMOpaqueHandle;
    w++;
  }
  if ((type - kTVMModuleHandle) <= (kTVMPackedFuncHandle - kTVMModuleHandle)) {
    words[WORDS_HEAD + 3] = kTVMOpaqueHandle;  // on the wire handles lose their kind
  }
  w[0] = type;
  w[1] = 0;
  w += 2;
  if (type != kTVMNullptr) {
    (void)memcpy(w, value, 8);
    if (type == kTVMStr) {
      more = value->v_str;
      more_bytes = boardsmith_text_length(value->v_str);
      w[0] = (uint32_t)more_bytes;
      w[1] = 0;
    }
    if (type == kTVMBytes) {
      const TVMByteArray* array = value->v_handle;
      more = array->data;
      more_bytes = array->size;
      w[0] = (uint32_t)more_bytes;
      w[1] = 0;
    }
    if (is_array) {
      w[0] = (uint32_t)(uintptr_t)t->data;
      w[1] = (uint32_t)((uint64_t)(uintptr_t)t->data >> 32);
      w[2] = (uint32_t)t->device.device_type;
      w[3] = (uint32_t)t->device.device_id;
      w[4] = (uint32_t)t->ndim;
      (void)memcpy(&w[5], &t->dtype, sizeof t->dtype);
      w += 4;
      more = t->shape;
      more_bytes = 8U * (size_t)(uint32_t)t->ndim;
      behind_shape[0] = t->byte_offset;
      behind_shape[1] = (uintptr_t)t;
      tail = behind_shape;
      tail_bytes = sizeof behind_shape;
    }
    w += 2;
  }
  transmit_begin(s, s->header, words, (size_t)(w - words), more_bytes + tail_bytes);
  transmit_put(s, more, more_bytes);
  transmit_end(s, tail, tail_bytes);
  boardsmith_result_free(value, (int)type, OWNER_FIRMWARE);
}

// The types that a result may have.
#define RESULT_TYPES ((ARGUMENT_TYPES | (1U << kTVMNDArrayHandle)) & ~(1U << kTVMDLTensorHandle))

static int call_function(rpc_server_t* s, const uint8_t* body, const arguments_t* a) {
  TVMValue value;
  int type;
  const TVMFunctionHandle function = (TVMFunctionHandle)(uintptr_t)wire_get64(body);
  const int error = TVMFuncCall(function, a->values, a->codes, (int)a->count, &value, &type);
  if (error != 0) {
    // Any number: what could be taken for one of ours counts from the other end.
    return ((unsigned)error < (unsigned)TEXTS_END) ? -error : error;
  }
  if (((unsigned)type >= 32U) || (((RESULT_TYPES >> (unsigned)type) & 1U) == 0U)) {
    return TYPE;
  }
  reply_result(s, &value, (uint32_t)type);
  return ANSWERED;
}

// Copies to or from the device. Of a copy to the device that is longer than the buffer the rest goes straight to its place.
static int copy(rpc_server_t* s, const uint8_t* body, uint32_t bytes, int to_device) {
  DLTensor t;
  uint32_t head = tensor_read(body, bytes, &t);
  if (head == 0U) {
    return MEMORY;
  }
  head += 8U;
  if (head <= bytes) {
    // Of counts the lower half: whoever asks for 4 GiB and more gets less, or an Exception.
    const uint32_t count = wire_get32(&body[head - 8U]);
    bytes -= head;
    if (boardsmith_tensor_holds(&t, count, to_device) != 0) {
      uint8_t* const address = tensor_data(&t);
      if ((to_device != 0) && (count == (s->length - MESSAGE_BODY - head))) {
        (void)memmove(address, &body[head], bytes);
        if (count == bytes) {
          return DONE;
        }
        s->state = FIND_COPY;
        s->at = &address[bytes];
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

static int copy_among(const DLTensor* from, const DLTensor* to) {
  size_t bytes = 0;
  (void)boardsmith_tensor_bytes(from->ndim, from->shape, from->dtype, &bytes);  // it is known
  if (boardsmith_tensor_holds(to, bytes, 1) == 0) {
    return MEMORY;
  }
  (void)memmove(tensor_data(to), tensor_data(from), bytes);
  return DONE;
}

static int system_call(rpc_server_t* s, uint32_t code, const arguments_t* a) {
  const TVMValue* v = a->values;
  void* handle = NULL;
  int error = 0;
  if (boardsmith_arguments(a->codes, (int)a->count, signatures[code - RPC_GET_GLOBAL]) != 0) {
    return ARGUMENTS;
  }
  switch (code) {
    case RPC_GET_GLOBAL:
      (void)TVMFuncGetGlobal(v[0].v_str, &handle);  // NULL where there is none
      break;
    case RPC_FREE_HANDLE:
      if (v[1].v_int64 == kTVMNDArrayHandle) {
        return boardsmith_array_free(v[0].v_handle, OWNER_SESSION);
      }
      if (v[1].v_int64 == kTVMModuleHandle) {
        return boardsmith_session_module_free(v[0].v_handle);
      }
      return (v[1].v_int64 == kTVMPackedFuncHandle) ? DONE : ARGUMENTS;  // functions are never freed
    case RPC_SET_DEVICE:
    case RPC_GET_ATTR:
      return REQUEST;
    case RPC_ALLOC_DATA:
    case RPC_ALLOC_SCOPED: {
      size_t bytes = (size_t)v[1].v_int64;
      size_t alignment = (size_t)v[2].v_int64;
      if (code == RPC_ALLOC_SCOPED) {
        const DLTensor* t = v[0].v_handle;
        if (t->data != NULL) {
          return ARGUMENTS;  // a description of what is to be, and nothing yet
        }
        alignment = 1;
        error = boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes);
      }
      if ((code == RPC_ALLOC_DATA) && ((((uint64_t)v[1].v_int64 | (uint64_t)v[2].v_int64) >> 31) != 0U)) {
        return ARGUMENTS;
      }
      if (error == 0) {
        error = boardsmith_data_allocate(bytes, alignment, &handle);
      }
      break;
    }
    case RPC_FREE_DATA:
      return boardsmith_data_free(v[1].v_handle, OWNER_SESSION);
    case RPC_COPY_AMONG:
      return copy_among(v[0].v_handle, v[1].v_handle);
    case RPC_CREATE_STREAM:
      break;
    default:  // streams do nothing: the one there is runs in order
      return DONE;
  }
  if (error == 0) {
    transmit_value(s, RPC_RETURN, kTVMOpaqueHandle, (uintptr_t)handle, NULL, 0);
    error = ANSWERED;
  }
  return error;
}

static int execute(rpc_server_t* s, uint32_t code, uint8_t* body, uint8_t* end) {
  if ((s->length > PACKET_BYTES) && (code != RPC_COPY_TO)) {
    return LONG;
  }
  if (code == RPC_SHUTDOWN) {
    s->state = SHUT_DOWN;
    return ANSWERED;
  }
  if (code == RPC_INIT_SERVER) {
    // A version that nobody compares, and arguments, of which there may be none.
    return (((end - body) < 12) || (wire_get32(&end[-4]) != 0U)) ? ARGUMENTS : DONE;
  }
  if ((code == RPC_COPY_FROM) || (code == RPC_COPY_TO)) {
    return copy(s, body, (uint32_t)(end - body), (code == RPC_COPY_TO) ? 1 : 0);
  }
  if ((code != RPC_CALL_FUNC) && ((code < RPC_GET_GLOBAL) || (code >= RPC_END))) {
    return REQUEST;
  }
  arguments_t a;
  int result = arguments_decode(s, &a, (code == RPC_CALL_FUNC) ? &body[8] : body, end);
  if ((result == DONE) && (code != RPC_ALLOC_SCOPED) && !tensors_known(&a)) {
    result = MEMORY;
  }
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
  int result = (s->length > PACKET_BYTES) ? LONG : SHORT;
  boardsmith_runtime.last_error[0] = '\0';
  boardsmith_runtime.session = OWNER_SESSION;
  if ((wire_get32(&m[MESSAGE_LENGTH]) + MESSAGE_CODE) == s->length) {
    if (s->length == MESSAGE_CODE) {
      result = ANSWERED;  // an empty packet asks for nothing
    }
    if (s->length >= MESSAGE_BODY) {
      result = execute(s, wire_get32(&m[MESSAGE_CODE]), &m[MESSAGE_BODY],
                       &m[(s->length < PACKET_BYTES) ? s->length : PACKET_BYTES]);
    }
  }
  boardsmith_runtime.session = 0;
  request_finish(s, result);
}
