// SPDX-License-Identifier: Apache-2.0
//
// Measures a function's run time on the device: runtime.RPCTimeEvaluator. The only
// floating point of the runtime is here.
#include <string.h>

#include "runtime.h"

// Positions of the creating call's arguments.
enum {
  ARG_MODULE = 0,
  ARG_NAME = 1,
  ARG_NUMBER = 4,
  ARG_REPEAT = 5,
  ARG_MIN_REPEAT_MS = 6,
  ARG_ZERO_LIMIT = 7,
  ARG_PREPROC = 11,
  ARG_COUNT = 12
};

// The one evaluator there is: a new one takes the place of the old, whose handle then
// no longer works.
static struct {
  unsigned index;  // of the newest handle
  TVMFunctionHandle function;
  int32_t number;         // calls per timed batch
  int32_t repeat;         // results
  int32_t min_repeat_ms;  // least time per result
  int32_t zero_limit;     // batches that the timer shows as 0 before that is believed
} evaluator;

static int expected_type(int i) {
  if (i == ARG_MODULE) {
    return (int)kTVMModuleHandle;
  }
  return ((i == ARG_NAME) || (i == ARG_PREPROC)) ? (int)kTVMStr : (int)kTVMArgInt;
}

int boardsmith_time_evaluator_create(TVMValue* args, int* type_codes, int num_args,
                                     TVMValue* out_value, int* out_type, void* resource_handle) {
  (void)resource_handle;
  TVMFunctionHandle function = NULL;
  if (num_args < ARG_COUNT) {
    return (int)kTvmErrorFunctionCallNumArguments;
  }
  for (int i = 0; i < ARG_COUNT; i++) {
    if (type_codes[i] != expected_type(i)) {
      return (int)kTvmErrorFunctionCallWrongArgType;
    }
    if ((type_codes[i] == (int)kTVMArgInt) && ((uint64_t)args[i].v_int64 > INT32_MAX)) {
      return (int)kTvmErrorFunctionCallInvalidArg;
    }
  }
  if (args[ARG_NUMBER].v_int64 == 0) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  const int error =
      TVMModGetFunction(args[ARG_MODULE].v_handle, args[ARG_NAME].v_str, 0, &function);
  if (error != 0) {
    return error;
  }
  evaluator.index = (evaluator.index + 1U) & 0x7fffU;
  evaluator.function = function;
  evaluator.number = (int32_t)args[ARG_NUMBER].v_int64;
  evaluator.repeat = (int32_t)args[ARG_REPEAT].v_int64;
  evaluator.min_repeat_ms = (int32_t)args[ARG_MIN_REPEAT_MS].v_int64;
  evaluator.zero_limit = (int32_t)args[ARG_ZERO_LIMIT].v_int64;
  const uintptr_t upper = MODULE_TIME_EVALUATOR | HANDLE_VALID;
  out_value->v_handle = (void*)((upper << 16) | HANDLE_VALID | evaluator.index);
  *out_type = (int)kTVMPackedFuncHandle;
  return 0;
}

// A call that is made again and again.
typedef struct timed_call {
  TVMBackendPackedCFunc func;
  void* resource;
  TVMValue* args;
  int* type_codes;
  int num_args;
} timed_call_t;

static int call_times(const timed_call_t* c, int32_t number) {
  int error = 0;
  for (int32_t i = 0; (error == 0) && (i < number); i++) {
    TVMValue value;
    int type = (int)kTVMNullptr;
    value.v_int64 = 0;
    error = c->func(c->args, c->type_codes, c->num_args, &value, &type, c->resource);
  }
  return error;
}

// Calls number times and stores the time for all. The timer is stopped also after an error.
static int time_batch(const timed_call_t* c, int32_t number, double* seconds) {
  int error = (int)TVMPlatformBeforeMeasurement();
  if (error != 0) {
    return error;
  }
  error = (int)TVMPlatformTimerStart();
  if (error == 0) {
    error = call_times(c, number);
    const int timer_error = (int)TVMPlatformTimerStop(seconds);
    error = (error != 0) ? error : timer_error;
  }
  const int after_error = (int)TVMPlatformAfterMeasurement();
  return (error != 0) ? error : after_error;
}

// Returns how many calls the next batch shall have, after one of number took seconds.
static int32_t grow(int32_t number, double seconds, double least_seconds) {
  const double wanted = (least_seconds / (seconds / number)) + 1.0;
  const double golden = number * 1.618;
  const double next = (wanted > golden) ? wanted : golden;
  return (next < (double)INT32_MAX) ? (int32_t)next : INT32_MAX;
}

// Stores one result, the mean seconds per call of a batch that was long enough.
static int measure(const timed_call_t* c, double* result) {
  const double least = evaluator.min_repeat_ms / 1000.0;
  int32_t zeros = 0;
  double seconds = 0;
  int32_t number = evaluator.number;
  do {
    if (seconds > 0) {
      number = grow(number, seconds, least);
    }
    const int error = time_batch(c, number, &seconds);
    if (error != 0) {
      return error;
    }
    TVMPlatformYield();
    if (!(seconds > 0)) {
      zeros++;
    }
  } while ((seconds < least) && (zeros < evaluator.zero_limit));
  evaluator.number = number;
  *result = seconds / number;
  return 0;
}

int boardsmith_time_evaluator_call(TVMValue* args, int* type_codes, int num_args,
                                   TVMValue* out_value, int* out_type, void* resource_handle) {
  const DLDevice cpu = {kDLCPU, 0};
  timed_call_t call = {NULL, NULL, args, type_codes, num_args};
  void* memory = NULL;
  if ((evaluator.function == NULL) || ((uintptr_t)resource_handle != evaluator.index)) {
    return (int)kTvmErrorTimeEvaluatorBadHandle;
  }
  if (boardsmith_resolve(evaluator.function, &call.func, &call.resource) != 0) {
    return -1;
  }
  const size_t repeat = (size_t)evaluator.repeat;
  if ((repeat > (SIZE_MAX / 32U)) ||
      (TVMPlatformMemoryAllocate(sizeof(TVMByteArray) + (repeat * sizeof(double)), cpu, &memory) !=
       kTvmErrorNoError)) {
    return (int)kTvmErrorPlatformNoMemory;
  }
  TVMByteArray* const bytes = memory;
  double* const results = (double*)(void*)&bytes[1];
  bytes->data = (const char*)results;
  bytes->size = repeat * sizeof(double);
  int error = call_times(&call, 1);  // warm-up
  for (size_t i = 0; (error == 0) && (i < repeat); i++) {
    error = measure(&call, &results[i]);
  }
  if (error != 0) {
    (void)TVMPlatformMemoryFree(memory, cpu);
    return error;
  }
  out_value->v_handle = bytes;
  *out_type = (int)kTVMBytes;
  return 0;
}
