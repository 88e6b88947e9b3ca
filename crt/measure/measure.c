// SPDX-License-Identifier: Apache-2.0
//
// Measurement firmware, which acts as its own host. It passes requests from its memory to the server, 1 and 128 bytes
// per call of the loop, and prints the number of instructions. In QEMU with -icount shift=6 an instruction takes 64 ns,
// and the timer ticks every 40 ns. Instructions of the loop here and of the write function are subtracted.
//
// Prints lines of a name and a number.
#include <stdbool.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

#include "board.h"
#include "crt_config.h"

enum { COPY_BYTES = 4096, FRAME_BYTES = 2 * COPY_BYTES + 256 };

static microtvm_rpc_server_t server;
static uint8_t written[FRAME_BYTES];  // by the server, as on the wire
static size_t written_bytes;
static size_t writes;
static uint8_t frame[FRAME_BYTES];  // for the server
static size_t frame_bytes;
static uint8_t message[COPY_BYTES + 256];
static size_t message_bytes;
static uint8_t session[2];
static uint8_t data[COPY_BYTES];

// ---- The server's side of the wire ----------------------------------------------------------------------------------

// Stores what the server sends.
static ssize_t keep(const uint8_t* bytes, size_t size_bytes) {
  writes++;
  (void)memcpy(&written[written_bytes], bytes, size_bytes);
  written_bytes += size_bytes;
  return (ssize_t)size_bytes;
}

static bool keeping = true;

// The server's write function. Without keeping it takes few instructions, which are subtracted.
__attribute__((noinline)) static ssize_t sink(void* context, const uint8_t* bytes, size_t size_bytes) {
  (void)context;
  return keeping ? keep(bytes, size_bytes) : (ssize_t)size_bytes;
}

// ---- The host's side ------------------------------------------------------------------------------------------------

static void put(const void* bytes, size_t n) {
  (void)memcpy(&message[message_bytes], bytes, n);
  message_bytes += n;
}

static void put32(uint32_t v) { put(&v, 4); }

static void put64(uint32_t v) {
  put32(v);
  put32(0);
}

static void put_escaped(uint8_t byte, uint32_t* crc) {
  for (int twice = (byte == 0xFFU) ? 2 : 1; twice != 0; twice--) {
    frame[frame_bytes] = byte;
    frame_bytes++;
    *crc ^= (uint32_t)byte << 8;
    for (int bit = 0; bit < 8; bit++) {
      *crc = ((*crc & 0x8000U) != 0U) ? ((*crc << 1) ^ 0x11021U) : (*crc << 1);
    }
  }
}

// Frames the message.
static void make_frame(void) {
  uint32_t crc = 0x2042;  // of ff fd
  uint32_t unused = 0;
  frame[0] = 0xFF;
  frame[1] = 0xFD;
  frame_bytes = 2;
  for (int i = 0; i < 4; i++) {
    put_escaped((uint8_t)(message_bytes >> (8 * i)), &crc);
  }
  for (size_t i = 0; i < message_bytes; i++) {
    put_escaped(message[i], &crc);
  }
  const uint32_t sum = crc;
  put_escaped((uint8_t)sum, &unused);
  put_escaped((uint8_t)(sum >> 8), &unused);
}

static void begin(uint8_t type) {
  message_bytes = 0;
  put(session, 2);
  put(&type, 1);
}

static void begin_request(uint32_t code) {
  begin(0x10);
  put64(0);
  put32(code);
}

static void end_request(void) {
  const uint32_t length = (uint32_t)message_bytes - 11U;
  (void)memcpy(&message[3], &length, 4);
  make_frame();
}

static void put_tensor(uint32_t address, uint32_t elements) {
  put64(address);
  put64(1);  // the CPU
  put32(1);
  put32(0x10800);  // int8
  put64(elements);
  put64(0);
}

typedef tvm_crt_error_t (*loop_t)(microtvm_rpc_server_t, uint8_t**, size_t*);

// Passes the frame to the server.
__attribute__((noinline)) static void feed(loop_t loop, size_t step) {
  for (size_t i = 0; i < frame_bytes; i += step) {
    uint8_t* bytes = &frame[i];
    size_t n = ((frame_bytes - i) < step) ? (frame_bytes - i) : step;
    (void)loop(server, &bytes, &n);
  }
}

// Passes the frame to the server and returns the start of the answer's message, which contains no ff.
static const uint8_t* ask(void) {
  written_bytes = 0;
  writes = 0;
  feed(MicroTVMRpcServerLoop, 64);
  return &written[6];
}

// ---- Measuring ------------------------------------------------------------------------------------------------------

// One instruction, for any function type.
__attribute__((naked, noinline)) static void nothing(void) { __asm__ volatile("bx lr"); }

