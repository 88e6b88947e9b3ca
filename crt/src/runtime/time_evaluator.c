// SPDX-License-Identifier: Apache-2.0
//
// Measures a function's run time on the device: runtime.RPCTimeEvaluator.
#include <stdbool.h>
#include <string.h>

#include "arrays.h"
#include "builtins.h"
#include "double.h"
#include "memory.h"

enum { NUMBER, REPEAT, MIN_REPEAT_MS, ZERO_LIMIT, SETTINGS };

// The one evaluator there is: a new one takes the place of the old, whose handle then
// no longer works.
static struct {
  unsigned index;  // of the newest handle
  TVMFunctionHandle function;
  // Calls per timed batch; results; least time per result; batches that the timer shows as 0 before that is believed.
  uint32_t settings[SETTINGS];
} evaluator;

enum { FIRST_SETTING = 4 };  // the first of SETTINGS arguments

// Arguments: module, name, device type and id, number, repeat, min_repeat_ms, zero limit, and four more that
// do not matter on a bare device.
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
  // Below 2^27, so that the results' bytes can be counted, and at least one call.
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

// A call that is made again and again.
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

// Times a batch of calls and stores the seconds it took. The timer is stopped, and the hook behind it called,
// also after an error. Of several errors the first is returned.
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

// The upper half of a double's bits: those of numbers that are not negative compare like the numbers, to a millionth of them,
// and all that is no sensible time lies above them. Saves a library's comparison: 312 bytes on a Cortex-M3.
static uint32_t upper_of(double x) {
  uint64_t bits;
  (void)memcpy(&bits, &x, sizeof bits);
  return (uint32_t)(bits >> 32);
}

#define UPPER_OF_ONE 0x3ff00000U
#define UPPER_OF_TWO_TO_31 0x41e00000U

// Returns how many calls the next batch shall have: as many as take ratio times one call's time, and one, but at least
// trunc(number * 1.618).
static uint32_t grown(uint32_t number, double ratio) {
  const uint32_t golden = number + (uint32_t)(((uint64_t)number * 0x9e353f7dU) >> 32);
  const uint32_t upper = upper_of(ratio);
  uint32_t next = INT32_MAX;
  if (upper < UPPER_OF_ONE) {
    next = 1;
  } else if (upper < UPPER_OF_TWO_TO_31) {
    // Truncated by hand, which saves a library's conversion (40 bytes on a Cortex-M3, without which the image would
    // exceed its budget): the first 32 bits of what follows the exponent, without those below 1.
    uint64_t bits;
    (void)memcpy(&bits, &ratio, sizeof bits);
    next = (0x80000000U | (uint32_t)(bits >> 21)) >> (31U - ((upper - UPPER_OF_ONE) >> 20));
    next++;
  } else {
    // So many that INT32_MAX stays.
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
  int error = boardsmith_take(sizeof(TVMByteArray) + results_bytes, &memory);
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
        result++;
        left--;
        zeros = 0;
      } else if (upper_of(seconds) != 0U) {
        settings[NUMBER] = grown(settings[NUMBER], boardsmith_quotient(least, *result));
      } else {
        // The timer showed 0: as many calls are timed again.
      }
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
