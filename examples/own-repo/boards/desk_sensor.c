// SPDX-License-Identifier: Apache-2.0
//
// Functions of a board's own, which the host calls by name: a capture from a sensor, and a step that prepares what was
// captured for a model. The sensor is made up, so that this runs anywhere; a real one would be read where next_sample
// is. The board files beside this one name the functions and this file.
#include <dlpack/dlpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#define PERIOD 32U  // samples of the made-up sensor's triangle
#define STEP 1000

// What both functions work on: one dimension, contiguous, of that type.
static bool is_vector(const TVMValue* arg, int type_code, uint8_t code, uint8_t bits) {
  if ((type_code != (int)kTVMNDArrayHandle) && (type_code != (int)kTVMDLTensorHandle)) {
    return false;
  }
  const DLTensor* t = arg->v_handle;
  return (t->ndim == 1) && (t->dtype.code == code) && (t->dtype.bits == bits) && (t->dtype.lanes == 1U) &&
         (t->strides == NULL);
}

static int refuse(const char* why) {
  TVMAPISetLastError(why);
  return -1;
}

// The sensor: a triangle from 0 up to 16000 and down again.
static int16_t next_sample(uint32_t n) {
  const uint32_t at = n % PERIOD;
  return (int16_t)((int32_t)STEP * (int32_t)((at <= (PERIOD / 2U)) ? at : (PERIOD - at)));
}

int desk_capture(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                 void* resource_handle);
int desk_scale(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
               void* resource_handle);

// desk.capture(samples: int16 [n]) -> n: fills samples with new values of the sensor.
int desk_capture(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                 void* resource_handle) {
  static uint32_t clock;  // of the simulated sensor
  (void)resource_handle;
  if ((num_args != 1) || !is_vector(&args[0], type_codes[0], kDLInt, 16)) {
    return refuse("desk.capture: needs one int16 vector");
  }
  const DLTensor* samples = args[0].v_handle;
  int16_t* data = samples->data;
  for (int64_t i = 0; i < samples->shape[0]; i++) {
    data[i] = next_sample(clock);
    clock++;
  }
  out_value->v_int64 = samples->shape[0];
  *out_type = (int)kTVMArgInt;
  return 0;
}

// desk.scale(samples: int16 [n], features: float32 [n]): subtracts the mean, and divides by the largest magnitude.
int desk_scale(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
               void* resource_handle) {
  (void)resource_handle;
  if ((num_args != 2) || !is_vector(&args[0], type_codes[0], kDLInt, 16) ||
      !is_vector(&args[1], type_codes[1], kDLFloat, 32)) {
    return refuse("desk.scale: needs an int16 and a float32 vector");
  }
  const DLTensor* samples = args[0].v_handle;
  const DLTensor* features = args[1].v_handle;
  const int64_t n = samples->shape[0];
  if ((n < 1) || (n != features->shape[0])) {
    return refuse("desk.scale: the vectors differ in length, or are empty");
  }
  const int16_t* in = samples->data;
  float* out = features->data;
  int64_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += in[i];
  }
  const float mean = (float)sum / (float)n;
  float largest = 1.0F;  // of a flat signal: no division by 0
  for (int64_t i = 0; i < n; i++) {
    out[i] = (float)in[i] - mean;
    const float size = (out[i] < 0.0F) ? -out[i] : out[i];
    largest = (size > largest) ? size : largest;
  }
  for (int64_t i = 0; i < n; i++) {
    out[i] /= largest;
  }
  out_value->v_handle = NULL;
  *out_type = (int)kTVMNullptr;
  return 0;
}