static uint32_t time_feed(loop_t loop, size_t step) {
  const uint32_t start = board_ticks();
  feed(loop, step);
  return board_ticks() - start;
}

static uint32_t time_writes(microtvm_rpc_channel_write_t write, size_t times) {
  const microtvm_rpc_channel_write_t volatile called = write;  // prevents inlining
  const uint32_t start = board_ticks();
  for (; times != 0U; times--) {
    (void)called(NULL, frame, 1);
  }
  return board_ticks() - start;
}

// Returns the number of instructions that the server takes for the frame.
static uint32_t instructions(size_t step) {
  (void)ask();  // counts the writes
  const size_t n = writes;
  const uint32_t calls = (uint32_t)((frame_bytes + step - 1U) / step);
  keeping = false;
  const uint32_t around = time_feed((loop_t)nothing, step);
  const uint32_t server_and_around = time_feed(MicroTVMRpcServerLoop, step);
  const uint32_t around_writes = time_writes((microtvm_rpc_channel_write_t)nothing, n);
  const uint32_t writes_and_around = time_writes(sink, n);
  keeping = true;
  return (board_instructions(server_and_around - around) + calls) -
         (board_instructions(writes_and_around - around_writes) + (uint32_t)n);
}

static void print_both(const char* one, const char* many) {
  board_print(one, instructions(1));
  board_print(many, instructions(128));
}

static int noop(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                void* resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)out_value;
  (void)out_type;
  (void)resource_handle;
  return 0;
}

// Measures copies of `data` to the tensor and back, and prints whether it arrived, and the length of the answer.
static void copies(uint32_t address, const char* const names[6]) {
  begin_request(7);  // CopyToRemote
  put_tensor(address, COPY_BYTES);
  put64(COPY_BYTES);
  put(data, COPY_BYTES);
  end_request();
  print_both(names[0], names[1]);
  board_print(names[2], (uint32_t)(memcmp((const void*)(uintptr_t)address, data, COPY_BYTES) == 0));

  begin_request(6);  // CopyFromRemote
  put_tensor(address, COPY_BYTES);
  put64(COPY_BYTES);
  end_request();
  print_both(names[3], names[4]);
  board_print(names[5], (uint32_t)written_bytes);
}

static uint32_t answer32(const uint8_t* at) {
  uint32_t v;
  (void)memcpy(&v, at, 4);
  return v;
}

int main(void) {
  server = MicroTVMRpcServerInit(sink, NULL);
  board_print("taken", board_taken);
  (void)TVMFuncRegisterGlobal("noop", (TVMFunctionHandle)noop, 0);
  for (size_t i = 0; i < sizeof data; i += 4U) {  // the same random bytes each time
    (void)TVMPlatformGenerateRandom(&data[i], 4);
  }

  session[0] = 0x42;
  begin(0);
  const uint8_t version = 1;
  put(&version, 1);
  make_frame();
  (void)memcpy(session, ask(), 2);

  begin_request(9);  // GetGlobalFunc
  put32(1);
  put32(11);
  put64(4);
  put("noop", 4);
  end_request();
  const uint32_t function = answer32(ask() + 23);

  begin_request(3);  // CallFunc
  put64(function);
  put32(0);
  end_request();
  print_both("call_1", "call_128");

  begin_request(17);  // AllocDataWithScope
  put32(2);
  put32(7);
  put32(4);
  put_tensor(0, COPY_BYTES);
  end_request();
  const uint32_t address = answer32(ask() + 23);

  static const char* const random[] = {"copy_to_1",   "copy_to_128",   "copied",
                                       "copy_from_1", "copy_from_128", "answered"};
  static const char* const escaped[] = {"ff_copy_to_1",   "ff_copy_to_128",   "ff_copied",
                                        "ff_copy_from_1", "ff_copy_from_128", "ff_answered"};
  copies(address, random);
  (void)memset(data, 0xFF, sizeof data);
  copies(address, escaped);

  TVMFunctionHandle library = NULL;
  TVMValue result;
  int type;
  (void)TVMFuncGetGlobal("runtime.SystemLib", &library);
  (void)TVMFuncCall(library, NULL, NULL, 0, &result, &type);
  (void)TVMModGetFunction(result.v_handle, "add", 0, &library);
  begin_request(3);  // CallFunc
  put64((uint32_t)(uintptr_t)library);
  put32(3);
  for (int i = 0; i < 3; i++) {
    put32(7);  // kTVMDLTensorHandle
  }
  for (int i = 0; i < 3; i++) {
    put_tensor(address, 16);
  }
  end_request();
  print_both("add_1", "add_128");
  board_print("added", answer32(ask() + 15));
  board_exit();
  return 0;
}
