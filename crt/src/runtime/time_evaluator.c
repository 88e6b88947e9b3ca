// SPDX-License-Identifier: Apache-2.0
//
// Measures a function's run time on the device: runtime.RPCTimeEvaluator. The only
// floating point of the runtime is here.
#include <string.h>

#include "runtime.h"

// The creating call's arguments: module, name, device type and id, then the numbers, of
// which the first four count here, then a function's name.
enum { ARG_MODULE = 0, ARG_NAME = 1, ARG_NUMBERS = 4 };
static const uint8_t arg_types[] = {kTVMModuleHandle, kTVMStr,    kTVMArgInt, kTVMArgInt,
                                    kTVMArgInt,       kTVMArgInt, kTVMArgInt, kTVMArgInt,
                                    kTVMArgInt,       kTVMArgInt, kTVMArgInt, kTVMStr};

// The one evaluator there is: a new one takes the place of the old, whose handle then
// no longer works.
static struct {
  unsigned index;  // of the newest handle; 0: there is none
  TVMFunctionHandle function;
  struct {
    int32_t number;         // calls per timed batch
    int32_t repeat;         // results
    int32_t min_repeat_ms;  // least time per result
    int32_t zero_limit;     // batches that the timer shows as 0 before that is believed
  } n;
} evaluator;

int boardsmith_time_evaluator_create(PACKED_PARAMETERS) {
  (void)resource_handle;
  int32_t numbers[sizeof evaluator.n / sizeof(int32_t)];
  TVMFunctionHandle function;
  if (num_args < (int)sizeof arg_types) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  for (size_t i = 0; i < sizeof arg_types; i++) {
    if (type_codes[i] != (int)arg_types[i]) {
      return (int)kTvmErrorFunctionCallWrongArgType;
    }
  }
  for (size_t i = 0; i < (sizeof numbers / sizeof numbers[0]); i++) {
    const int64_t value = args[ARG_NUMBERS + i].v_int64;
    numbers[i] = (int32_t)value;
    // Only the number of calls may not be 0.
    if ((numbers[i] != value) || (numbers[i] < (int32_t)(i == 0U))) {
      return (int)kTvmErrorFunctionCallInvalidArg;
    }
  }
  const int error =
      boardsmith_module_find(args[ARG_MODULE].v_handle, "%", args[ARG_NAME].v_str, &function);
  if (error == 0) {
    evaluator.index = (evaluator.index % 0x7fffU) + 1U;
    evaluator.function = function;
    (void)memcpy(&evaluator.n, numbers, sizeof evaluator.n);
    out_value->v_handle = function_handle(MODULE_TIME_EVALUATOR, evaluator.index);
    *out_type = (int)kTVMPackedFuncHandle;
  }
  return error;
}

// A call that is made again and again.
typedef struct timed_call {
  TVMValue* args;
  int* type_codes;
  int num_args;
} timed_call_t;

static int call_times(const timed_call_t* c, int32_t number) {
  int error = 0;
  for (; (error == 0) && (number != 0); number--) {
    TVMValue value;
    int type;
    error = TVMFuncCall(evaluator.function, c->args, c->type_codes, c->num_args, &value, &type);
  }
  return error;
}

// Times a batch of calls and stores the seconds it took. The timer is stopped, and the hook behind it called,
// also after an error.
static int time_batch(const timed_call_t* c, double* seconds) {
  int error = (int)TVMPlatformBeforeMeasurement();
  if (error == 0) {
    error = (int)TVMPlatformTimerStart();
    if (error == 0) {
      error = call_times(c, evaluator.n.number);
      error |= (int)TVMPlatformTimerStop(seconds);
    }
    error |= (int)TVMPlatformAfterMeasurement();
  }
  return error;
}

// Tells whether x < 0 (or is -0), or x >= infinity is not a number.
static uint64_t bits_of(double x) {
  uint64_t bits;
  (void)memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Tells whether a < b, without a comparison of the compiler's library.
static int is_less(double a, double b) { return (int)(bits_of(a - b) >> 63); }

// Stores one result, the mean seconds per call of a batch that was long enough.
static int measure(const timed_call_t* c, double* result) {
  const double least = evaluator.n.min_repeat_ms / 1000.0;
  int32_t zeros = 0;
  double seconds;
  for (;;) {
    const int error = time_batch(c, &seconds);
    if (error != 0) {
      return error;
    }
    TVMPlatformYield();
    if (bits_of(seconds) >= 0x7ff0000000000000U) {  // negative, infinite or no number
      return (int)kTvmErrorPlatformTimerBadState;
    }
    *result = seconds / evaluator.n.number;
    if (is_less(seconds, least) == 0) {
      return 0;
    }
    if (bits_of(seconds) == 0U) {
      zeros++;
      if (zeros >= evaluator.n.zero_limit) {
        return 0;
      }
    } else {
      const double wanted = (least / *result) + 1.0;
      const double golden = evaluator.n.number * 1.618;
      const double next = (is_less(wanted, golden) != 0) ? golden : wanted;
      evaluator.n.number = (is_less(next, 2147483647.0) != 0) ? (int32_t)next : INT32_MAX;
    }
  }
}

int boardsmith_time_evaluator_call(PACKED_PARAMETERS) {
  const timed_call_t call = {args, type_codes, num_args};
  const size_t repeat = (size_t)evaluator.n.repeat;
  void* memory;
  if (((uintptr_t)resource_handle != evaluator.index) || (evaluator.index == 0U)) {
    return (int)kTvmErrorTimeEvaluatorBadHandle;
  }
  if (repeat > (SIZE_MAX / 32U)) {
    return (int)kTvmErrorPlatformNoMemory;
  }
  int error = (int)TVMPlatformMemoryAllocate(sizeof(TVMByteArray) + (repeat * sizeof(double)),
                                             cpu_device(), &memory);
  if (error != 0) {
    return error;
  }
  TVMByteArray* const bytes = memory;
  double* const results = (double*)(void*)&bytes[1];
  bytes->data = (const char*)results;
  bytes->size = repeat * sizeof(double);
  error = call_times(&call, 1);  // warm-up
  for (size_t i = 0; (error == 0) && (i < repeat); i++) {
    error = measure(&call, &results[i]);
  }
  if (error != 0) {
    (void)TVMPlatformMemoryFree(memory, cpu_device());
  } else {
    out_value->v_handle = bytes;
    *out_type = (int)kTVMBytes;
  }
  return error;
}
