// SPDX-License-Identifier: Apache-2.0
//
// Measures a function's run time on the device: runtime.RPCTimeEvaluator.
#include <boardsmith/boardsmith.h>
#include <stdbool.h>
#include <string.h>

#include "arrays.h"
#include "builtins.h"
#include "double.h"
#include "memory.h"

enum { NUMBER, REPEAT, MIN_REPEAT_MS, ZERO_LIMIT, SETTINGS };

// The only evaluator: a new one replaces the old one, whose handle becomes invalid.
static struct {
  unsigned index;  // of the newest handle
  TVMFunctionHandle function;
  // Calls per timed batch; number of results; minimum time per result in ms; batches of time 0 before 0 is accepted.
  uint32_t settings[SETTINGS];
} evaluator;

enum { FIRST_SETTING = 4 };  // the first of SETTINGS arguments

// Arguments: module, name, device type and id, number, repeat, min_repeat_ms, zero limit, and four more that are
// ignored.
int boardsmith_time_evaluator_create(PACKED_PARAMETERS) {
  (void)resource_handle;
  TVMFunctionHandle function;
  int error = boardsmith_arguments(type_codes, num_args, "JLAAAAAAAAAL");
  if (error != 0) {
    return error;
  }
  uint64_t all = 0;
  for (int i = 0; i < (int)SETTINGS; i++) {
    all |= (uint64_t)args[FIRST_SETTING + i].v_int64;
  }
  // At least one call, and less than 2^27, so that the size of the results does not overflow.
  if (((all >> 27) != 0U) || (args[FIRST_SETTING].v_int64 == 0)) {
    return (int)kTvmErrorFunctionCallInvalidArg;
  }
  error = boardsmith_module_find(args[0].v_handle, "%", args[1].v_str, &function);
  if (error == 0) {
    evaluator.index = (evaluator.index + 1U) & (HANDLE_VALID - 1U);
    evaluator.function = function;
    for (int i = 0; i < (int)SETTINGS; i++) {
      evaluator.settings[i] = (uint32_t)args[FIRST_SETTING + i].v_int64;
    }
    out_value->v_handle = function_handle(HANDLE_EVALUATOR, evaluator.index);
    *out_type = (int)kTVMPackedFuncHandle;
  }
  return error;
}

// A call that is repeated.
typedef struct timed_call {
  TVMValue* args;
  int* type_codes;
  int num_args;
} timed_call_t;

static int call_times(const timed_call_t* c, uint32_t number) {
  int error = 0;
  for (; (error == 0) && (number != 0U); number--) {
    TVMValue value;
    int type;
    error = TVMFuncCall(evaluator.function, c->args, c->type_codes, c->num_args, &value, &type);
    if (error == 0) {
      boardsmith_result_free(&value, type, OWNER_ANYONE);
    }
  }
  return error;
}

static int first_error(int error, int later) { return (error != 0) ? error : later; }

// Times a batch of calls and stores the seconds. Also after an error the timer is stopped and the hook called. Returns
// the first of several errors.
static int time_batch(const timed_call_t* c, double* seconds) {
  int error = (int)TVMPlatformBeforeMeasurement();
  if (error != 0) {
    return error;
  }
  error = (int)TVMPlatformTimerStart();
  if (error == 0) {
    error = call_times(c, evaluator.settings[NUMBER]);
    error = first_error(error, (int)TVMPlatformTimerStop(seconds));
  }
  return first_error(error, (int)TVMPlatformAfterMeasurement());
}

// Returns the upper half of a double's bits. For numbers that are not negative, the halves compare like the numbers, to
// a millionth; negative numbers, infinity and NaN are above them. Saves a library's comparison: 312 bytes on a
// Cortex-M3.
static uint32_t upper_of(double x) {
  uint64_t bits;
  (void)memcpy(&bits, &x, sizeof bits);
  return (uint32_t)(bits >> 32);
}

#define UPPER_OF_ONE 0x3ff00000U
#define UPPER_OF_TWO_TO_31 0x41e00000U

// Returns the number of calls of the next batch: as many as take ratio times one call's time, plus one, but at least
// trunc(number * 1.618).
static uint32_t grown(uint32_t number, double ratio) {
  const uint32_t golden = number + (uint32_t)(((uint64_t)number * 0x9e353f7dU) >> 32);
  const uint32_t upper = upper_of(ratio);
  uint32_t next = INT32_MAX;  // for a ratio of 2^31 or more
  if (upper < UPPER_OF_ONE) {
    next = 1;
  } else if (upper < UPPER_OF_TWO_TO_31) {
    // Truncates without a library's conversion, which would exceed the image's budget (40 bytes on a Cortex-M3): takes
    // the first 32 bits of the fraction and drops those below 1.
    uint64_t bits;
    (void)memcpy(&bits, &ratio, sizeof bits);
    next = (0x80000000U | (uint32_t)(bits >> 21)) >> (31U - ((upper - UPPER_OF_ONE) >> 20));
    next++;
  }
  next = (next > golden) ? next : golden;
  return (next < (uint32_t)INT32_MAX) ? next : (uint32_t)INT32_MAX;
}

int boardsmith_time_evaluator_call(PACKED_PARAMETERS) {
  const timed_call_t call = {args, type_codes, num_args};
  uint32_t* const settings = evaluator.settings;
  void* memory;
  if ((uintptr_t)resource_handle != evaluator.index) {
    return (int)kTvmErrorTimeEvaluatorBadHandle;
  }
  const size_t results_bytes = settings[REPEAT] * sizeof(double);
  int error = boardsmith_signature_check(evaluator.function, type_codes, num_args);
  if (error == 0) {
    error = boardsmith_take(sizeof(TVMByteArray) + results_bytes, &memory);
  }
  if (error != 0) {
    return error;
  }
  TVMByteArray* const bytes = memory;
  double* result = (double*)(void*)&bytes[1];
  const double least = boardsmith_seconds(settings[MIN_REPEAT_MS], 1000);
  uint32_t zeros = 0;
  bytes->data = (const char*)result;
  bytes->size = results_bytes;
  error = call_times(&call, 1);  // warm-up
  for (uint32_t left = settings[REPEAT]; (error == 0) && (left != 0U);) {
    double seconds;
    error = time_batch(&call, &seconds);
    if (error == 0) {
      TVMPlatformYield();
      *result = boardsmith_quotient(seconds, boardsmith_seconds(settings[NUMBER], 1));
      if (upper_of(seconds) == 0U) {
        zeros++;
      }
      if ((upper_of(seconds) >= upper_of(least)) || ((zeros >= settings[ZERO_LIMIT]) && (upper_of(seconds) == 0U))) {
#ifdef BOARDSMITH_SAMPLE_HOOK
        boardsmith_sample_timed(settings[REPEAT] - left);
#endif
        result++;
        left--;
        zeros = 0;
      } else if (upper_of(seconds) != 0U) {
        settings[NUMBER] = grown(settings[NUMBER], boardsmith_quotient(least, *result));
      }  // else the timer showed 0: the same number of calls again
    }
  }
  if (error != 0) {
    (void)boardsmith_give(memory);
  } else {
    out_value->v_handle = bytes;
    *out_type = (int)kTVMBytes;
  }
  return error;
}
