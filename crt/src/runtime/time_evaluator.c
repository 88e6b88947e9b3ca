// SPDX-License-Identifier: Apache-2.0
//
// Measures a function's run time on the device: runtime.RPCTimeEvaluator. The only
// floating point of the runtime is here.
#include <string.h>

#include "runtime.h"

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

// Arguments: module, name, device type and id, number, repeat, min_repeat_ms, zero limit, and four more that
// do not matter on a bare device.
int boardsmith_time_evaluator_create(PACKED_PARAMETERS) {
  (void)resource_handle;
  TVMFunctionHandle function;
  int error = boardsmith_arguments(type_codes, num_args, "JLAAAAAAAAAL");
  if (error != 0) {
    return error;
  }
  // Numbers below 2^27, so that the results' bytes can be counted, and at least one call.
  if ((((args[4].v_int64 | args[5].v_int64 | args[6].v_int64 | args[7].v_int64) >> 27) != 0) ||
      (args[4].v_int64 == 0)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  error = boardsmith_module_find(args[0].v_handle, "%", args[1].v_str, &function);
  if (error == 0) {
    evaluator.index = (evaluator.index + 1U) & (HANDLE_VALID - 1U);
    evaluator.function = function;
    evaluator.number = (int32_t)args[4].v_int64;
    evaluator.repeat = (int32_t)args[5].v_int64;
    evaluator.min_repeat_ms = (int32_t)args[6].v_int64;
    evaluator.zero_limit = (int32_t)args[7].v_int64;
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
      error = call_times(c, evaluator.number);
      error |= (int)TVMPlatformTimerStop(seconds);
    }
    error |= (int)TVMPlatformAfterMeasurement();
  }
  return error;
}

// A double's bits: those of numbers that are not negative compare like the numbers, and all that is no sensible time lies
// above them. Saves a library's comparison.
static uint64_t bits_of(double x) {
  uint64_t bits;
  (void)memcpy(&bits, &x, sizeof bits);
  return bits;
}

#define BITS_TWO_TO_31 0x41e0000000000000U

// Returns how many calls the next batch shall have: as many as take ratio times one call's time, and one, but at least
// trunc(number * 1.618).
static int32_t grown(int32_t number, double ratio) {
  const uint32_t golden = (uint32_t)number + (uint32_t)(((uint64_t)number * 0x9e353f7dU) >> 32);
  uint32_t next = INT32_MAX;
  if (bits_of(ratio) < BITS_TWO_TO_31) {
    next = (uint32_t)(int32_t)ratio + 1U;
  }
  next = (next > golden) ? next : golden;
  return (next < (uint32_t)INT32_MAX) ? (int32_t)next : INT32_MAX;
}

// Stores one result, the mean seconds per call of a batch that was long enough.
static int measure(const timed_call_t* c, double* result) {
  const double least = evaluator.min_repeat_ms / 1000.0;
  int32_t zeros = 0;
  for (;;) {
    double seconds = 0;
    const int error = time_batch(c, &seconds);
    if (error != 0) {
      return error;
    }
    TVMPlatformYield();
    *result = seconds / evaluator.number;
    if (bits_of(seconds) >= bits_of(least)) {
      return 0;
    }
    if (bits_of(seconds) != 0U) {
      evaluator.number = grown(evaluator.number, least / *result);
    } else {
      zeros++;
      if (zeros >= evaluator.zero_limit) {
        return 0;
      }
    }
  }
}

int boardsmith_time_evaluator_call(PACKED_PARAMETERS) {
  const timed_call_t call = {args, type_codes, num_args};
  const size_t repeat = (size_t)evaluator.repeat;
  void* memory;
  if ((uintptr_t)resource_handle != evaluator.index) {
    return (int)kTvmErrorTimeEvaluatorBadHandle;
  }
  int error = boardsmith_take(sizeof(TVMByteArray) + (repeat * sizeof(double)), &memory);
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
    (void)boardsmith_give(memory);
  } else {
    out_value->v_handle = bytes;
    *out_type = (int)kTVMBytes;
  }
  return error;
}
