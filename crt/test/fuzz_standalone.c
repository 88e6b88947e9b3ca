// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target for standalone firmware: all of its requests, against a model of two inputs and two outputs. If the
// input's first byte is even, the rest are bytes from the link. If it is odd, the rest are lines without number and
// CRC, which are added here; each '$' stands for the session's number. Afterwards a valid request must be answered.
#define main standalone_main
#include "lines.c"
#include "main.c"
#undef main

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// ---- The model ------------------------------------------------------------------------------------------------------

enum { SMALL_BYTES = 5, LARGE_BYTES = 300, RUNS_MOST = 100 };

static uint8_t small_in[SMALL_BYTES];
static uint8_t large_in[LARGE_BYTES];
static uint8_t large_out[LARGE_BYTES];
static uint8_t small_out[SMALL_BYTES];
static unsigned runs;  // since the start of the input: a run fails after RUNS_MOST

static int32_t model_run(const void* inputs, const void* outputs, const TVMContext* context) {
  (void)inputs, (void)outputs, (void)context;
  runs++;
  (void)memcpy(large_out, large_in, sizeof large_out);
  (void)memcpy(small_out, small_in, sizeof small_out);
  return (runs > (unsigned)RUNS_MOST) ? -1 : 0;
}

static const TVMModelTensor tensors[4] = {{.name = "a", .size_bytes = SMALL_BYTES},
                                          {.name = "b", .size_bytes = LARGE_BYTES},
                                          {.name = "c", .size_bytes = LARGE_BYTES},
                                          {.name = "d", .size_bytes = SMALL_BYTES}};
static const TVMModel model = {.run = model_run, .num_inputs = 2, .num_outputs = 2, .tensors = tensors};
static uint8_t* const inputs[2] = {small_in, large_in};
static uint8_t* const outputs[2] = {large_out, small_out};
const standalone_model_t standalone_model = {&model, inputs, outputs, inputs, outputs, 0};

// ---- The firmware's other parts -------------------------------------------------------------------------------------

static char sent[256];  // the end of what was sent
static size_t sent_bytes;

static int32_t port_send(void* ctx, const uint8_t* data, uint32_t size_bytes) {
  (void)ctx;
  for (uint32_t i = 0; i < size_bytes; i++) {
    sent[sent_bytes % sizeof sent] = (char)data[i];
    sent_bytes++;
  }
  return 0;
}

static int32_t port_flush(void* ctx) {
  (void)ctx;
  return 0;
}

static uint64_t port_ticks(void* ctx) {
  (void)ctx;
  return runs;
}

static uint32_t port_ticks_hz(void* ctx) {
  (void)ctx;
  return 1000;
}

static void port_align(void* ctx) { (void)ctx; }

static uint32_t port_image_crc(void* ctx, uint32_t crc) {
  (void)ctx;
  return crc;
}

static uint32_t port_chip_id(void* ctx, uint8_t* id, uint32_t max_bytes) {
  (void)ctx;
  (void)memset(id, 0x5A, max_bytes);
  return max_bytes;
}

static void port_stop(void* ctx, port_stop_t reason, uint32_t error) {
  (void)ctx, (void)reason, (void)error;
  abort();
}

static const uint8_t build_id[BUILD_ID_BYTES] = {1};
const boardsmith_port_t boardsmith_port = {.build_id = build_id,
                                           .send = port_send,
                                           .flush = port_flush,
                                           .ticks = port_ticks,
                                           .ticks_hz = port_ticks_hz,
                                           .ticks_align = port_align,
                                           .image_crc = port_image_crc,
                                           .chip_id = port_chip_id,
                                           .stop = port_stop};

static uint8_t record[200];
static uint32_t record_bytes;

const uint8_t* fault_record(uint32_t* length_bytes) {
  *length_bytes = record_bytes;
  return (record_bytes != 0U) ? record : NULL;
}

int fault_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                 void* resource_handle) {
  (void)args, (void)type_codes, (void)num_args, (void)out_value, (void)out_type, (void)resource_handle;
  record_bytes = 0;
  return 0;
}

int fault_budget_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                        void* resource_handle) {
  (void)type_codes, (void)num_args, (void)out_value, (void)out_type, (void)resource_handle;
  return (args[0].v_int64 > 0xFFFFFF) ? -1 : 0;
}

void stack_paint(void) {}

uint32_t stack_used(uint32_t* size_bytes) {
  *size_bytes = 4096;
  return 100;
}

// What boardsmith.crc32 calls, which nobody calls here.
int boardsmith_tensor_bytes(int32_t ndim, const int64_t* shape, DLDataType dtype, size_t* bytes) {
  (void)ndim, (void)shape, (void)dtype, (void)bytes;
  abort();
}

void TVMAPISetLastError(const char* msg) {
  (void)msg;
  abort();
}

// ---- Inputs ---------------------------------------------------------------------------------------------------------

// Sends a request of this text.
static void request(const char* text, size_t length) {
  char line[2048];
  size_t n = (size_t)snprintf(line, sizeof line, "?0001 ");
  for (size_t i = 0; (i < length) && (n < (sizeof line - 16U)); i++) {
    n += (size_t)snprintf(&line[n], 9, (text[i] == '$') ? "%08x" : "%c",
                          (text[i] == '$') ? (unsigned)session : (unsigned)(unsigned char)text[i]);
  }
  line[n] = ' ';
  n++;
  n += (size_t)snprintf(&line[n], 10, "%08x\n", (unsigned)boardsmith_crc32(line, n));
  take((const uint8_t*)line, (uint32_t)n);
}

// Aborts unless the answer to the last request begins with this text.
static void check_answer(const char* text) {
  if ((sent_bytes > sizeof sent) || (memcmp(sent, text, strlen(text)) != 0)) {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char id[] = "id 0123456789abcdef";
  if (size == 0U) {
    return 0;
  }
  (void)memset(&received, 0, sizeof received);
  session = 0;
  has_outputs = false;
  runs = 0;
  record_bytes = sizeof record;
  if ((data[0] & 1U) == 0U) {
    take(&data[1], (uint32_t)(size - 1U));
  } else {
    const uint8_t* at = &data[1];
    const uint8_t* const end = &data[size];
    request(id, sizeof id - 1U);
    while (at != end) {
      const uint8_t* const newline = memchr(at, '\n', (size_t)(end - at));
      const uint8_t* const line_end = (newline != NULL) ? newline : end;
      request((const char*)at, (size_t)(line_end - at));
      at = (newline != NULL) ? &newline[1] : end;
    }
  }

  // Whatever came before, a request is answered.
  sent_bytes = 0;
  request(id, sizeof id - 1U);
  check_answer("=0001 id 01000000");
  sent_bytes = 0;
  request("in $ 0000 00000004 7f", 21);
  check_answer("=0001 in ");
  if (small_in[4] != 0x7FU) {
    abort();
  }
  return 0;
}
