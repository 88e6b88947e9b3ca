// SPDX-License-Identifier: Apache-2.0
//
// A platform for tests of the runtime without a link: counted memory that can run out, a simulated timer, and separate
// allocations, so that AddressSanitizer detects accesses outside of them.
#ifndef BOARDSMITH_TEST_PLATFORM_H_
#define BOARDSMITH_TEST_PLATFORM_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <boardsmith/boardsmith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

#include "crt_config.h"

#define PLATFORM_MOST 256

static struct {
  void* live[PLATFORM_MOST];  // allocations not freed
  int count;
  int fail_at;  // the allocation with this number (from 0) fails; -1: none does
  int taken;    // allocations requested
} platform_memory = {.fail_at = -1};

static const DLDevice cpu = {kDLCPU, 0};

void TVMPlatformAbort(tvm_crt_error_t code) {
  (void)fprintf(stderr, "platform abort 0x%x\n", (unsigned)code);
  abort();
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t bytes, DLDevice dev, void** out) {
  assert_int_equal(dev.device_type, kDLCPU);
  assert_int_equal(dev.device_id, 0);
  if ((platform_memory.taken++ == platform_memory.fail_at) || (bytes > (1U << 24))) {
    return kTvmErrorPlatformNoMemory;
  }
  for (int i = 0; i < PLATFORM_MOST; i++) {
    if (platform_memory.live[i] == NULL) {
      *out = malloc((bytes == 0U) ? 1U : bytes);
      (void)memset(*out, 0xA5, bytes);
      platform_memory.live[i] = *out;
      platform_memory.count++;
      return kTvmErrorNoError;
    }
  }
  return kTvmErrorPlatformNoMemory;
}

tvm_crt_error_t TVMPlatformMemoryFree(void* memory, DLDevice dev) {
  assert_int_equal(dev.device_type, kDLCPU);
  for (int i = 0; i < PLATFORM_MOST; i++) {
    if ((memory != NULL) && (platform_memory.live[i] == memory)) {
      platform_memory.live[i] = NULL;
      platform_memory.count--;
      free(memory);
      return kTvmErrorNoError;
    }
  }
  return kTvmErrorFunctionCallInvalidArg;
}

// Starts a test on a fresh runtime with no memory taken.
static void platform_reset(void) {
  for (int i = 0; i < PLATFORM_MOST; i++) {
    free(platform_memory.live[i]);
    platform_memory.live[i] = NULL;
  }
  platform_memory.count = 0;
  platform_memory.taken = 0;
  platform_memory.fail_at = -1;
  TVMAPISetLastError("");
  assert_int_equal(TVMInitializeRuntime(), kTvmErrorNoError);
}

// Calls the global function name.
static int call_global(const char* name, TVMValue* args, int* codes, int n, TVMValue* out, int* out_code) {
  TVMFunctionHandle f = NULL;
  assert_int_equal(TVMFuncGetGlobal(name, &f), 0);
  assert_non_null(f);
  return TVMFuncCall(f, args, codes, n, out, out_code);
}

static const DLDataType int8 = {kDLInt, 8, 1};

#endif  // BOARDSMITH_TEST_PLATFORM_H_
