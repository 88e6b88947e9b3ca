// SPDX-License-Identifier: 0BSD
//
// Runs a model with only the runtime: no RPC, no project, any build system. The model is an archive with the
// ahead-of-time executor and the packed interface, here the sum of two int8 vectors of 64 elements.
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>

// What the runtime asks of its platform.
static uint8_t arena[64 * 1024] __attribute__((aligned(16)));
static MemoryManagerInterface* memory;

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr) {
  return memory->Allocate(memory, num_bytes, dev, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev) { return memory->Free(memory, ptr, dev); }

void TVMPlatformAbort(tvm_crt_error_t error) {
  (void)fprintf(stderr, "the runtime gave up: error 0x%x\n", (unsigned)error);
  exit(2);
}

tvm_crt_error_t TVMPlatformTimerStart(void) { return kTvmErrorFunctionCallNotImplemented; }  // nothing is measured

tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_seconds) {
  (void)elapsed_seconds;
  return kTvmErrorFunctionCallNotImplemented;
}

void TVMLogf(const char* format, ...) { (void)format; }

static int check(const char* what, int status) {
  if (status != 0) {
    (void)fprintf(stderr, "%s: error 0x%x: %s\n", what, (unsigned)status, TVMGetLastError());
    exit(1);
  }
  return 0;
}

int main(void) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMAotExecutor* executor = NULL;
  TVMModuleHandle models;
  (void)check("memory", PageMemoryManagerCreate(&memory, arena, sizeof arena, 8));
  (void)check("start", TVMInitializeRuntime());
  (void)check("models", TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &models));
  (void)check("executor", TVMAotExecutor_Create(models, cpu, &executor, "add"));

  int8_t* const a = executor->args[0].dl_tensor.data;
  int8_t* const b = executor->args[1].dl_tensor.data;
  for (int i = 0; i < 64; i++) {
    a[i] = (int8_t)i;
    b[i] = (int8_t)(2 * i);
  }
  (void)check("run", TVMAotExecutor_Run(executor));
  const int8_t* const sum = executor->args[2].dl_tensor.data;
  for (int i = 0; i < 64; i++) {
    (void)printf("%d ", sum[i]);
  }
  (void)printf("\n");
  return check("release", TVMAotExecutor_Release(executor, cpu));
}
