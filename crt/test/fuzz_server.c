// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer targets for the RPC server. The input's first byte chooses: even, the rest are bytes off the wire, in pieces;
// odd, the rest are requests (a u16 length and a body each), framed well and with the session's id, so that
// the parsers behind the CRC are reached. Afterwards a good session has to work.
#include "device.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Keeps addresses out of reach: a tensor argument's data pointer is the operator's business, and any address in a request
// that is not known memory has to be refused by the server. Only `add` would follow one, so it is not called with such.
static bool calls_add(const uint8_t* body, size_t size) {
  static const uint8_t add[8] = {0x00, 0x80, 0x00, 0x80};
  return (size >= 12U) && (body[0] == 3U) && (memcmp(&body[4], add, 4) == 0);
}

static void feed_requests(const uint8_t* data, size_t size) {
  while (size >= 2U) {
    size_t n = ((size_t)data[0] | ((size_t)data[1] << 8)) % 2048U;
    data += 2;
    size -= 2U;
    n = (n < size) ? n : size;
    if ((n >= 4U) && (data[0] == 1U) && (data[1] == 0U) && (data[2] == 0U) && (data[3] == 0U)) {
      return;  // Shutdown: nothing comes after
    }
    if (!calls_add(data, n)) {
      message_t* m = msg_begin(0x10);
      msg_u64(m, n);
      msg_raw(m, data, n);
      msg_send(m);
      if (host_answer() < 0) {
        abort();  // more than one answer
      }
    }
    data += n;
    size -= n;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2U) {
    return 0;
  }
  device_boot();
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
  device_memory_left = SIZE_MAX;
  if (!host_start(0x33) || (host_global("runtime.SystemLib") != 0x80028000U)) {
    abort();
  }
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
  (void)printf("%d inputs of the fuzzer, none of which stopped the server\n", argc - 1);
  return (argc > 1) ? 0 : 1;
}
#endif
