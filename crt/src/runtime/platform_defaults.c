// SPDX-License-Identifier: Apache-2.0
//
// Defaults of optional platform functions.
#include <boardsmith/boardsmith.h>
#include <tvm/runtime/crt/platform.h>

TVM_WEAK tvm_crt_error_t TVMPlatformBeforeMeasurement(void) { return kTvmErrorNoError; }

TVM_WEAK tvm_crt_error_t TVMPlatformAfterMeasurement(void) { return kTvmErrorNoError; }

TVM_WEAK tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* buffer, size_t num_bytes) {
  (void)buffer;
  (void)num_bytes;
  return kTvmErrorFunctionCallNotImplemented;
}

TVM_WEAK void TVMPlatformYield(void) {}

TVM_WEAK void boardsmith_call_begins(TVMFunctionHandle f) { (void)f; }

TVM_WEAK void boardsmith_call_ends(void) {}

TVM_WEAK void boardsmith_session_begins(void) {}

TVM_WEAK void boardsmith_logged(const char* text, size_t size_bytes) {
  (void)text;
  (void)size_bytes;
}

TVM_WEAK uint32_t boardsmith_now_ms(void) { return 0; }
