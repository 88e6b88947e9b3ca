// SPDX-License-Identifier: Apache-2.0
//
// A simulated timer: the test sets the time.
#ifndef BOARDSMITH_TEST_TIMER_H_
#define BOARDSMITH_TEST_TIMER_H_

#include <tvm/runtime/crt/platform.h>

static struct {
  double now;  // seconds; the timed function advances it
  double start;
  int running;
  int start_error, stop_error;  // results of the functions
  int starts, stops;
} timer;

tvm_crt_error_t TVMPlatformTimerStart(void) {
  timer.starts++;
  if (timer.running != 0) {
    return kTvmErrorPlatformTimerBadState;
  }
  if (timer.start_error == 0) {
    timer.running = 1;
    timer.start = timer.now;
  }
  return (tvm_crt_error_t)timer.start_error;
}

tvm_crt_error_t TVMPlatformTimerStop(double* seconds) {
  timer.stops++;
  if (timer.running == 0) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer.running = 0;
  *seconds = timer.now - timer.start;
  return (tvm_crt_error_t)timer.stop_error;
}

#endif  // BOARDSMITH_TEST_TIMER_H_
